"""Members of groups and transactional processors for the tests on a cluster; each is a task.

`GroupReading` is what the members of one group have read together, and what they did wrong.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.errors import AbortableError, MembershipLostError, RetriableError
from barnabas_client.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import Notes, Ownership


class GroupReading:
    """A group of consumers that read one topic; also the interceptor that hears of commits."""

    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._settings = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 200,
            **settings,
            "group_id": group,
            "interceptors": [self],
        }
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._consumers: list[Consumer] = []
        self.group = group
        self.ownership = Ownership()
        self.notes: list[Notes] = []
        #: The offsets that were handed out, and the next one, by partition.
        self.seen: dict[int, set[int]] = defaultdict(set)
        self.next_offsets: dict[TopicPartition, int] = {}
        self.read_count = 0
        self.commit_count = 0
        self.violations: list[str] = []

    def start(self, member_count: int) -> None:
        for number in range(member_count):
            notes = Notes(f"{self.group}-{number}", self.ownership)
            self.notes.append(notes)
            self._tasks.append(asyncio.create_task(self._read(notes)))

    async def stop(self) -> None:
        """End in an orderly way; raises what has ended a member before."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

    def identities(self) -> list[ConsumerGroupMetadata]:
        """Who the members are."""
        return [consumer.group_metadata() for consumer in self._consumers]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Check that nothing was committed that the program has not got."""
        self.commit_count += 1
        for partition, committed in offsets.items():
            if committed.offset > self.next_offsets.get(partition, 0):
                self.violations.append(f"{partition} committed at {committed.offset}")

    async def _read(self, notes: Notes) -> None:
        async with Consumer(self._bootstrap, **self._settings) as consumer:
            self._consumers.append(consumer)
            consumer.subscribe([self._topic], listener=notes)
            while not self._stop.is_set():
                for record in await consumer.poll(timeout_ms=100):
                    partition = TopicPartition(record.topic, record.partition)
                    self.seen[record.partition].add(record.offset)
                    handed_out = self.next_offsets.get(partition, 0)
                    self.next_offsets[partition] = max(handed_out, record.offset + 1)
                    self.read_count += 1


class Processor:
    """Consumes, copies to another topic and commits, all in transactions."""

    def __init__(
        self, bootstrap: str, source: str, target: str, transactional_id: str, **settings: Any
    ) -> None:
        self._bootstrap = bootstrap
        self._source = source
        self._target = target
        self._settings = settings
        self.transactional_id = transactional_id
        self.copied_count = 0
        self.committed_count = 0
        #: Why transactions were given up.
        self.aborts: list[str] = []

    async def run(self, stop: asyncio.Event) -> None:
        async with (
            Consumer(
                self._bootstrap,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                **self._settings,
            ) as consumer,
            Producer(self._bootstrap, transactional_id=self.transactional_id) as producer,
        ):
            consumer.subscribe([self._source])
            await producer.init_transactions()
            while not stop.is_set():
                await self._copy(consumer, producer)

    async def _copy(self, consumer: Consumer, producer: Producer) -> None:
        records = await consumer.poll(timeout_ms=100)
        if not records:
            return
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        await producer.begin_transaction()
        try:
            for record in records:
                producer.send(self._target, record.value, partition=record.partition)
                partition = TopicPartition(record.topic, record.partition)
                offsets[partition] = OffsetAndMetadata(record.offset + 1, record.leader_epoch)
            await producer.send_offsets(offsets, consumer.group_metadata())
            await _persist(producer.commit_transaction)
        except (AbortableError, MembershipLostError, RetriableError) as error:
            self.aborts.append(repr(error))
            await _persist(producer.abort_transaction)
            await _rewind(consumer)
            return
        self.copied_count += len(records)
        self.committed_count += 1


async def _persist(call: Callable[[], Awaitable[None]]) -> None:
    """Repeat a commit or an abort until it has an answer."""
    while True:
        try:
            return await call()
        except RetriableError:
            continue


async def _rewind(consumer: Consumer) -> None:
    """Go back to what is committed."""
    committed = await consumer.committed(consumer.assignment())
    for partition, offset in committed.items():
        consumer.seek(partition, OffsetAndMetadata(0) if offset is None else offset)
