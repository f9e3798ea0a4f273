"""A coordinator runtime of counting shards with its writer, for tests on virtual time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.purgatory.timer import Timer
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from tests.broker.coordinator.runtime.counting_shard import CountingShard
from tests.support.partition_writer import FakePartitionWriter
from tests.support.virtual_loop import VirtualClock

TOPIC = "__counters"


class WorkClock(VirtualClock):
    """A clock that also counts the work that a test says was done on the loop."""

    worked_ms = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.worked_ms * 1_000_000


class World:
    """A runtime with its writer, inside a virtual loop."""

    def __init__(self, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        self.clock = clock = WorkClock(loop)
        self.writer = FakePartitionWriter()
        self.shards: list[CountingShard] = []
        self.runtime: CoordinatorRuntime[CountingShard] = CoordinatorRuntime(
            topic=TOPIC,
            partition_count=lambda: 50,
            new_shard=self._new_shard,
            writer=self.writer,
            clock=clock,
            timer=Timer(loop, clock),
            settings=RuntimeSettings(**settings),
        )

    def _new_shard(self, partition: int) -> CountingShard:
        self.shards.append(CountingShard(partition))
        return self.shards[-1]

    async def start(self, partition: int = 0) -> None:
        self.runtime.load(partition, 1)
        await self.runtime.wait_until_loaded(partition)

    async def add(self, name: str = "n", count: int = 1, partition: int = 0, **more: Any) -> int:
        return await self.runtime.execute(
            partition, lambda shard, _: shard.add(name, count, **more)
        )

    async def get(self, name: str = "n", partition: int = 0) -> int:
        return await self.runtime.execute(partition, lambda shard, _: shard.get(name))

    def log(self, partition: int = 0) -> Any:
        return self.writer.log(TopicPartition(TOPIC, partition))

    async def error(self, work: Coroutine[Any, Any, Any]) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            await work
        return caught.value.code
