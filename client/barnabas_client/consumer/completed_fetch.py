"""One partition's part of a fetch response, read in portions.

Pure. Not here: which partition is read next and whether its data is stale (`fetch_buffer.py`),
the layout of batches and records (`barnabas_protocol.records`).

Source: KIP-98 (control batches, aborted transactions), Kafka's fetch documentation: the first batch
may begin before the position, the last one may be cut off, compaction leaves gaps and empty
batches behind.

Invariants: `next_offset` only rises, and is always an offset from which reading can go on; a batch
that cannot be read stops it there for good; no record of a batch is returned before its checksum
is verified (unless that is switched off).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence

from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.errors import CorruptRecordError
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.fetch import AbortedTransaction
from barnabas_protocol.records.batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    Buffer,
    check_crc,
    read_header,
)
from barnabas_protocol.records.control import ControlType, control_type_of
from barnabas_protocol.records.record import decode_records
from barnabas_protocol.records.record_reader import RecordReader

# Base offset, length, leader epoch and, behind magic, CRC and attributes, the last offset delta.
_EXTENT = struct.Struct(">qii7xi")
_unpack_extent = _EXTENT.unpack_from


class CompletedFetch:
    """The batches of one partition in one response; `fetch_offset` is that of the request."""

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_check_crcs",
        "_data",
        "_end",
        "_failure",
        "_position",
        "_reader",
        "end_leader_epoch",
        "end_offset",
        "leader_epoch",
        "next_offset",
        "partition",
    )

    def __init__(
        self,
        partition: TopicPartition,
        data: Buffer,
        fetch_offset: int,
        *,
        check_crcs: bool = True,
        aborted: Sequence[AbortedTransaction] | None = None,
    ) -> None:
        """Find how far the whole batches reach; `aborted` is None unless under read_committed."""
        self.partition = partition
        #: The offset of the next record to return.
        self.next_offset = fetch_offset
        #: The leader epoch of the last batch that was read; -1 before.
        self.leader_epoch = -1
        self._check_crcs = check_crcs
        self._data = data
        self._position = 0
        #: Of the last whole batch; -1 without any.
        self._end, end_offset, self.end_leader_epoch = _whole_batches(data)
        #: Where to fetch on.
        self.end_offset = max(end_offset, fetch_offset)
        self._reader: RecordReader[ConsumerRecord] | None = None
        self._failure: CorruptRecordError | None = None
        self._aborted: deque[AbortedTransaction] | None = None
        self._aborted_producers: set[int] = set()
        if aborted is not None:
            self._aborted = deque(sorted(aborted, key=lambda one: one.first_offset))
        if not self._end and len(data):
            self._failure = self._corrupt(f"{len(data)} bytes hold no whole record batch")

    @property
    def remaining_bytes(self) -> int:
        """The bytes of batches that were not read completely."""
        return self._end - self._position

    @property
    def is_done(self) -> bool:
        """Whether neither records nor an error are left."""
        return self._position >= self._end and self._failure is None

    def read_records(self, count_max: int) -> list[ConsumerRecord]:
        """Up to `count_max` records; fewer only at the end or before a batch that is broken.

        Raises: CorruptRecordError if the next batch cannot be read, again at each call.
        """
        records: list[ConsumerRecord] = []
        while len(records) < count_max:
            try:
                reader = self._reader or self._open()
                if reader is None:
                    break
                portion = reader.read(count_max - len(records))
            except ParseError as error:
                self._fail(str(error))
            except CorruptRecordError as error:
                self._failure = error
            else:
                if portion:
                    if records:
                        records += portion
                    else:
                        records = portion
                    self.next_offset = portion[-1].offset + 1
                if not reader.remaining_count:
                    self._close(reader.header)
                continue
            if not records and self._failure is not None:
                raise self._failure
            break
        return records

    def read_batch(self) -> FetchedBatch | None:
        """The next batch as it is stored; None at the end.

        Raises: CorruptRecordError if it cannot be read, again at each call.
        """
        header = self._next_visible()
        if header is None:
            return None
        start = self._position
        batch = FetchedBatch(
            topic=self.partition.topic,
            partition=self.partition.partition,
            header=header,
            data=memoryview(self._data)[start : start + header.size_bytes],
            first_offset=max(self.next_offset, header.base_offset),
        )
        self._close(header)
        return batch

    def _open(self) -> RecordReader[ConsumerRecord] | None:
        header = self._next_visible()
        if header is None:
            return None
        self.leader_epoch = header.leader_epoch
        topic, partition = self.partition
        self._reader = RecordReader(
            ConsumerRecord,
            topic,
            partition,
            self._data,
            self._position,
            first_offset=self.next_offset,
        )
        return self._reader

    def _close(self, header: BatchHeader) -> None:
        """Go on behind the batch at the position."""
        self._reader = None
        self._position += header.size_bytes
        self.leader_epoch = header.leader_epoch
        if header.last_offset >= self.next_offset:
            self.next_offset = header.last_offset + 1

    def _next_visible(self) -> BatchHeader | None:
        """Skip control batches and aborted ones; return the header of the next batch, if any."""
        if self._failure is not None:
            raise self._failure
        while self._position < self._end:
            try:
                header = read_header(self._data, self._position)
            except ParseError as error:
                raise self._corrupt(str(error)) from None
            if header.last_offset < self.next_offset:
                # Below the position, but it may end an aborted transaction.
                self._is_hidden(header)
                self._close(header)
                continue
            if self._check_crcs and not check_crc(self._data, self._position, header):
                raise self._corrupt("the checksum does not fit", header)
            if not self._is_hidden(header):
                return header
            self._close(header)
        return None

    def _is_hidden(self, header: BatchHeader) -> bool:
        """Whether the batch is a marker or, under read_committed, of an aborted transaction."""
        if self._aborted is not None and header.is_transactional:
            while self._aborted and self._aborted[0].first_offset <= header.last_offset:
                self._aborted_producers.add(self._aborted.popleft().producer_id)
            if header.is_control:
                if self._is_abort_marker(header):
                    self._aborted_producers.discard(header.producer_id)
                return True
            return header.producer_id in self._aborted_producers
        return header.is_control

    def _is_abort_marker(self, header: BatchHeader) -> bool:
        try:
            records = decode_records(self._data, self._position)
            return bool(records) and control_type_of(records[0]) == ControlType.ABORT
        except ParseError as error:
            raise self._corrupt(str(error), header) from None

    def _fail(self, reason: str) -> None:
        self._reader = None
        self._failure = self._corrupt(reason)

    def _corrupt(self, reason: str, header: BatchHeader | None = None) -> CorruptRecordError:
        offset = self.next_offset if header is None else max(header.base_offset, self.next_offset)
        error = CorruptRecordError(
            f"{self.partition} cannot be read at offset {offset}: {reason}. Seek behind it to go"
            " on without these records",
            ErrorCode.CORRUPT_MESSAGE,
        )
        error.position = (self.partition.topic, self.partition.partition, offset)
        self._failure = error
        return error


def _whole_batches(data: Buffer) -> tuple[int, int, int]:
    """Where the last whole batch ends, in bytes, the offset behind it and its leader epoch.

    Offset and epoch are -1 without any batch.
    """
    position, end_offset, epoch, size = 0, -1, -1, len(data)
    while position + HEADER_BYTES <= size:
        base_offset, length, leader_epoch, last_offset_delta = _unpack_extent(data, position)
        if length < BATCH_LENGTH_MIN:
            # No batch: reading it will say so, and what follows cannot be found.
            return size, end_offset, epoch
        if position + length + LOG_OVERHEAD_BYTES > size:
            break
        position += length + LOG_OVERHEAD_BYTES
        end_offset = base_offset + last_offset_delta + 1
        epoch = leader_epoch
    return position, end_offset, epoch
