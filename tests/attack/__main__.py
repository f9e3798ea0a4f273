"""`python -m tests.attack [--quick]`: attack one broker, then three, beside a well-behaved client.

The verdict is liveness and memory: no request of that client fails, it is never silent for longer
than a broker's session may be, no attack reaches what it is after, the brokers still make a topic
afterwards, and their memory has a bounded peak and comes back. Exit status 0 only if all of it
holds.
"""

import argparse
import asyncio
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.attack.attacks import ATTACKS, Attack, run_attack
from tests.attack.target import COMPACTED_TOPIC, DATA_TOPIC, Address, Target
from tests.attack.tls_port import add_tls, tls_port_of
from tests.attack.witness import TOPIC, Witness
from tests.support.barnabas_cluster import BarnabasCluster

# As long as a broker may be silent in these clusters before it is fenced.
SILENCE_SECONDS_MAX = 6.0
MEBIBYTE = 1 << 20
PEAK_BYTES_MAX = 1_500 * MEBIBYTE
KEPT_BYTES_MAX = 400 * MEBIBYTE
SETTLE_SECONDS_MAX = 20
SAMPLE_SECONDS = 0.1
_PROPERTIES = {"auto.create.topics.enable": "false", "broker.session.timeout.ms": "6000"}
console = Console(highlight=False)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one attack has come to."""

    name: str
    seconds: float
    gap_seconds: float
    errors: Sequence[str]
    peak_bytes: int
    kept_bytes: int
    achieved: str

    @property
    def is_good(self) -> bool:
        """Whether nothing of the verdict is violated."""
        return (
            not self.errors
            and not self.achieved
            and self.gap_seconds <= SILENCE_SECONDS_MAX
            and self.peak_bytes <= PEAK_BYTES_MAX
            and self.kept_bytes <= KEPT_BYTES_MAX
        )


class Memory:
    """The resident memory of the largest broker, sampled while attacks go on."""

    def __init__(self, cluster: BarnabasCluster) -> None:
        self._cluster = cluster
        self.peak_bytes = 0

    def now_bytes(self) -> int:
        """Of the largest process."""
        processes = [broker.process for broker in self._cluster.brokers.values()]
        return max(process.resident_bytes() for process in processes if process is not None)

    async def run(self) -> None:
        """Keep the peak until cancelled."""
        while True:
            self.peak_bytes = max(self.peak_bytes, self.now_bytes())
            await asyncio.sleep(SAMPLE_SECONDS)

    async def settled(self, level_bytes: int) -> int:
        """The memory once it is back near a level, or when the time for that is over."""
        until = time.monotonic() + SETTLE_SECONDS_MAX
        while self.now_bytes() > level_bytes + KEPT_BYTES_MAX and time.monotonic() < until:
            await asyncio.sleep(SAMPLE_SECONDS)
        return self.now_bytes()


def main() -> int:
    """Parse arguments, attack, tell the verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less than a minute")
    parser.add_argument("--brokers", type=int, action="append", help="only so many; repeatable")
    parser.add_argument("--only", action="append", help="only this attack; repeatable")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    attacks = [one for one in ATTACKS if not arguments.only or one.__name__ in arguments.only]
    console.print(f"seed {arguments.seed}")
    # The brokers are ended on the way out, and the attacker is not waited for.
    signal.signal(signal.SIGTERM, _terminate)
    is_good = True
    for count in arguments.brokers or ([1] if arguments.quick else [1, 3]):
        with tempfile.TemporaryDirectory(prefix="barnabas-attack-") as directory:
            cluster = BarnabasCluster(Path(directory), count, _PROPERTIES)
            add_tls(cluster.brokers.values(), Path(directory) / "tls")
            with cluster:
                is_good &= asyncio.run(_attack(cluster, attacks, arguments))
    console.print("the brokers held" if is_good else "THE ATTACK REACHED SOMETHING")
    return 0 if is_good else 1


def _terminate(number: int, _: FrameType | None) -> None:
    for attacker in multiprocessing.active_children():
        attacker.terminate()
    sys.exit(128 + number)


