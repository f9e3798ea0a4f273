"""What a leader checks of a client's batch before it takes it, and what it changes in it.

Pure. Reads the batch header only; records are read only where a topic's settings require it
(compaction, a limit on old timestamps, another codec), and never more than a few of a batch that is
refused anyway. Not here: producer state
(`producer_state.py`), offsets and leader epoch (`partition_log.py`).

Source: LOG-2, LOG-4 to LOG-6, LOG-12; formats.md section 2. Invariant: a batch that
passes is whole, alone, has a right CRC, and is the only content of the returned buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.errors import (
    InvalidBatchError,
    InvalidRecordsError,
    NotOneBatchError,
    RefusalReason,
)
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    RECORD_COUNT_POSITION,
    BatchHeader,
    check_crc,
    iterate_headers,
    read_header,
    stamp_log_append_time,
)
from barnabas_protocol.records.compression import Compression, DecompressedTooLargeError
from barnabas_protocol.records.record import (
    DECOMPRESSED_BYTES_MAX,
    RECORDS_MAX,
    Record,
    decode_records,
    encode_batch,
)
from barnabas_protocol.records.record_scan import scan_records

_UNLIMITED_MS = 2**62
_CODEC_BY_NAME = {codec.name.lower(): int(codec) for codec in Compression} | {"uncompressed": 0}
_KEEP_CODEC = -1
CHECKED_RECORDS_MAX = 100_000
"""The most records of a batch whose records have to be looked at."""
CHECKED_BYTES_MAX = 16 * 1024 * 1024
"""What such a batch may be decompressed to, at least; batches of a larger `max.message.bytes` may
have that."""
LOOP_RECORDS_MAX = 2_000
LOOP_BYTES_MAX = 32 * 1024
"""A batch whose records are looked at is checked on the loop up to this; larger ones in a thread.
Bytes hold for what came and for what it is decompressed to."""
_NAMED_RECORDS_MAX = 1000
_NAMED_BYTES_MAX = 64 * 1024
"""Which records of a batch are too late is said up to this size, as it costs to look."""
# What a client batch may not carry, beside the codec; the common case is one mask away.
_FORBIDDEN_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT


_LOOK_BYTES = 1024  # so many bytes of a batch count as a record
_LOOK_COMPRESSED = 50  # and that it is compressed as so many: it may have many frames
_READ_INT32 = struct.Struct(">i").unpack_from


def work_of_look(records: Buffer | None) -> int:
    """What it takes to look into a batch on the loop, in records."""
    if records is None or len(records) < HEADER_BYTES:
        return 0
    (told,) = _READ_INT32(records, RECORD_COUNT_POSITION)
    count = min(max(int(told), 1), LOOP_RECORDS_MAX)
    is_compressed = records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    return count + len(records) // _LOOK_BYTES + (_LOOK_COMPRESSED if is_compressed else 0)


class HeavyBatchError(Exception):
    """A batch that takes too long to check on the loop. No refusal: it is to be checked apart."""

    def __init__(self, validator: BatchValidator, records: Buffer, now_ms: int) -> None:
        super().__init__(f"a batch of {len(records)} bytes is to be checked in a thread")
        self._validator = validator
        self._records = records
        self._now_ms = now_ms

    def check(self) -> CheckedBatch:
        """Check it, however long that takes. For a thread. Raises: KafkaError."""
        return CheckedBatch(
            self._validator, *self._validator.check(self._records, self._now_ms, apart=True)
        )


class BatchValidator:
    """The checks of one topic's settings, built anew when those change."""

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_codec",
        "_config",
        "_decodes",
        "_is_log_append_time",
        "_max_message_bytes",
        "_segment_bytes",
        "looks_into_batches",
    )

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._is_log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._codec = _CODEC_BY_NAME.get(config.compression_type, _KEEP_CODEC)
        checks_age = self._before_max_ms < _UNLIMITED_MS and not self._is_log_append_time
        self._decodes = config.is_compacted or checks_age
        self.looks_into_batches = self._decodes or self._codec >= 0
        """Whether records of a batch may have to be read, which takes time for each."""

    def check(
        self, records: Buffer, now_ms: int, *, apart: bool = False
    ) -> tuple[Buffer, BatchHeader]:
        """The batch as it is to be appended, offsets aside, and its header.

        The buffer is the given one wherever possible; it is changed in place for LogAppendTime.
        Raises: KafkaError; HeavyBatchError unless it is done `apart` from the loop.
        """
        try:
            header = read_header(records)
        except ParseError as error:
            raise _unreadable(records, error) from None
        size = header[1] + LOG_OVERHEAD_BYTES
        if size != len(records):
            records = _only_batch(records, size)
        if header[0]:
            raise _invalid(
                f"base offset of a client batch is {header[0]}, not 0", RefusalReason.OFFSET
            )
        if size > self._max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"batch of {size} bytes is above max.message.bytes {self._max_message_bytes}",
            )
        if not check_crc(records, 0, header):
            raise InvalidBatchError(
                ErrorCode.CORRUPT_MESSAGE, "record batch has a wrong CRC", RefusalReason.CRC
            )
        attributes = header[5]
        if attributes & _FORBIDDEN_BITS or not 0 < header[12] == header[6] + 1 <= RECORDS_MAX:
            raise _refused_header(header)
        if header[9] >= 0 and header[11] < 0:
            raise _invalid(
                f"sequence {header[11]} with producer id {header[9]}", RefusalReason.SEQUENCE
            )
        codec = attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec}")
        if not self._is_log_append_time and header[8] > now_ms + self._after_max_ms:
            raise self._late_timestamps(records, header, now_ms)
        if self._decodes or (self._codec >= 0 and self._codec != codec):
            records, header = self._look_inside(records, header, now_ms, apart)
            size = len(records)
        if size > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"batch of {size} bytes is above segment.bytes {self._segment_bytes}",
            )
        if self._is_log_append_time:
            records = writable(records)
            stamp_log_append_time(records, 0, now_ms)
            header = read_header(records)
        return records, header

    def _look_inside(
        self, records: Buffer, header: BatchHeader, now_ms: int, apart: bool
    ) -> tuple[Buffer, BatchHeader]:
        """Check the records and recompress them, where the topic requires it."""
        if self._decodes and header.record_count > CHECKED_RECORDS_MAX:
            raise _invalid(
                f"{header.record_count} records in a batch of a topic whose records are checked, "
                f"{CHECKED_RECORDS_MAX} at most",
                RefusalReason.TOO_LARGE,
            )
        bytes_max = max(CHECKED_BYTES_MAX, self._max_message_bytes)
        if not apart:
            # A batch that only claims few records, or decompresses to more, finds out below.
            if header.record_count > LOOP_RECORDS_MAX or header.size_bytes > LOOP_BYTES_MAX:
                raise HeavyBatchError(self, records, now_ms)
            bytes_max = LOOP_BYTES_MAX
        try:
            if self._decodes:
                self._check_records(records, header, now_ms, bytes_max)
            if self._codec >= 0 and self._codec != header.attributes & COMPRESSION_MASK:
                return self._recompress(
                    records, header, DECOMPRESSED_BYTES_MAX if apart else bytes_max
                )
        except DecompressedTooLargeError as error:
            if not apart:
                raise HeavyBatchError(self, records, now_ms) from None
            raise _invalid(
                f"records cannot be read: {error.reason}", RefusalReason.TOO_LARGE
            ) from None
        return records, header

    def _check_records(
        self, records: Buffer, header: BatchHeader, now_ms: int, bytes_max: int
    ) -> None:
        """Look at each record: keys and offsets in a compacted topic, timestamps not too old."""
        is_compacted = self._config.is_compacted
        low, high = now_ms - self._before_max_ms, now_ms + self._after_max_ms
        if self._is_log_append_time:
            low, high = -_UNLIMITED_MS, _UNLIMITED_MS
        without_key: list[tuple[int, str]] = []
        untimely: list[tuple[int, str]] = []
        # The base offset is 0, so the offsets are 0, 1, 2, ...
        for expected, (offset, timestamp, has_key) in enumerate(_scanned(records, bytes_max)):
            if is_compacted and not has_key:
                without_key.append((expected, "a compacted topic takes no record without a key"))
            if not low <= timestamp <= high and timestamp != -1:
                untimely.append((expected, f"timestamp {timestamp} is not within [{low}, {high}]"))
            if is_compacted and offset != expected:
                # The cleaner writes batches anew, and can only do so in order.
                raise _invalid(f"offset delta {offset} of record {expected}", RefusalReason.OFFSET)
        if without_key:
            raise InvalidRecordsError(
                ErrorCode.INVALID_RECORD, without_key[:_NAMED_RECORDS_MAX], RefusalReason.NO_KEY
            )
        if untimely:
            raise _untimely(untimely[:_NAMED_RECORDS_MAX])

    def _late_timestamps(self, records: Buffer, header: BatchHeader, now_ms: int) -> KafkaError:
        """The refusal of a batch that is too late by its header; a small one is looked into."""
        late = KafkaError(ErrorCode.INVALID_TIMESTAMP, "max timestamp of the batch is too late")
        if header.record_count > _NAMED_RECORDS_MAX or header.size_bytes > _NAMED_BYTES_MAX:
            return late
        low, high = now_ms - self._before_max_ms, now_ms + self._after_max_ms
        try:
            errors = [
                (index, f"timestamp {timestamp} is not within [{low}, {high}]")
                for index, (_, timestamp, _) in enumerate(_scanned(records, _NAMED_BYTES_MAX))
                if timestamp != -1 and not low <= timestamp <= high
            ]
        except (KafkaError, DecompressedTooLargeError):
            return late  # it may only be too large to look into
        return _untimely(errors) if errors else late

    def _recompress(
        self, records: Buffer, header: BatchHeader, bytes_max: int
    ) -> tuple[Buffer, BatchHeader]:
        """The same records in the topic's codec; the size limit holds for the result (LOG-2)."""
        config = self._config
        level = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }.get(Compression(self._codec))
        batch = encode_batch(
            _decode(records, bytes_max),
            compression=self._codec,
            compression_level=level,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
        )
        if len(batch) > self._max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"recompressed batch has {len(batch)} bytes"
            )
        return bytearray(batch), read_header(batch)


