"""Counts what a Produce request is made of before it is read.

A Produce frame may be as large as a batch may, so its size bounds nothing: ten megabytes hold a
million partitions without records, which takes seconds to read and to answer. Steps over records
and names; nothing is built. Says nothing of whether the request is well-formed: the codec does.

Source: the protocol guide, Produce 3 to 13, flexible from 9.
"""

from __future__ import annotations

import struct
from typing import Final

from barnabas_protocol.errors import ParseError
from barnabas_protocol.primitives import read_unsigned_varint

COUNTED_BYTES_MIN: Final = 16 * 1024
"""A smaller frame has 3,000 partitions at most, which are read in some milliseconds."""
ELEMENTS_MAX: Final = 10_000
"""Topics, partitions and tagged fields of one request."""
_FLEXIBLE_SINCE: Final = 9
_IDS_SINCE: Final = 13
_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from


def check_produce(frame: memoryview, version: int, position: int) -> None:
    """Count the elements of the request at `position`. Raises: ParseError where it has too many."""
    try:
        if version >= _FLEXIBLE_SINCE:
            _check_flexible(frame, version, position)
        else:
            _check_fixed(frame, position)
    except (struct.error, IndexError):
        raise ParseError("Produce cut off", len(frame)) from None


def _check_fixed(frame: memoryview, position: int) -> None:
    position += 2 + max(_INT16(frame, position)[0], 0) + 6
    (topic_count,), position = _INT32(frame, position), position + 4
    left = _taken(ELEMENTS_MAX, topic_count, position)
    for _ in range(topic_count):
        position += 2 + max(_INT16(frame, position)[0], 0)
        (count,), position = _INT32(frame, position), position + 4
        left = _taken(left, count, position)
        for _ in range(count):
            position += 8 + max(_INT32(frame, position + 4)[0], 0)


def _check_flexible(frame: memoryview, version: int, position: int) -> None:
    size, position = read_unsigned_varint(frame, position)
    position += max(size - 1, 0) + 6
    topic_count, position = read_unsigned_varint(frame, position)
    left = _taken(ELEMENTS_MAX, topic_count - 1, position)
    for _ in range(topic_count - 1):
        if version >= _IDS_SINCE:
            position += 16
        else:
            size, position = read_unsigned_varint(frame, position)
            position += max(size - 1, 0)
        count, position = read_unsigned_varint(frame, position)
        left = _taken(left, count - 1, position)
        for _ in range(count - 1):
            size, position = read_unsigned_varint(frame, position + 4)
            left, position = _behind_tags(frame, position + max(size - 1, 0), left)
        left, position = _behind_tags(frame, position, left)
    _behind_tags(frame, position, left)


def _behind_tags(frame: memoryview, position: int, left: int) -> tuple[int, int]:
    """What is left to be counted, and the position behind tagged fields."""
    if frame[position] == 0:
        return left, position + 1
    count, position = read_unsigned_varint(frame, position)
    left = _taken(left, count, position)
    for _ in range(count):
        _, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        position += size
    return left, position


def _taken(left: int, count: int, position: int) -> int:
    if count > left:
        raise ParseError(f"a Produce request of more than {ELEMENTS_MAX} elements", position)
    return left - max(count, 0)
