"""What a leader checks of a client's batch before it takes it, and what it changes in it.

Pure. Reads the batch header only; records are decoded only where a topic's settings ask for it
(compaction, a limit on old timestamps, another codec). Not here: producer state
(`producer_state.py`), offsets and leader epoch (`partition_log.py`).

Source: behaviour LOG-2, LOG-4 to LOG-6, LOG-12; formats.md section 2. Invariant: a batch that
passes is whole, alone, has a right CRC, and is the only content of the returned buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.errors import InvalidRecordsError, NotOneBatchError
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    check_crc,
    read_header,
    stamp_log_append_time,
)
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import Record, decode_records, encode_batch

_UNLIMITED_MS = 2**62
_CODEC_BY_NAME = {codec.name.lower(): int(codec) for codec in Compression} | {"uncompressed": 0}
_KEEP_CODEC = -1
# What a client batch may not carry, beside the codec; the common case is one mask away.
_FORBIDDEN_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT


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

    def check(self, records: Buffer, now_ms: int) -> tuple[Buffer, BatchHeader]:
        """The batch as it is to be appended, offsets aside, and its header.

        The buffer is the given one wherever possible; it is changed in place for LogAppendTime.
        Raises: KafkaError.
        """
        try:
            header = read_header(records)
        except ParseError as error:
            raise _unreadable(records, error) from None
        size = header[1] + LOG_OVERHEAD_BYTES
        if size != len(records):
            records = _only_batch(records, size)
        if header[0]:
            raise _invalid(f"base offset of a client batch is {header[0]}, not 0")
        if size > self._max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"batch of {size} bytes is above max.message.bytes {self._max_message_bytes}",
            )
        if not check_crc(records, 0, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "record batch has a wrong CRC")
        attributes = header[5]
        if attributes & _FORBIDDEN_BITS or header[12] <= 0 or header[6] + 1 != header[12]:
            raise _refused_header(header)
        if header[9] >= 0 and header[11] < 0:
            raise _invalid(f"sequence {header[11]} with producer id {header[9]}")
        codec = attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec}")
        if not self._is_log_append_time and header[8] > now_ms + self._after_max_ms:
            raise self._late_timestamps(records, now_ms)
        if self._decodes:
            self._check_records(records, now_ms)
        if self._codec >= 0 and self._codec != codec:
            records, header = self._recompress(records, header)
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

    def _check_records(self, records: Buffer, now_ms: int) -> None:
        """Look at each record: keys in a compacted topic, timestamps not too old."""
        decoded = _decode(records)
        if self._config.is_compacted:
            errors = [
                (index, "a compacted topic takes no record without a key")
                for index, record in enumerate(decoded)
                if record.key is None
            ]
            if errors:
                raise InvalidRecordsError(ErrorCode.INVALID_RECORD, errors)
        if not self._is_log_append_time:
            errors = list(self._timestamp_errors(decoded, now_ms))
            if errors:
                raise InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, errors)

    def _late_timestamps(self, records: Buffer, now_ms: int) -> KafkaError:
        errors = list(self._timestamp_errors(_decode(records), now_ms))
        if not errors:
            return KafkaError(ErrorCode.INVALID_TIMESTAMP, "max timestamp of the batch is too late")
        return InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, errors)

    def _timestamp_errors(self, decoded: list[Record], now_ms: int) -> Iterator[tuple[int, str]]:
        low, high = now_ms - self._before_max_ms, now_ms + self._after_max_ms
        for index, record in enumerate(decoded):
            if record.timestamp != -1 and not low <= record.timestamp <= high:
                yield index, f"timestamp {record.timestamp} is not within [{low}, {high}]"

    def _recompress(self, records: Buffer, header: BatchHeader) -> tuple[Buffer, BatchHeader]:
        """The same records in the topic's codec; the size limit holds for the result (LOG-2)."""
        config = self._config
        level = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }.get(Compression(self._codec))
        batch = encode_batch(
            _decode(records),
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


def _decode(records: Buffer) -> list[Record]:
    try:
        return decode_records(records)
    except ParseError as error:
        raise _invalid(f"records cannot be read: {error.reason}") from None


def _unreadable(records: Buffer, error: ParseError) -> KafkaError:
    if len(records) <= LOG_OVERHEAD_BYTES:
        return NotOneBatchError("no record batch for a partition")
    size = int.from_bytes(records[8:12], "big", signed=True) + LOG_OVERHEAD_BYTES
    if size > len(records):
        return NotOneBatchError(f"the only batch is cut off: {len(records)} of {size} bytes")
    if len(records) > MAGIC_POSITION and 0 <= records[MAGIC_POSITION] < MAGIC:
        return NotOneBatchError(error.reason)
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, error.reason)


def _refused_header(header: BatchHeader) -> KafkaError:
    if header.is_control:
        return _invalid("clients may not write control batches")
    if header.is_log_append_time:
        return KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "clients may not write batches with LogAppendTime"
        )
    return _invalid(
        f"record count {header.record_count} and last offset delta {header.last_offset_delta}"
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