class CheckedBatch(NamedTuple):
    """A batch that has passed the checks of a validator, as it is to be appended."""

    validator: BatchValidator
    records: Buffer
    header: BatchHeader


def writable(buffer: Buffer) -> bytearray | memoryview:
    """The buffer itself, or a copy if its bytes cannot be changed."""
    if isinstance(buffer, memoryview):
        return memoryview(bytearray(buffer)) if buffer.readonly else buffer
    return buffer if isinstance(buffer, bytearray) else bytearray(buffer)


def _only_batch(records: Buffer, size: int) -> Buffer:
    """The first batch of a buffer that has another size; what follows may only be a part."""
    if size > len(records):
        raise NotOneBatchError(f"the only batch is cut off: {len(records)} of {size} bytes")
    rest = memoryview(records)[size:]
    if len(rest) >= LOG_OVERHEAD_BYTES:
        following = int.from_bytes(rest[8:12], "big", signed=True) + LOG_OVERHEAD_BYTES
        if following <= len(rest):
            raise NotOneBatchError("more than one record batch for a partition")
    return memoryview(records)[:size]


def _scanned(records: Buffer, bytes_max: int) -> Iterator[tuple[int, int, bool]]:
    try:
        yield from scan_records(records, max_decompressed_bytes=bytes_max)
    except DecompressedTooLargeError:
        raise
    except ParseError as error:
        raise _invalid(f"records cannot be read: {error.reason}") from None


