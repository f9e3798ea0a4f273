"""What the offset index and the time index of a segment share: fixed-size entries held in memory.

The entries of an index in use are a bytearray with exactly the bytes of the file. Entries are
added in memory only; whoever flushes takes what the file lacks (`pending`) and writes it in a
thread (`write_index`). Not here: when an entry is due (`segment.py`).

Source: Kafka's index files; SEG-4 for the two-part search. Invariant: the file is never
longer than the entries, except with zeros while Kafka had it preallocated, which `trim` cuts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from typing import ClassVar

from barnabas_broker.env.disk import Disk, DiskDirectory, DiskFile

# The end of an index that look-ups touch all the time, and that therefore stays in memory
# wherever the file is paged: two pages of 4096 bytes (SEG-4).
WARM_BYTES = 8192


class IndexFile:
    """The entries of one index. `written_bytes` of them are in the file, if there is one."""

    ENTRY_BYTES: ClassVar[int]

    __slots__ = ("_has_file", "base_offset", "entries", "path", "written_bytes")

    def __init__(self, path: str, base_offset: int, entries: bytes | None = None) -> None:
        """Make one. `entries`: what is in the file; None: there may be none."""
        self.path = path
        self.base_offset = base_offset
        self.entries = bytearray(entries or b"")
        self.written_bytes = len(self.entries)
        self._has_file = entries is not None

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self.entries) // self.ENTRY_BYTES

    @property
    def is_written(self) -> bool:
        """Whether the file is there and has all entries."""
        return self._has_file and self.written_bytes == len(self.entries)

    def pending(self) -> tuple[int, bytes]:
        """The position in the file and the bytes that belong there: what a flush must write."""
        return self.written_bytes, bytes(memoryview(self.entries)[self.written_bytes :])

    def mark_written(self, end: int) -> None:
        """Note that the file holds the entries up to byte `end`, unless they were cut meanwhile."""
        self.written_bytes = min(end, len(self.entries))
        self._has_file = True

    def keep(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        del self.entries[count * self.ENTRY_BYTES :]
        self.written_bytes = min(self.written_bytes, len(self.entries))

    def last_at_most(self, target: int, key: Callable[[int], int]) -> int:
        """The number of the last entry whose key is <= target, -1 if there is none (SEG-4)."""
        low, high = 0, self.count
        first_warm = high - 1 - WARM_BYTES // self.ENTRY_BYTES
        if first_warm > 0:
            if key(first_warm) < target:
                low = first_warm
            else:
                high = first_warm + 1
        return bisect_right(range(high), target, low, high, key=key) - 1


def last_entry(file: DiskFile, entry: Struct) -> tuple[int, int] | None:
    """The last whole entry of an index file, without the rest; None if there is none."""
    size = file.size()
    end = size - size % entry.size
    if not end:
        return None
    key, value = entry.unpack(file.read(entry.size, end - entry.size))
    return key, value


def write_index(
    place: Disk | DiskDirectory, name: str, position: int, data: bytes, *, sync: bool = True
) -> None:
    """Make the file end with `data` at `position`. For a thread; the file is made if missing.

    `place`: a disk, with a path, or the handle of a folder, with a name in it.
    """
    file = place.open(name, create=True)
    try:
        if data:
            file.write_at(data, position)
        if file.size() != position + len(data):
            file.truncate(position + len(data))
        if sync:
            file.sync()
    finally:
        file.close()
