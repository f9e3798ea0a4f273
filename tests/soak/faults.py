"""The faults of a soak: each does something to a running cluster and undoes it.

A fault lasts until the loads have gone on in spite of it, where they can: with two faults at once
a partition may be without its two replicas in sync, and then nothing may be acknowledged.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from barnabas_protocol.ids import TopicPartition
from tests.soak.slow_disk import slow_disk
from tests.soak.stage import PARTITIONS, TOPICS, WITNESS, Stage
from tests.support.barnabas_cluster import pause, resume
from tests.support.small_disks import fill_up

Fault = Callable[[int], AbstractAsyncContextManager[None]]
REPLICAS = 3
# A busy machine may take that long; whether a start is slow is for others to say.
START_SECONDS = 180
# The chance that there is one fault more at the same time.
ANOTHER = 0.75


class Faults:
    """The kinds of faults, drawn by a seed."""

    def __init__(self, stage: Stage, seed: int, at_once_max: int) -> None:
        self._stage = stage
        self._at_once_max = at_once_max
        self._random = random.Random(seed)
        #: Each with how often it is drawn.
        self.kinds: dict[Fault, int] = {
            self.killed: 6,
            self.frozen: 3,
            self.cut_off: 3,
            self.slow: 2,
            self.full: 1,
            self.moved: 3,
            self.rolled: 1,
            self.store_away: 2,
        }

    def draw(self) -> list[tuple[Fault, int]]:
        """What happens next: one fault, or some at once, each to a broker of its own."""
        kinds = self._random.choices(list(self.kinds), list(self.kinds.values()))
        if kinds == [self.rolled]:
            return [(self.rolled, -1)]  # it takes all the brokers
        while len(kinds) < self._at_once_max and self._random.random() < ANOTHER:
            alone = {self.rolled, *kinds} & {self.rolled, self.store_away}
            weights = {kind: some for kind, some in self.kinds.items() if kind not in alone}
            kinds += self._random.choices(list(weights), list(weights.values()))
        # What asks the brokers for something comes first: with the others there may be no answer.
        kinds.sort(key=lambda kind: kind != self.moved)
        ending = [kind for kind in kinds if self._ends(kind)]
        others = [kind for kind in kinds if not self._ends(kind)]
        victims = self._random.sample(range(WITNESS), len(ending))
        left = [one for one in self._stage.brokers if one not in victims]
        return [
            *zip(others, self._random.sample(left, len(others)), strict=True),
            *zip(ending, victims, strict=True),
        ]

    def _ends(self, kind: Fault) -> bool:
        """Whether the process of the broker may end by it."""
        return kind in (self.killed, self.full)

    @asynccontextmanager
    async def killed(self, victim: int) -> AsyncIterator[None]:
        """Kill -9, and start it again."""
        broker = self._stage.brokers[victim]
        await asyncio.to_thread(broker.kill)
        yield
        await asyncio.to_thread(broker.start, START_SECONDS)

    @asynccontextmanager
    async def frozen(self, victim: int) -> AsyncIterator[None]:
        """SIGSTOP, sometimes for longer than its session lasts."""
        broker = self._stage.brokers[victim]
        pause(broker)
        try:
            yield
            await asyncio.sleep(self._random.uniform(0, 6))
        finally:
            resume(broker)

    @asynccontextmanager
    async def cut_off(self, victim: int) -> AsyncIterator[None]:
        """No packet comes or goes, sometimes for longer than its session lasts."""
        self._stage.hosts.cut_off(victim)
        try:
            yield
            await asyncio.sleep(self._random.uniform(0, 6))
        finally:
            self._stage.hosts.join(victim)

    @asynccontextmanager
    async def slow(self, victim: int) -> AsyncIterator[None]:
        """Its disk is slow: each sync takes a quarter of a second, each write 20 ms."""
        with slow_disk(self._stage.brokers[victim].pid, sync_ms=250, write_ms=20):
            yield
            await asyncio.sleep(self._random.uniform(1, 5))

    @asynccontextmanager
    async def full(self, victim: int) -> AsyncIterator[None]:
        """Its disk has no room; then it has again."""
        broker = self._stage.brokers[victim]
        filler = broker.data_directory / "filler"
        await asyncio.to_thread(fill_up, broker.data_directory, filler)
        try:
            yield
        finally:
            filler.unlink()

    @asynccontextmanager
    async def moved(self, _: int) -> AsyncIterator[None]:
        """Some partitions are given other replicas, some of them while they move already."""
        for _ in range(self._random.randint(1, 3)):
            targets = {
                TopicPartition(topic, partition): self._random.sample(
                    list(self._stage.brokers), REPLICAS
                )
                for topic in TOPICS
                for partition in range(PARTITIONS)
                if self._random.random() < 0.3
            }
            if targets:
                await self._stage.reassign(targets)
        yield

    @asynccontextmanager
    async def rolled(self, _: int) -> AsyncIterator[None]:
        """Every broker but one is stopped in an orderly way and started, one after the other."""
        for node_id, broker in self._stage.brokers.items():
            if node_id != WITNESS:
                await asyncio.to_thread(broker.stop, 60)
                await asyncio.to_thread(broker.start, START_SECONDS)
                await self._stage.until_mended()
        yield

    @asynccontextmanager
    async def store_away(self, _: int) -> AsyncIterator[None]:
        """The arbiter's store is killed, and comes back."""
        await asyncio.to_thread(self._stage.etcd.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(self._stage.etcd.start)
