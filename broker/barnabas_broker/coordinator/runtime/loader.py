"""Reads a partition of an internal topic from its start and replays it into a shard.

Not here: when to load and how requests fail meanwhile (`loop.py`). Source: OFS-2, formats.md 10.

The log is read up to its end, beyond the high watermark too: what a former leader left there will
be committed or truncated. The shard serves only when the high watermark has reached that end, so
that no response shows what was never committed (`loop.py`).
Invariant: a transactional record counts only when its producer's commit marker has been seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas_broker.coordinator.runtime.shard import Shard
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import Buffer, check_crc, iterate_headers
from barnabas_protocol.records.control import ControlType, read_marker
from barnabas_protocol.records.record import decode_records

# A few milliseconds of work: requests of other partitions do not wait longer than that.
RECORDS_PER_TURN = 250
BYTES_PER_TURN = 128 * 1024


class Chunk(Protocol):
    """Whole record batches, only the last may be cut off."""

    @property
    def buffers(self) -> Sequence[Buffer]:
        """The bytes, to be read one after the other."""
        ...


class PartitionReader(Protocol):
    """The reading half of what a coordinator needs of its partition."""

    def read(
        self, topic_partition: TopicPartition, offset: int, max_bytes: int
    ) -> Awaitable[Chunk]:
        """Read from the batch that holds the offset; at least one whole batch."""
        ...

    def start_offset(self, topic_partition: TopicPartition) -> int:
        """Return the log start offset."""
        ...

    def end_offset(self, topic_partition: TopicPartition) -> int:
        """Return the log end offset, exclusive."""
        ...


@dataclass(slots=True)
class LoadSummary:
    """What one load went through, and the log end offset up to which it read."""

    record_count: int = 0
    size_bytes: int = 0
    end_offset: int = 0


async def replay_partition(
    reader: PartitionReader, topic_partition: TopicPartition, shard: Shard, buffer_bytes: int
) -> LoadSummary:
    """Replay the whole partition; other tasks run every few hundred records, or after large ones.

    Raises: KafkaError if it cannot be read, ParseError if what is read is no batch.
    """
    summary = LoadSummary()
    offset = reader.start_offset(topic_partition)
    while offset < reader.end_offset(topic_partition):
        chunk = await reader.read(topic_partition, offset, buffer_bytes)
        data = chunk.buffers[0] if len(chunk.buffers) == 1 else b"".join(chunk.buffers)
        start_offset = offset
        yielded_count, yielded_bytes = summary.record_count, summary.size_bytes
        for next_offset in replay_batches(data, start_offset, shard, summary):
            offset = next_offset
            if (
                summary.record_count - yielded_count >= RECORDS_PER_TURN
                or summary.size_bytes - yielded_bytes >= BYTES_PER_TURN
            ):
                yielded_count, yielded_bytes = summary.record_count, summary.size_bytes
                await asyncio.sleep(0)
        if offset == start_offset:
            # Compaction took everything that was left, or the end moved back.
            break
        await asyncio.sleep(0)
    summary.end_offset = reader.end_offset(topic_partition)
    return summary


def replay_batches(
    data: Buffer, from_offset: int, shard: Shard, summary: LoadSummary
) -> Iterator[int]:
    """Replay the whole batches in the data; after each, gives the offset behind it.

    Records below `from_offset` are skipped: the first batch may start before it.
    """
    for position, header in iterate_headers(data):
        if not check_crc(data, position, header):
            raise ParseError(f"checksum of the batch at offset {header.base_offset}", position)
        summary.size_bytes += header.size_bytes
        for record in decode_records(data, position):
            if record.offset < from_offset:
                continue
            summary.record_count += 1
            if header.is_control:
                marker = read_marker(record)
                if marker is not None:
                    is_committed = marker.control_type is ControlType.COMMIT
                    shard.end_transaction(header.producer_id, is_committed)
            else:
                shard.replay(record, header.producer_id if header.is_transactional else -1)
        yield header.last_offset + 1