def _decode(records: Buffer, bytes_max: int) -> list[Record]:
    try:
        return decode_records(records, max_decompressed_bytes=bytes_max)
    except DecompressedTooLargeError:
        raise
    except ParseError as error:
        raise _invalid(f"records cannot be read: {error.reason}") from None


def _unreadable(records: Buffer, error: ParseError) -> KafkaError:
    if len(records) <= LOG_OVERHEAD_BYTES:
        return NotOneBatchError("no record batch for a partition")
    size = int.from_bytes(records[8:12], "big", signed=True) + LOG_OVERHEAD_BYTES
    if size > len(records):
        return NotOneBatchError(f"the only batch is cut off: {len(records)} of {size} bytes")
    if len(records) > MAGIC_POSITION and 0 <= records[MAGIC_POSITION] < MAGIC:
        return NotOneBatchError(error.reason, RefusalReason.MAGIC)
    if records[MAGIC_POSITION] != MAGIC:
        return InvalidBatchError(ErrorCode.CORRUPT_MESSAGE, error.reason, RefusalReason.MAGIC)
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, error.reason)


def _refused_header(header: BatchHeader) -> KafkaError:
    if header.is_control:
        return _invalid("clients may not write control batches")
    if header.is_log_append_time:
        return KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "clients may not write batches with LogAppendTime"
        )
    if header.record_count > RECORDS_MAX:
        return _invalid(
            f"{header.record_count} records in a batch, {RECORDS_MAX} at most",
            RefusalReason.TOO_LARGE,
        )
    return _invalid(
        f"record count {header.record_count} and last offset delta {header.last_offset_delta}",
        RefusalReason.OFFSET,
    )


def _invalid(message: str, reason: RefusalReason = RefusalReason.FORMAT) -> KafkaError:
    return InvalidBatchError(ErrorCode.INVALID_RECORD, message, reason)


def _untimely(record_errors: list[tuple[int, str]]) -> KafkaError:
    return InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, record_errors, RefusalReason.TIMESTAMP)


def batches_of(view: memoryview) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch. Raises: KafkaError 2, also if none is whole."""
    try:
        batches = list(iterate_headers(view))
    except ParseError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.reason) from error
    if not batches:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "no whole record batch")
    return batches
