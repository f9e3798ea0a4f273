"""The sparse time index of a segment: from a timestamp to an offset at or before it.

Entry, 12 bytes: int64 largest timestamp so far, int32 last offset of the batch that holds it -
base offset. Source: Kafka's TimeIndex, `docs/formats/log.md`. Invariant: timestamps strictly rise.
"""

from __future__ import annotations

import struct

from barnabas_broker.log.index_file import IndexFile

ENTRY = struct.Struct(">qi")
_pack = ENTRY.pack
_TIMESTAMP = struct.Struct(">q").unpack_from
_RELATIVE = struct.Struct(">i").unpack_from
NO_TIMESTAMP = -1


class TimeIndex(IndexFile):
    """The time index of one segment, in memory."""

    ENTRY_BYTES = ENTRY.size

    __slots__ = ()

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last one's (or than "none")."""
        entries = self.entries
        if timestamp > (_TIMESTAMP(entries, len(entries) - 12)[0] if entries else NO_TIMESTAMP):
            entries += _pack(timestamp, offset - self.base_offset)

    def entry(self, number: int) -> tuple[int, int]:
        """The timestamp and the offset of entry `number`."""
        timestamp, relative = ENTRY.unpack_from(self.entries, number * 12)
        return timestamp, relative + self.base_offset

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The entry with the largest timestamp <= `timestamp`; (-1, base offset) without one."""
        entries = self.entries
        number = self.last_at_most(timestamp, lambda i: _TIMESTAMP(entries, i * 12)[0])
        return (NO_TIMESTAMP, self.base_offset) if number < 0 else self.entry(number)

    def last(self) -> tuple[int, int]:
        """The last entry; (-1, base offset) if there is none."""
        return self.entry(self.count - 1) if self.entries else (NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`; offsets rise with the timestamps."""
        entries = self.entries
        relative = offset - 1 - self.base_offset
        self.keep(self.last_at_most(relative, lambda i: _RELATIVE(entries, i * 12 + 8)[0]) + 1)

    def trim(self) -> bool:
        """Cut at the first entry that cannot be: timestamp not rising, or offset falling.

        Cuts the zeros of a preallocated file too. Returns whether what was cut was more than that.
        """
        data = self.entries
        whole = len(data) - len(data) % 12
        good, previous_timestamp, previous_offset = 0, NO_TIMESTAMP, 0
        for timestamp, relative in ENTRY.iter_unpack(memoryview(data)[:whole]):
            if timestamp <= previous_timestamp or relative < previous_offset:
                break
            good, previous_timestamp, previous_offset = good + 12, timestamp, relative
        is_damaged = any(memoryview(data)[good:])
        del data[good:]
        self.written_bytes = min(self.written_bytes, good)
        return is_damaged
