"""Goes through the records of a batch without building them: for checks and searches.

Says of each record its offset, its timestamp and whether it has a key, and checks its form on the
way as `decode_records` (`record.py`) does. Keys and values are stepped over, never copied.

Invariant: read to its end, a batch is either refused or has as many records as it says.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import Buffer
from barnabas_protocol.records.record import DECOMPRESSED_BYTES_MAX, read_payload, read_varint


def scan_records(
    buffer: Buffer,
    position: int = 0,
    *,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[tuple[int, int, bool]]:
    """Offset, timestamp and whether there is a key, of each record of the batch at `position`.

    Raises: ParseError for anything malformed, when it comes to it.
    """
    header, payload = read_payload(buffer, position, max_decompressed_bytes)
    data = bytes(payload)
    fixed = header.max_timestamp if header.is_log_append_time else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    place, size = 0, len(data)
    try:
        for _ in range(header.record_count):
            length, place = read_varint(data, place)
            end = place + length
            if not place < end <= size:
                raise ParseError(f"record ends at {end} of {size}", place)
            timestamp_delta, place = _varint(data, place + 1)
            offset_delta, place = _varint(data, place)
            key_length, place = _varint(data, place)
            place = _behind(key_length, place)
            value_length, place = _varint(data, place)
            place = _behind(value_length, place)
            if data[place] == 0:
                place += 1
            else:
                place = _behind_headers(data, place)
            if place != end:
                raise ParseError(f"record of {end} ends at {place}", place)
            timestamp = base_timestamp + timestamp_delta if fixed is None else fixed
            yield base_offset + offset_delta, timestamp, key_length >= 0
    except IndexError:
        raise ParseError("record cut off", size) from None
    except UnicodeDecodeError as error:
        raise ParseError(f"record header key: {error.reason}", place) from None
    if place != size:
        raise ParseError(f"{size - place} bytes behind the last record", place)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """`read_varint`, quick for the one byte that nearly all numbers are."""
    number = data[position]
    if number < 0x80:
        return (number >> 1) ^ -(number & 1), position + 1
    return read_varint(data, position)


def _behind(length: int, position: int) -> int:
    """The position behind a key or value of a length; -1 is null."""
    if length < -1:
        raise ParseError(f"length {length} of a key or value", position)
    return position + max(length, 0)


def _behind_headers(data: bytes, position: int) -> int:
    count, position = read_varint(data, position)
    # Two bytes are the least a header takes.
    if count < 0 or count * 2 > len(data) - position:
        raise ParseError(f"{count} headers in {len(data) - position} bytes", position)
    for _ in range(count):
        length, position = _varint(data, position)
        if length < 0:
            raise ParseError("a header without a key", position)
        length, position = _varint(data, position + length)
        position = _behind(length, position)
    return position
