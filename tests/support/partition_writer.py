"""The partition that a coordinator writes to, in memory: appends can fail, hang and be refused.

refuse_with   the next appends raise this code and leave nothing in the log
doubt_with    the next append raises this code although its batch is in the log
pause()       appends are in the log but not committed until `resume()`
bytes_max     how large a batch the topic takes, where that is more than the runtime's own limit
"""

import asyncio
from dataclasses import dataclass, field

from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import iterate_headers, stamp
from barnabas_protocol.records.record import Record, decode_records


@dataclass
class MemoryRead:
    buffers: list[bytes]
    size_bytes: int = 0


@dataclass
class MemoryLog:
    """Whole batches with their offsets."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    end_offset: int = 0

    def append(self, data: bytes) -> int:
        for position, header in iterate_headers(data):
            batch = bytearray(data[position : position + header.size_bytes])
            stamp(batch, 0, self.end_offset, 0)
            self.batches.append((self.end_offset, bytes(batch)))
            self.end_offset += header.last_offset_delta + 1
        return self.end_offset - 1

    def records(self) -> list[Record]:
        return [record for _, batch in self.batches for record in decode_records(batch)]


class FakePartitionWriter:
    """A `PartitionWriter` over logs in memory."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.refuse_with: ErrorCode | None = None
        self.doubt_with: ErrorCode | None = None
        self.read_error: ErrorCode | None = None
        self.append_count = 0
        self.bytes_max = 0
        self._going = asyncio.Event()
        self._going.set()
        self.reads_going = asyncio.Event()
        self.reads_going.set()

    def log(self, topic_partition: TopicPartition) -> MemoryLog:
        return self.logs.setdefault(topic_partition, MemoryLog())

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    async def append(self, topic_partition: TopicPartition, batch: bytes) -> int:
        self.append_count += 1
        if self.refuse_with is not None:
            raise KafkaError(self.refuse_with)
        last_offset = self.log(topic_partition).append(batch)
        if self.doubt_with is not None:
            code, self.doubt_with = self.doubt_with, None
            raise KafkaError(code)
        await self._going.wait()
        if self.refuse_with is not None:
            raise KafkaError(self.refuse_with)
        return last_offset

    async def wait_committed(self, topic_partition: TopicPartition, end_offset: int) -> None:
        await self._going.wait()

    def batch_bytes_max(self, topic_partition: TopicPartition) -> int:
        return self.bytes_max

    async def read(
        self, topic_partition: TopicPartition, offset: int, max_bytes: int
    ) -> MemoryRead:
        await self.reads_going.wait()
        if self.read_error is not None:
            raise KafkaError(self.read_error)
        found: list[bytes] = []
        size = 0
        for base_offset, batch in self.log(topic_partition).batches:
            (_, header), *_ = iterate_headers(batch)
            if base_offset + header.last_offset_delta < offset:
                continue
            if found and size + len(batch) > max_bytes:
                found.append(batch[: max_bytes - size])
                break
            found.append(batch)
            size += len(batch)
        return MemoryRead(found, size)

    def start_offset(self, topic_partition: TopicPartition) -> int:
        batches = self.log(topic_partition).batches
        return batches[0][0] if batches else self.log(topic_partition).end_offset

    def end_offset(self, topic_partition: TopicPartition) -> int:
        return self.log(topic_partition).end_offset
