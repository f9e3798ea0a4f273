"""The records of a batch: whole batches from records, records from whole batches.

Not for the broker's hot path, which never looks behind the header; this serves clients,
coordinators, compaction and tools.

Source: Kafka's protocol guide, "Record". All lengths and deltas are zig-zag varints:

    length, attributes int8, timestamp delta, offset delta, key length (-1 = null), key,
    value length (-1 = null), value, header count, { key length, key, value length (-1), value }

Invariants: offsets rise strictly inside a batch; a batch may have fewer records than offsets
(compaction), even none; what `encode_batch` wrote is read back equal by `decode_records`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import (
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
    stamp_crc,
)
from barnabas_protocol.records.compression import Compression, compress, decompress

# Batches are usually at most 1 MiB compressed; honest data stays below a ratio of 100.
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
# What small data may become: a ratio of thousands is honest there, and does no harm.
_SMALL_DECOMPRESSED_BYTES = 32 * 1024 * 1024
_RATIO_MAX = 128
RECORDS_MAX = 1_000_000
"""The most records of a batch: each costs time, and a bomb has 16 million in ten kilobytes."""
# Ten groups of seven bits hold a varlong.
_VARINT_BYTES_MAX = 10

# Length, attributes, timestamp and offset delta, key and value length, header count: a byte each.
RECORD_BYTES_MIN = 7

_new_tuple = tuple.__new__

Header = tuple[str, bytes | None]
HEADER_KEY_ERRORS: Final = "surrogateescape"
"""A key is to be UTF-8, and nobody enforces it: other bytes come as lone surrogates and go as they
came, so that a record that is read and written again stays the same."""


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (milliseconds, -1 = none)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: int = Compression.NONE,
    compression_level: int | None = None,
    timestamp_type: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """One whole batch of magic 2.

    The records' offsets are absolute and must rise strictly from `base_offset` on.
    `last_offset_delta` keeps the range of a batch that lost records to compaction, and
    `max_timestamp` overrides the largest timestamp (log append time, batches without records).
    Raises: ValueError if the offsets do not fit.
    """
    first_timestamp = records[0][1] if records else -1
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    body = bytearray()
    previous_delta = -1
    largest = -1
    for record in records:
        delta = record[0] - base_offset
        if delta <= previous_delta:
            raise ValueError(f"offset {record[0]} does not follow base {base_offset}")
        previous_delta = delta
        if record[1] > largest:
            largest = record[1]
        _append_record(body, record, record[1] - base_timestamp, delta)
    if last_offset_delta is None:
        last_offset_delta = previous_delta
    elif last_offset_delta < previous_delta:
        raise ValueError(f"last offset delta {last_offset_delta} is below a record's")
    payload = compress(compression, body, compression_level) if compression and body else body
    attributes = (
        compression
        | (LOG_APPEND_TIME_BIT if timestamp_type else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
    )
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        BATCH_LENGTH_MIN + len(payload),
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        largest if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += payload
    stamp_crc(batch, 0)
    return bytes(batch)


def _append_record(
    body: bytearray, record: Record, timestamp_delta: int, offset_delta: int
) -> None:
    _, _, key, value, headers = record
    out = bytearray(1)
    _append_varint(out, timestamp_delta)
    _append_varint(out, offset_delta)
    if key is None:
        out.append(1)
    else:
        _append_varint(out, len(key))
        out += key
    if value is None:
        out.append(1)
    else:
        _append_varint(out, len(value))
        out += value
    _append_varint(out, len(headers))
    for name, content in headers:
        encoded = name.encode("utf-8", HEADER_KEY_ERRORS)
        _append_varint(out, len(encoded))
        out += encoded
        if content is None:
            out.append(1)
        else:
            _append_varint(out, len(content))
            out += content
    _append_varint(body, len(out))
    body += out


def _append_varint(out: bytearray, value: int) -> None:
    """Zig-zag, then seven bits a byte, low group first."""
    number = value << 1 if value >= 0 else ~(value << 1)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zig-zag varint or varlong and the position behind it.

    Raises: ParseError if it is longer than ten bytes; IndexError if the data ends within it.
    """
    number = shift = 0
    for _ in range(_VARINT_BYTES_MAX):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
    raise ParseError("varint of more than ten bytes", position)


