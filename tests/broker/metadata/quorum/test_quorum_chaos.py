"""Shells of the metadata log through random faults; then all that was committed is everywhere.

`QUORUM_SEEDS=n` runs n seeds from `QUORUM_SEED` on; a failing one repeats exactly.
"""

import asyncio
import os

from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.records import ConfigRecord
from tests.support.arbiter_faults import Fault
from tests.support.quorum_cluster import QuorumCluster, QuorumMachine
from tests.support.virtual_loop import run_virtual

SEED = int(os.environ.get("QUORUM_SEED", "0"))
SEEDS = int(os.environ.get("QUORUM_SEEDS", "8"))
STEPS = 60


class Chaos:
    """One run: faults and writes, at random."""

    def __init__(self, seed: int) -> None:
        self.cluster = QuorumCluster(
            3 + seed % 3, seed, snapshot_interval_bytes=(1500, 1 << 20)[seed % 2]
        )
        self.rng = self.cluster.rng
        self.committed: list[str] = []
        self.number = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.has_lost_disk = False

    async def run(self) -> None:
        cluster = self.cluster
        await cluster.start()
        await cluster.register_all()
        acts = (
            self.lose_disk,
            self.fault,
            self.write,
            self.write,
            self.write,
            self.toggle,
            self.toggle,
            self.cut,
            self.heal,
            self.arbiter,
            self.pause,
            self.lose,
        )
        for _ in range(STEPS):
            await self.rng.choice(acts)()
            await asyncio.sleep(self.rng.choice((0.001, 0.02, 0.3, 2)))
        cluster.cut()
        cluster.loss = 0.0
        cluster.lose_arbiter(False)
        cluster.arbiter_faults.clear()
        for machine in cluster.machines:
            if not machine.is_up:
                await machine.start()
        await cluster.write("last")
        await cluster.all_have("last")
        await asyncio.gather(*self.tasks)
        overrides = cluster.machines[0].publisher.image.config_overrides(4, "")
        assert [key for key in self.committed if key not in overrides] == []
        images = [machine.publisher.image for machine in cluster.machines]
        await cluster.until(
            lambda: len({machine.publisher.image.offset for machine in cluster.machines}) == 1
        )
        images = [machine.publisher.image for machine in cluster.machines]
        assert all(image == images[0] for image in images)
        await cluster.stop()

    async def write(self) -> None:
        for _ in range(self.rng.choice((1, 5, 30))):
            self.tasks.add(asyncio.create_task(self._write()))
            await asyncio.sleep(self.rng.choice((0, 0, 0.001, 0.01)))

    async def _write(self) -> None:
        active = self.cluster.active
        if active is None:
            return
        self.number += 1
        key = f"key-{self.number}"
        try:
            active.quorum.stage([ConfigRecord(4, "", key, "v" * 20)])
            await active.quorum.commit()
        except NotLeadingError:
            return
        self.committed.append(key)

    def machine(self) -> QuorumMachine:
        return self.rng.choice(self.cluster.machines)

    async def toggle(self) -> None:
        machine = self.machine()
        if not machine.is_up:
            await machine.start()
        elif self.rng.random() < 0.7:
            await machine.kill()
        else:
            await machine.stop()

    async def cut(self) -> None:
        ids = {machine.node_id for machine in self.cluster.machines}
        part = {node_id for node_id in ids if self.rng.random() < 0.4}
        self.cluster.cut(part, ids - part)

    async def heal(self) -> None:
        self.cluster.cut()
        self.cluster.loss = 0.0

    async def lose(self) -> None:
        self.cluster.loss = self.rng.choice((0.02, 0.2))

    async def arbiter(self) -> None:
        self.cluster.lose_arbiter(self.rng.random() < 0.3)

    async def fault(self) -> None:
        """The next swaps get lost, or their replies, or take effect late."""
        faults = self.cluster.arbiter_faults
        if not faults:
            faults.extend(self.rng.choices(list(Fault), k=self.rng.randint(1, 3)))
        for machine in self.cluster.machines:
            if machine.is_up:
                await machine.arbiter.let_late_arrive()

    async def lose_disk(self) -> None:
        """One in a run, of a node whose loss leaves a majority that has all that is committed."""
        cluster, machine = self.cluster, self.machine()
        record = cluster.store.stored.record
        if self.has_lost_disk or record is None or len(record.members) < 3:
            return
        others = [
            other
            for other in cluster.machines
            if other is not machine
            and other.is_up
            and tuple(other.quorum.voter) in record.members
            and other.quorum.log.log_end_offset > cluster.last_published_offset
        ]
        if len(others) < len(record.members) // 2 + 1:
            return
        self.has_lost_disk = True
        if machine.is_up:
            await machine.kill()
        machine.new_disk()
        await machine.start()

    async def pause(self) -> None:
        await asyncio.sleep(self.rng.choice((1, 10, 80)))


def test_no_committed_record_is_lost_in_any_run() -> None:
    """Rules 1 to 8, over real disks' behaviour, a network and a store that all fail."""
    for seed in range(SEED, SEED + SEEDS):
        try:
            run_virtual(_run(seed))
        except BaseException as error:
            error.add_note(f"repeat it with QUORUM_SEED={seed} QUORUM_SEEDS=1")
            raise


async def _run(seed: int) -> None:
    await Chaos(seed).run()
