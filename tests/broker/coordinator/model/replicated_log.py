"""The partitions of the offsets topic as two brokers share them, with everything that may go wrong.

refuse     appends raise after a while, and leave nothing
doubt      the next append is in the log and raises all the same
hang       the high watermark stands still
fail_reads loads raise
move       another broker leads; of what is not committed, the newest batches may be lost
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, decode_records
from tests.support.partition_writer import MemoryLog, MemoryRead


class ReplicatedPartition:
    """One partition: its batches, how far they are committed, and who leads."""

    def __init__(self, on_append: Callable[[ReplicatedPartition, list[Record]], None]) -> None:
        self.log = MemoryLog()
        self.records: list[Record] = []
        self.high_watermark = 0
        self.leader = -1
        self.leader_epoch = 0
        self.latency_ms = 1
        self.is_refusing = False
        self.is_doubtful = False
        self.is_hanging = False
        self.is_unreadable = False
        # What appends hold that will be refused: decided by the shard, and in no log.
        self.refused_records: list[Record] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._on_append = on_append

    def data(self) -> bytes:
        return b"".join(batch for _, batch in self.log.batches)

    def add(self, batch: bytes) -> None:
        """Append as the leader does, unless the batch was imported."""
        before = self.log.end_offset
        self.log.append(batch)
        fresh = [each for _, one in self.log.batches[-1:] for each in decode_records(one)]
        assert fresh[0].offset == before
        self._on_append(self, fresh)
        self.records += fresh

    async def append(self, node: int, batch: bytes) -> int:
        self.check_leader(node)
        if self.is_refusing:
            self.refused_records = list(decode_records(batch))
            try:
                await asyncio.sleep(self.latency_ms / 1000)
            finally:
                self.refused_records = []
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.add(batch)
        end_offset = self.log.end_offset
        if self.is_doubtful:
            self.is_doubtful = False
            self._commit_later()
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        await self.wait(end_offset)
        return end_offset - 1

    async def wait(self, end_offset: int) -> None:
        if self.high_watermark >= end_offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, future))
        self._commit_later()
        await future

    def check_leader(self, node: int) -> None:
        if node != self.leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def release(self) -> None:
        self.is_hanging = False
        self._commit_later()

    def move(self, leader: int, leader_epoch: int, lost_batches: int) -> None:
        """Let another lead, with what is committed and some of what is not."""
        for _ in range(lost_batches):
            if not self.log.batches or self.log.batches[-1][0] < self.high_watermark:
                break
            self.log.end_offset = self.log.batches.pop()[0]
        self.records = [each for each in self.records if each.offset < self.log.end_offset]
        self.leader, self.leader_epoch = leader, leader_epoch
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
                future.exception()
        self._commit_later()

    def _commit_later(self) -> None:
        asyncio.get_running_loop().call_later(self.latency_ms / 1000, self._commit)

    def _commit(self) -> None:
        if self.is_hanging:
            return
        self.high_watermark = self.log.end_offset
        for end_offset, future in self._waiting:
            if end_offset <= self.high_watermark and not future.done():
                future.set_result(None)
        self._waiting = [each for each in self._waiting if not each[1].done()]


class BrokerWriter:
    """The `PartitionWriter` of one broker."""

    def __init__(self, node: int, partitions: list[ReplicatedPartition]) -> None:
        self._node = node
        self._partitions = partitions

    async def append(self, topic_partition: TopicPartition, batch: bytes) -> int:
        return await self._partitions[topic_partition.partition].append(self._node, batch)

    async def wait_committed(self, topic_partition: TopicPartition, end_offset: int) -> None:
        partition = self._partitions[topic_partition.partition]
        partition.check_leader(self._node)
        await partition.wait(end_offset)

    def batch_bytes_max(self, topic_partition: TopicPartition) -> int:
        return 0

    async def read(
        self, topic_partition: TopicPartition, offset: int, max_bytes: int
    ) -> MemoryRead:
        partition = self._partitions[topic_partition.partition]
        await asyncio.sleep(partition.latency_ms / 1000)
        partition.check_leader(self._node)
        if partition.is_unreadable:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return MemoryRead([batch for base, batch in partition.log.batches if base >= offset])

    def start_offset(self, topic_partition: TopicPartition) -> int:
        return 0

    def end_offset(self, topic_partition: TopicPartition) -> int:
        return self._partitions[topic_partition.partition].log.end_offset
