"""`python -m tests.soak --minutes N`: faults at random on real brokers until the time is over.

The verdict: no acknowledged record lost, doubled or out of order; every group has read each record
once; no send failed; memory, descriptors and threads of the broker that was never restarted are
flat. Exit status 0 only if all of it holds. A seed repeats the choice of faults, not their timing.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.soak.faults import Fault, Faults
from tests.soak.resources import growth, typical
from tests.soak.stage import BROKERS, GROUPS, WITNESS, Stage
from tests.support.etcd_process import EtcdProcess
from tests.support.network_namespaces import NetworkNamespaces, are_possible
from tests.support.small_disks import small_disks

STEP = 180
# Of a disk in memory: room for the records of some minutes, and for the copies of moves.
BASE_MEBIBYTES = 512
MEBIBYTES_A_MINUTE = 24
console = Console(highlight=False)


def main() -> int:
    """Parse arguments, run, tell the verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--faults", type=int, default=0, help="end after so many faults")
    parser.add_argument(
        "--at-once", type=int, default=2, choices=range(1, BROKERS), help="faults at once, at most"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    # What it has made, brokers and namespaces, goes with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not are_possible():
        console.print("soak needs root and network namespaces (Debian's package iproute2)")
        return 2
    with tempfile.TemporaryDirectory(prefix="barnabas-soak-") as temporary:
        directory = arguments.directory or Path(temporary)
        return _soak(directory, arguments)


def _soak(directory: Path, arguments: argparse.Namespace) -> int:
    console.print(f"seed {arguments.seed}, {arguments.minutes:g} minutes, {BROKERS} brokers")
    folders = [directory / "cluster" / str(node_id) / "data" for node_id in range(BROKERS)]
    mebibytes = BASE_MEBIBYTES + int(MEBIBYTES_A_MINUTE * arguments.minutes)
    etcd = EtcdProcess(directory / "etcd", listen_on="0.0.0.0")
    with NetworkNamespaces(BROKERS) as hosts, small_disks(folders, mebibytes):
        stage = Stage(hosts, etcd, directory)
        try:
            with etcd, stage.cluster:
                problems, done = asyncio.run(_run(stage, arguments))
        except BaseException:
            console.print(stage.cluster.logs(), markup=False)
            raise
    return _tell(stage, problems, done)


async def _run(stage: Stage, arguments: argparse.Namespace) -> tuple[list[str], Counter[str]]:
    """Faults until the time is over; what is wrong, and how often what was done."""
    done: Counter[str] = Counter()
    try:
        await stage.start()
        faults = Faults(stage, arguments.seed, arguments.at_once)
        end = time.monotonic() + arguments.minutes * 60
        while time.monotonic() < end and not 0 < arguments.faults <= done.total():
            drawn = faults.draw()
            names = [f"{kind.__name__} {victim}" for kind, victim in drawn]
            began = time.monotonic()
            await _suffer(stage, drawn)
            done.update(kind.__name__ for kind, _ in drawn)
            await stage.sample()
            took = time.monotonic() - began
            records = sum(stage.produced().values())
            console.print(f"{done.total():5} {', '.join(names):32} {took:5.1f} s {records:9,}")
        return await stage.finish(), done
    finally:
        await stage.stop()


async def _suffer(stage: Stage, drawn: list[tuple[Fault, int]]) -> None:
    """The faults at once; then everything is mended and the loads go on."""
    is_over = asyncio.Event()

    async def one(fault: AbstractAsyncContextManager[None], has_begun: asyncio.Event) -> None:
        async with fault:
            has_begun.set()
            await is_over.wait()

    async with asyncio.TaskGroup() as tasks:
        for kind, victim in drawn:
            has_begun = asyncio.Event()
            tasks.create_task(one(kind(victim), has_begun))
            await has_begun.wait()
        if len(drawn) == 1:
            await stage.until_going(STEP, in_all_partitions=False)
        else:
            # Nothing need be acknowledged meanwhile.
            await asyncio.sleep(2)
        is_over.set()
    await stage.until_mended()
    await stage.until_going(STEP)


def _tell(stage: Stage, problems: list[str], done: Counter[str]) -> int:
    """The tables, the verdict, and the exit status."""
    table = Table("fault", "times")
    for name, count in done.most_common():
        table.add_row(name, str(count))
    console.print(table)
    usages = Table("broker", "typical use", "grew")
    for node_id, samples in sorted(stage.samples.items()):
        grew = growth(samples) if node_id == WITNESS else "-"
        usages.add_row(str(node_id), str(typical(samples)), grew or "no")
    console.print(usages)
    if found := growth(stage.samples[WITNESS]):
        problems = [*problems, f"broker {WITNESS}, never restarted, grew {found}"]
    records = sum(stage.produced().values())
    repeated = sum(one.repeated_count for one in stage.histories.values())
    console.print(
        f"{done.total()} faults, {records:,} records acknowledged, read by {len(GROUPS)} groups"
        f" ({repeated} commits repeated)"
    )
    for problem in problems[:20]:
        console.print(f"[red]{problem}[/red]", soft_wrap=True)
    console.print(
        "none lost, doubled or out of order" if not problems else f"{len(problems)} wrong"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