def decode_records(
    buffer: Buffer,
    position: int = 0,
    *,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> list[Record]:
    """All records of the batch at `position`, with absolute offsets and timestamps.

    The CRC is not checked here (`check_crc`).
    Raises: ParseError for anything malformed, with a position in the (decompressed) records part.
    """
    header, payload = read_payload(buffer, position, max_decompressed_bytes)
    # One copy here makes every key and value below a plain slice of bytes.
    data = bytes(payload)
    try:
        return _decode_all(
            data,
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if header.is_log_append_time else None,
        )
    except IndexError:
        raise ParseError("record cut off", len(data)) from None
    except UnicodeDecodeError as error:
        raise ParseError(f"record header key: {error.reason}", 0) from None


def read_payload(
    buffer: Buffer, position: int = 0, max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
) -> tuple[BatchHeader, bytes | memoryview]:
    """Header and records part of the batch at `position`; uncompressed, a view of the buffer.

    Raises: ParseError for a header, size, codec or record count that cannot be.
    """
    header = read_header(buffer, position)
    end = position + header.size_bytes
    if end > len(buffer):
        raise ParseError(f"record batch cut off: {len(buffer) - position} bytes", position)
    data: bytes | memoryview = memoryview(buffer)[position + HEADER_BYTES : end]
    codec = header.attributes & COMPRESSION_MASK
    if header.record_count > RECORDS_MAX:
        raise ParseError(f"{header.record_count} records in a batch, {RECORDS_MAX} at most", 0)
    if codec and len(data):
        by_ratio = max(_SMALL_DECOMPRESSED_BYTES, _RATIO_MAX * len(data))
        data = decompress(codec, data, min(max_decompressed_bytes, by_ratio))
    # A false count cannot reserve memory or time.
    if header.record_count < 0 or header.record_count * RECORD_BYTES_MIN > len(data):
        raise ParseError(f"record count {header.record_count} in {len(data)} bytes", 0)
    return header, data


def _decode_all(
    data: bytes, record_count: int, base_offset: int, base_timestamp: int, fixed: int | None
) -> list[Record]:
    """The records of `data`; IndexError where it ends too early.

    Varints of one and two bytes, nearly all there are, are read in line: a call per number would
    double the time.
    """
    records: list[Record] = []
    append = records.append
    position, size = 0, len(data)
    for _ in range(record_count):
        length = data[position]
        if length < 0x80:
            position += 1
            record_end = position + ((length >> 1) ^ -(length & 1))
        elif (second := data[position + 1]) < 0x80:
            position += 2
            record_end = position + ((length & 0x7F | second << 7) >> 1 ^ -(length & 1))
        else:
            length, position = read_varint(data, position)
            record_end = position + length
        if not position < record_end <= size:
            raise ParseError(f"record ends at {record_end} of {size}", position)
        position += 1  # the record's attributes, of which none is defined
        number = data[position]
        if number < 0x80:
            position += 1
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
        else:
            number, position = read_varint(data, position)
            timestamp = base_timestamp + number
        number = data[position]
        if number < 0x80:
            position += 1
            offset = base_offset + ((number >> 1) ^ -(number & 1))
        elif (second := data[position + 1]) < 0x80:
            position += 2
            offset = base_offset + ((number & 0x7F | second << 7) >> 1 ^ -(number & 1))
        else:
            number, position = read_varint(data, position)
            offset = base_offset + number
        key, position = read_content(data, position)
        value, position = read_content(data, position)
        headers: tuple[Header, ...] = ()
        if data[position] == 0:
            position += 1
        else:
            headers, position = read_headers(data, position)
        if position != record_end:
            raise ParseError(f"record of {record_end} ends at {position}", position)
        stamp = timestamp if fixed is None else fixed
        append(_new_tuple(Record, (offset, stamp, key, value, headers)))
    if position != size:
        raise ParseError(f"{size - position} bytes behind the last record", position)
    return records


def read_content(data: bytes, position: int) -> tuple[bytes | None, int]:
    """A key or value and the position behind it, which may lie behind the end of the data.

    Raises: ParseError for a negative length that is not null, IndexError at the end.
    """
    length = data[position]
    if length == 1:
        return None, position + 1
    if length < 0x80:
        position += 1
        length = (length >> 1) ^ -(length & 1)
    elif (second := data[position + 1]) < 0x80:
        position += 2
        length = (length & 0x7F | second << 7) >> 1 ^ -(length & 1)
    else:
        length, position = read_varint(data, position)
    if length < 0:
        raise ParseError(f"length {length} of a key or value", position)
    end = position + length
    return data[position:end], end


def read_headers(data: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    """The headers whose count stands at `position`, and the position behind them.

    Raises: ParseError, UnicodeDecodeError for a key that is no UTF-8, IndexError at the end.
    """
    count = data[position]
    if count < 0x80 and not count & 1:
        position += 1
        count >>= 1
    else:
        count, position = read_varint(data, position)
    # Two bytes are the least a header takes.
    if count < 0 or count * 2 > len(data) - position:
        raise ParseError(f"header count {count}", position)
    headers: list[Header] = []
    # What reaches behind the data is found by the next read, or by the caller at the record's end.
    for _ in range(count):
        length = data[position]
        if length < 0x80 and not length & 1:
            start = position + 1
            position = start + (length >> 1)
        else:
            length, start = read_varint(data, position)
            if length < 0:
                raise ParseError(f"header key length {length}", position)
            position = start + length
        name = data[start:position].decode("utf-8", HEADER_KEY_ERRORS)
        length = data[position]
        if length < 0x80 and not length & 1:
            start = position + 1
            position = start + (length >> 1)
        else:
            length, start = read_varint(data, position)
            if length == -1:
                position = start
                headers.append((name, None))
                continue
            if length < 0:
                raise ParseError(f"header value length {length}", position)
            position = start + length
        headers.append((name, data[start:position]))
    return tuple(headers), position
