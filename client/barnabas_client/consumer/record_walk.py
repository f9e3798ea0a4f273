"""Where the records of a batch begin: a walk by their lengths alone.

The one part of columnar decoding that cannot be done for all records at once, because only a length
tells where the next one stands. Not here: anything inside a record (`column_scan.py`).

Source: Kafka's protocol guide, "Record".

Invariants: what is appended lies inside the data; a batch is walked to its end exactly or refused.
"""

from __future__ import annotations

from array import array
from typing import Final

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.record import read_varint

# Below this many records of one length in a row, looking for the row costs more than it saves.
_ROW_MIN: Final = 12
# So many records are walked one by one after a row that was not worth it.
_ROW_PAUSE: Final = 64


def walk(
    data: bytes | bytearray, position: int, end: int, record_count: int, starts: array[int]
) -> None:
    """Append where the records of a batch begin; the batch fills the bytes up to `end` exactly.

    Raises: ParseError if it does not, or if a length cannot be.
    """
    append = starts.append
    previous = 0
    remaining = row_allowed_from = record_count
    try:
        while remaining:
            for left in range(remaining, 0, -1):
                low = data[position]
                if low & 1:
                    raise ParseError("negative record length", position)
                if low < 0x80:
                    size = 1 + (low >> 1)
                elif (high := data[position + 1]) < 0x80:
                    size = (low >> 1) + (high << 6) - 62
                else:
                    length, behind = read_varint(data, position)
                    size = behind - position + length
                if size == previous and left <= row_allowed_from:
                    row_count = _row(data, position, min(left, (end - position) // size), size)
                    starts.extend(range(position, position + row_count * size, size))
                    position += row_count * size
                    remaining = left - row_count
                    if row_count < _ROW_MIN:
                        row_allowed_from = remaining - _ROW_PAUSE
                    break
                append(position)
                position += size
                previous = size
            else:
                remaining = 0
    except IndexError:
        raise ParseError("record cut off", position) from None
    # Sizes are positive, so a record that reaches too far is found here as well.
    if position != end:
        raise ParseError(f"the last record ends at {position} of {end}", position)


def _row(data: bytes | bytearray, position: int, count_max: int, size: int) -> int:
    """How many records of the same size, at most `count_max`, stand in a row; at least one."""
    end = position + count_max * size
    count = count_max
    for index in range(position, position + 3):
        # Stripping compares in C; what is left over is where another length begins.
        column = data[index:end:size]
        count = min(count, len(column) - len(column.lstrip(column[:1])))
        if data[index] < 0x80:
            return max(count, 1)
    return 1