async def _attack(
    cluster: BarnabasCluster, attacks: Sequence[Attack], arguments: argparse.Namespace
) -> bool:
    count = len(cluster.brokers)
    brokers = cluster.brokers.values()
    target = Target(
        brokers=[
            Address(port=one.port, admin_port=one.admin_port, tls_port=tls_port_of(one))
            for one in brokers
        ],
        seconds=2.0 if arguments.quick else 15.0,
        is_quick=arguments.quick,
        seed=arguments.seed,
    )
    async with Admin(cluster.bootstrap) as admin:
        await cluster.until_formed(admin)
        compacted = NewTopic(
            name=COMPACTED_TOPIC, partition_count=1, configs={"cleanup.policy": "compact"}
        )
        await cluster.create_topics(
            admin,
            NewTopic(name=TOPIC, partition_count=count),
            NewTopic(name=DATA_TOPIC, partition_count=1),
            compacted,
        )
        witness, memory = Witness(cluster.bootstrap, count), Memory(cluster)
        watching = asyncio.create_task(witness.run())
        sampling = asyncio.create_task(memory.run())
        await _until_it_flows(witness)
        # In a process of its own: what keeps the attacker busy must not hold up the witness.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as attacker:
            outcomes = [await _one(attacker, attack, target, witness, memory) for attack in attacks]
        made = await _makes_a_topic(admin)
        witness.stop()
        async with asyncio.timeout(60):
            await watching
        sampling.cancel()
    _show(count, outcomes, witness)
    if not made:
        console.print("no topic could be created afterwards")
    is_whole = witness.read_count == witness.sent_count
    return made and is_whole and all(outcome.is_good for outcome in outcomes)


async def _until_it_flows(witness: Witness) -> None:
    async with asyncio.timeout(60):
        while witness.read_count < 50:
            await asyncio.sleep(SAMPLE_SECONDS)


async def _one(
    attacker: Executor, attack: Attack, target: Target, witness: Witness, memory: Memory
) -> Outcome:
    level_bytes = memory.now_bytes()
    memory.peak_bytes, known_errors = level_bytes, len(witness.errors)
    witness.begin_attack()
    started = time.monotonic()
    loop = asyncio.get_running_loop()
    achieved = await loop.run_in_executor(attacker, run_attack, attack, target)
    seconds = time.monotonic() - started
    sent_count = witness.sent_count
    async with asyncio.timeout(60):
        while witness.sent_count < sent_count + 10:  # what it holds up counts as well
            await asyncio.sleep(SAMPLE_SECONDS)
    kept_bytes = await memory.settled(level_bytes) - level_bytes
    return Outcome(
        name=attack.__name__.replace("_", " "),
        seconds=seconds,
        gap_seconds=witness.gap_seconds,
        errors=witness.errors[known_errors:],
        peak_bytes=memory.peak_bytes,
        kept_bytes=kept_bytes,
        achieved=achieved,
    )


async def _makes_a_topic(admin: Admin) -> bool:
    """Whether the control plane still works."""
    created = await admin.topics.create([NewTopic(name="after-the-attack", partition_count=1)])
    return all(one.error is None for one in created.values())


def _show(count: int, outcomes: Sequence[Outcome], witness: Witness) -> None:
    table = Table(title=f"attacks on {count} broker{'s' if count > 1 else ''}")
    table.add_column("attack")
    for heading in ("seconds", "longest gap", "errors", "peak MiB", "kept MiB"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for one in outcomes:
        table.add_row(
            one.name,
            f"{one.seconds:.1f}",
            f"{one.gap_seconds * 1000:.0f} ms",
            str(len(one.errors)),
            str(one.peak_bytes // MEBIBYTE),
            str(one.kept_bytes // MEBIBYTE),
            "held" if one.is_good else one.achieved or "; ".join(one.errors[:2]) or "too much",
        )
    console.print(table)
    console.print(
        f"the client beside: {witness.sent_count} records written, {witness.read_count} read, "
        f"{len(witness.errors)} errors, longest gap {witness.total_gap_seconds * 1000:.0f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
