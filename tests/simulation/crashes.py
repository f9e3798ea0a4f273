"""One seed's story: a broker that dies again and again while clients work, checked each time."""

import asyncio
from enum import Enum

from tests.simulation.history import History
from tests.simulation.workload import Administrator, Committer, Sender, create
from tests.support.simulated_broker import End, Life, Machine
from tests.support.simulated_random import SimulatedRandom

TOPIC = "orders"
SETTLE_SECONDS = 5
"""How long after its start a broker may take until all that it recovered can be read."""


class Faults(Enum):
    """What the machine does, and what must hold then."""

    POWER_AND_FSYNC = "group-fsync: lost power or a killed process loses nothing acknowledged"
    KILL_AND_PAGE_CACHE = "page-cache: a killed process loses nothing acknowledged"
    POWER_AND_PAGE_CACHE = "page-cache: lost power keeps a prefix of each log, and all metadata"


class Story:
    """All that a seed decides."""

    def __init__(self, seed: int, faults: Faults, lives: int = 4) -> None:
        self._draws = SimulatedRandom(seed)
        self._faults = faults
        self._lives = lives
        policy = "group-fsync" if faults is Faults.POWER_AND_FSYNC else "page-cache"
        self.machine = Machine(
            seed,
            {
                "barnabas.flush.policy": policy,
                "barnabas.flush.bytes": str(500 + self._below(5_000)),
                "log.index.interval.bytes": str(1 + self._below(1_000)),
                "log.roll.ms": str(20 + self._below(2_000)),
                "log.retention.ms": "-1",
                "log.flush.offset.checkpoint.interval.ms": "500",
                "replica.high.watermark.checkpoint.interval.ms": "500",
                "metadata.log.max.record.bytes.between.snapshots": str(300 + self._below(3_000)),
                "log.segment.delete.delay.ms": "100",
            },
        )
        self.machine.piece_bytes_max = 1 + self._below(2_000)
        self.history = History(is_durable=faults is not Faults.POWER_AND_PAGE_CACHE)
        self.senders = [
            Sender(
                f"sender-{number}",
                self.history,
                SimulatedRandom(self._below(1 << 30)),
                TOPIC,
                number % 2,
                is_idempotent=number < 3,
            )
            for number in range(4)
        ]
        self.committer = Committer(
            "group", self.history, SimulatedRandom(self._below(1 << 30)), TOPIC
        )
        self.administrator = Administrator(self.history, SimulatedRandom(self._below(1 << 30)))

    def run(self) -> None:
        """Live until the last life, which ends cleanly, and one more to look at what is there."""
        for _ in range(self._lives):
            self.machine.live(self._work, end=self._end(), operations=20 + self._below(600))
        self.machine.live(self._work)
        self.machine.live(self._check)
        if self.machine.errors:
            raise AssertionError("\n".join(["the broker logged:", *self.machine.errors]))

    def _end(self) -> End:
        if self._faults is Faults.KILL_AND_PAGE_CACHE:
            return End.KILL
        if self._faults is Faults.POWER_AND_FSYNC:
            return (End.KILL, End.POWER_LOSS)[self._below(2)]
        return End.POWER_LOSS

    async def _work(self, life: Life) -> None:
        await self._check(life)
        async with await life.connect() as client:
            if TOPIC not in self.history.topics or self.history.topics[TOPIC].is_delete_asked:
                await create(self.history, client, TOPIC, 2)
        async with asyncio.TaskGroup() as group:
            for sender in self.senders:
                group.create_task(sender.run(life, self._below(20)))
            group.create_task(self.committer.run(life, self._below(6)))
            group.create_task(self.administrator.run(life, self._below(6)))

    async def _check(self, life: Life) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        async with await life.connect() as client:
            await self.history.check(client, life.server.image.cluster_id)

    def _below(self, number: int) -> int:
        return self._draws.integer(number)
