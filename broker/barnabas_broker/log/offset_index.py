"""The sparse offset index of a segment: from an offset to a position at or before its batch.

Entry, 8 bytes: int32 last offset of a batch - base offset, int32 position of that batch.
Source: Kafka's OffsetIndex, `docs/formats/log.md`. Invariants: offsets and positions strictly rise.
"""

from __future__ import annotations

import struct

from barnabas_broker.log.index_file import IndexFile

ENTRY = struct.Struct(">ii")
_pack = ENTRY.pack
_RELATIVE = struct.Struct(">i").unpack_from


class OffsetIndex(IndexFile):
    """The offset index of one segment, in memory."""

    ENTRY_BYTES = ENTRY.size

    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch at `position`, whose last offset is larger than any in the index."""
        self.entries += _pack(last_offset - self.base_offset, position)

    def entry(self, number: int) -> tuple[int, int]:
        """The last offset and the position of entry `number`."""
        relative, position = ENTRY.unpack_from(self.entries, number * 8)
        return relative + self.base_offset, position

    def lookup(self, offset: int) -> tuple[int, int]:
        """The entry with the largest offset <= `offset`; base offset and position 0 without one."""
        entries = self.entries
        relative = offset - self.base_offset
        number = self.last_at_most(relative, lambda i: _RELATIVE(entries, i * 8)[0])
        return (self.base_offset, 0) if number < 0 else self.entry(number)

    def last(self) -> tuple[int, int]:
        """The last entry; base offset and position 0 if there is none."""
        return self.entry(self.count - 1) if self.entries else (self.base_offset, 0)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        entries = self.entries
        relative = offset - 1 - self.base_offset
        self.keep(self.last_at_most(relative, lambda i: _RELATIVE(entries, i * 8)[0]) + 1)

    def trim(self, log_bytes: int) -> bool:
        """Cut at the first entry that cannot be: not rising, or not inside the log's bytes.

        Cuts the zeros of a preallocated file too. Returns whether what was cut was more than that.
        """
        data = self.entries
        whole = len(data) - len(data) % 8
        good, previous_offset, previous_position = 0, 0, 0
        for relative, position in ENTRY.iter_unpack(memoryview(data)[:whole]):
            if relative <= previous_offset or position <= previous_position:
                break
            if position >= log_bytes:
                break
            good, previous_offset, previous_position = good + 8, relative, position
        is_damaged = any(memoryview(data)[good:])
        del data[good:]
        self.written_bytes = min(self.written_bytes, good)
        return is_damaged
