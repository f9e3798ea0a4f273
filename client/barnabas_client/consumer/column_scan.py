"""Where the fields of many records lie, found for all records at once with numpy.

The records were found one by one (`record_walk.py`); what is inside them is decoded here field by
field, each for all records together. Needs numpy (extra `columnar`), so this module is imported
only when columns are asked for. Not here: the arrays that users get (`column_arrays.py`), batches
(`columns.py`).

Source: Kafka's protocol guide, "Record" (`barnabas_protocol.records.record` has the layout, and is
what the tests compare with).

Invariants: no position outside the data is ever read; all arrays have one element per record; what
`decode_records` refuses is refused here, and so are offsets and timestamps of more than 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.record import read_varint

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

# The shift of a varint's tenth byte.
_SHIFT_MAX = 63
# Rounds of numpy over fewer records cost more than a plain loop.
_FEW_RECORDS = 16


@dataclass(frozen=True, slots=True)
class Contents:
    """Keys, values or parts of headers: where they begin and end; null where `is_null` says so."""

    starts: Integers
    ends: Integers
    #: None: there are no nulls.
    is_null: Booleans | None

    def only(self, which: Booleans) -> Contents:
        """Return those that the mask names."""
        is_null = None if self.is_null is None else self.is_null[which]
        return Contents(self.starts[which], self.ends[which], is_null)


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of all records, one after the other; `counts` says how many each record has."""

    counts: Integers
    names: Contents
    values: Contents

    def of_records(self, which: Booleans) -> Headers:
        """Return the headers of the records that the mask names."""
        mask = np.repeat(which, self.counts)
        return Headers(self.counts[which], self.names.only(mask), self.values.only(mask))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of all records; `headers` is None if none of them has any."""

    timestamp_deltas: Integers
    offset_deltas: Integers
    keys: Contents
    values: Contents
    headers: Headers | None


def scan(data: bytes | bytearray, starts: Integers, ends: Integers) -> Fields:
    """Decode all records of `data` that begin at `starts` and end at `ends`.

    Raises: ParseError if a field cannot be, or if a record does not end where its length says.
    """
    cursor = _Cursor(data, starts, ends)
    # The length, which `walk` has followed, and the attributes, of which none is defined.
    cursor.numbers()
    cursor.move(1)
    timestamp_deltas = cursor.numbers()
    offset_deltas = cursor.numbers()
    keys = cursor.contents()
    values = cursor.contents()
    headers = _headers(data, cursor)
    return Fields(timestamp_deltas, offset_deltas, keys, values, headers)


def _headers(data: bytes | bytearray, cursor: _Cursor) -> Headers | None:
    """The headers, with the cursor at their counts; checks that nothing stands behind them."""
    counts = cursor.numbers()
    positions = cursor.positions
    # Two bytes are the least a header takes: a false count cannot reserve memory.
    is_wrong = (counts < 0) | (counts > cursor.ends - positions >> 1)
    if is_wrong.any():
        raise ParseError("header count that cannot be", cursor.first(is_wrong))
    active = np.flatnonzero(counts)
    if not active.size:
        cursor.require_end()
        return None
    first_index = np.cumsum(counts) - counts
    total = int(counts.sum())
    table = np.zeros((4, total), np.int64)
    is_null = np.zeros(total, np.bool_)
    final = positions.copy()
    left, index, places = counts[active], first_index[active], positions[active]
    while active.size >= _FEW_RECORDS:
        inner = _Cursor(data, places, cursor.ends[active])
        names = inner.contents(is_nullable=False)
        values = inner.contents(is_lenient=True)
        table[:, index] = names.starts, names.ends, values.starts, values.ends
        if values.is_null is not None:
            is_null[index] = values.is_null
        final[active] = inner.positions
        goes_on = left > 1
        active, places = active[goes_on], inner.positions[goes_on]
        left, index = left[goes_on] - 1, index[goes_on] + 1
    for record, count, begin, place in zip(
        active.tolist(), left.tolist(), index.tolist(), places.tolist(), strict=True
    ):
        try:
            rows, final[record] = _plain_headers(data, place, count)
        except IndexError:
            raise ParseError("record header cut off", place) from None
        table[:, begin : begin + count] = np.array(rows, np.int64).T[:4]
        is_null[begin : begin + count] = [row[4] for row in rows]
    cursor.positions = final
    cursor.require_end()
    return Headers(
        counts, Contents(table[0], table[1], None), Contents(table[2], table[3], is_null)
    )


def _plain_headers(
    data: bytes | bytearray, position: int, count: int
) -> tuple[list[tuple[int, int, int, int, bool]], int]:
    """Where the parts of `count` headers lie, found one by one, and the position behind them."""
    rows = []
    size = len(data)
    for _ in range(count):
        length, name_start = read_varint(data, position)
        name_end = name_start + length
        if length < 0 or name_end > size:
            raise ParseError(f"header key length {length}", position)
        length, start = read_varint(data, name_end)
        position = start if length == -1 else start + length
        if length < -1 or position > size:
            raise ParseError(f"header value length {length}", name_end)
        rows.append((name_start, name_end, start, position, length == -1))
    return rows, position


class _Cursor:
    """A position in every record, which reading moves on in all of them."""

    def __init__(self, data: bytes | bytearray, positions: Integers, ends: Integers) -> None:
        self._bytes: Bytes = np.frombuffer(data, np.uint8)
        self._size = len(data)
        self.positions = positions
        self.ends = ends

    def require_end(self) -> None:
        """Raise ParseError unless every record has been read to its end."""
        is_short = self.positions != self.ends
        if is_short.any():
            raise ParseError("record does not end where its length says", self.first(is_short))

    def first(self, is_wrong: Booleans) -> int:
        """The position of the first record that the mask names."""
        return int(self.positions[int(is_wrong.argmax())])

    def contents(self, *, is_lenient: bool = False, is_nullable: bool = True) -> Contents:
        """A length and so many bytes, in every record.

        Keys and values are null by the one byte 1; `is_lenient` takes -1 in any spelling, as header
        values do.
        """
        first = self._at(self.positions)
        lengths = self.numbers()
        starts = self.positions
        is_null: Booleans | None = None
        if is_nullable and lengths.size and lengths.min() < 0:
            is_null = lengths == -1 if is_lenient else first == 1
            lengths = np.where(is_null, 0, lengths)
        if lengths.size and (lengths.min() < 0 or lengths.max() > self._size):
            is_wrong = (lengths < 0) | (lengths > self._size)
            raise ParseError("length that cannot be", self.first(is_wrong))
        self.move(lengths)
        return Contents(starts, self.positions, is_null)

    def numbers(self) -> Integers:
        """A zig-zag varint in every record, and the positions moved behind it.

        Raises: ParseError for one of more than ten bytes or 64 bits.
        """
        positions = self.positions
        first = self._at(positions)
        if not first.size or first.max() < 0x80:
            self.move(1)
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1)
        second = self._at(positions + 1)
        is_long = first >= 0x80
        low = (first & 0x7F).astype(np.uint64)
        numbers = np.where(is_long, low | second.astype(np.uint64) << np.uint64(7), low)
        # Those of three bytes and more; the second byte's top bit is taken out again.
        pending = np.flatnonzero(is_long & (second >= 0x80))
        self.move(1 + is_long)
        if pending.size:
            numbers[pending] &= np.uint64(0x3FFF)
            self._finish_numbers(numbers, pending)
        return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)

    def _finish_numbers(self, numbers: NDArray[np.uint64], pending: NDArray[np.intp]) -> None:
        """Add the third to tenth bytes of the numbers that have them."""
        positions = self.positions = self.positions.copy()
        for shift in range(14, _SHIFT_MAX + 1, 7):
            byte = self._at(positions[pending])
            if shift == _SHIFT_MAX and byte.max() > 1:
                break
            numbers[pending] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            positions[pending] += 1
            pending = pending[byte >= 0x80]
            if not pending.size:
                self.move(0)
                return
        raise ParseError("varint of more than 64 bits", int(positions[pending[0]]))

    def _at(self, positions: Integers) -> Bytes:
        """The bytes there; behind the data its last byte, before `move` refuses the position."""
        return self._bytes.take(positions, mode="clip")

    def move(self, distance: int | Integers) -> None:
        """Go on in every record; no further than to its end, so that all reads stay inside."""
        self.positions = self.positions + distance
        if (self.positions > self.ends).any():
            raise ParseError("record cut off", self.first(self.positions > self.ends))
