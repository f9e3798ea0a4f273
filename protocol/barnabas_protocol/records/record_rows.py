"""Records in a row that are built alike, read column by column instead of one by one.

Fixed-size data, of which there is a lot, makes records that differ only in deltas and contents: the
same byte of each, taken in one slice, tells in C whether it does. A twin of the loop of
`record_reader.py`, three times as fast where it applies, and never asked to judge: what is not
plainly such a row is left to the loop.

Source: Kafka's protocol guide, "Record"; see `record.py` for the layout.

Invariants: a row is at least `ROW_MIN` records; they have the same size, no headers, keys of one
length (or none), values of one length, and offsets without gaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Final, NamedTuple

#: Below this the slices cost more than they save.
ROW_MIN: Final = 8

_DELTAS: Final = range(1 << 13)
# The bytes of offset deltas from 0 to 63 and, low and high, up to 8191: what a row must have.
_ONE_BYTE: Final = bytes(2 * delta for delta in _DELTAS[:64])
_LOW_BYTES: Final = bytes(2 * delta & 0x7F | 0x80 for delta in _DELTAS)
_HIGH_BYTES: Final = bytes(2 * delta >> 7 for delta in _DELTAS)
_SIGNED: Final = [(number >> 1) ^ -(number & 1) for number in range(128)]


class Layout(NamedTuple):
    """Where the parts of one record lie, as distances from its beginning."""

    size: int
    #: Bytes that are the same in all records of the row.
    constants: tuple[int, ...]
    timestamp: int
    timestamp_bytes: int
    offset: int
    offset_bytes: int
    key: int
    key_size: int
    value: int
    value_size: int


class Row(NamedTuple):
    """The parts of `count` records."""

    record_count: int
    size_bytes: int
    offsets: range
    timestamps: Iterable[int]
    keys: Iterable[bytes | None]
    values: list[bytes]


def read_row(
    data: bytes, position: int, count_max: int, base_offset: int, base_timestamp: int
) -> Row | None:
    """The row that begins at the position; None where there is none, or nothing to say about it."""
    try:
        layout = _layout(data, position)
    except IndexError:
        # Also what only seems to have this layout may seem to reach behind the data.
        return None
    if layout is None:
        return None
    size = layout.size
    count = min(count_max, (len(data) - position) // size)
    first_delta = data[position + layout.offset] >> 1
    if layout.offset_bytes == 2:
        first_delta += (data[position + layout.offset + 1] << 6) - 64
    # Where deltas get longer, another row begins.
    count = min(count, (64 if layout.offset_bytes == 1 else len(_DELTAS)) - first_delta)
    for index in layout.constants:
        if count < ROW_MIN:
            return None
        column = data[position + index : position + count * size : size]
        count = len(column) - len(column.lstrip(column[:1]))
    end = position + count * size
    if count < ROW_MIN or not _is_consecutive(data, position, end, layout, first_delta, count):
        return None
    timestamps = _timestamps(data, position, end, layout, base_timestamp)
    if timestamps is None:
        return None
    first_offset = base_offset + first_delta
    value, value_size = position + layout.value, layout.value_size
    keys: Iterable[bytes | None] = repeat(None)
    if layout.key:
        key, key_size = position + layout.key, layout.key_size
        keys = [data[at : at + key_size] for at in range(key, end, size)]
    return Row(
        count,
        count * size,
        range(first_offset, first_offset + count),
        timestamps,
        keys,
        [data[at : at + value_size] for at in range(value, end, size)],
    )


def _layout(data: bytes, position: int) -> Layout | None:
    """The layout of the record at the position, if all its numbers have one or two bytes."""
    size, at = _length(data, position)
    constants = [*range(at - position)]
    size += at - position
    # Most of what is no row shows it here already.
    if size <= 0 or data[position + size] != data[position]:
        return None
    # Behind the length stands a byte of attributes, of which none is defined.
    timestamp = at + 1
    timestamp_bytes = 1 if data[timestamp] < 0x80 else 2
    offset = timestamp + timestamp_bytes
    # A negative offset delta is not in a row; the loop will see to it.
    offset_bytes = 1 if data[offset] < 0x80 else 2
    at = offset + offset_bytes
    constants.append(at - position)
    key, key_size = 0, 0
    if data[at] == 1:
        at += 1
    else:
        key_size, key = _length(data, at)
        if key_size < 0 or key - at != 1:
            return None
        at = key + key_size
    value_size, value = _length(data, at)
    constants += range(at - position, value - position)
    at = value + value_size
    constants.append(at - position)
    if value_size < 0 or data[offset] & 1 or at + 1 != position + size or data[at] != 0:
        return None
    return Layout(
        size,
        tuple(constants),
        timestamp - position,
        timestamp_bytes,
        offset - position,
        offset_bytes,
        key and key - position,
        key_size,
        value - position,
        value_size,
    )


def _length(data: bytes, position: int) -> tuple[int, int]:
    """A length of one or two bytes and the position behind it; negative if it is none of these."""
    number = data[position]
    if number & 1:
        return -1, position
    if number < 0x80:
        return number >> 1, position + 1
    second = data[position + 1]
    if second >= 0x80:
        return -1, position
    return (number >> 1) - 64 + (second << 6), position + 2


def _is_consecutive(
    data: bytes, position: int, end: int, layout: Layout, first_delta: int, count: int
) -> bool:
    """Whether the offset deltas count up from the first one."""
    at, size = position + layout.offset, layout.size
    first, last = data[at:end:size], first_delta + count
    if layout.offset_bytes == 1:
        return first == _ONE_BYTE[first_delta:last]
    second = data[at + 1 : end : size]
    return first == _LOW_BYTES[first_delta:last] and second == _HIGH_BYTES[first_delta:last]


def _timestamps(
    data: bytes, position: int, end: int, layout: Layout, base_timestamp: int
) -> Iterable[int] | None:
    """The timestamps of the row; None if their deltas are not all as long as the first."""
    at, size = position + layout.timestamp, layout.size
    first = data[at:end:size]
    if layout.timestamp_bytes == 1:
        if not first.isascii():
            return None
        if first == first[:1] * len(first):
            return repeat(base_timestamp + _SIGNED[first[0]])
        return [base_timestamp + _SIGNED[number] for number in first]
    second = data[at + 1 : end : size]
    if min(first) < 0x80 or not second.isascii():
        return None
    return [
        base_timestamp + (((low & 0x7F | high << 7) >> 1) ^ -(low & 1))
        for low, high in zip(first, second, strict=True)
    ]
