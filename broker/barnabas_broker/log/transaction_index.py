"""The aborted transactions of one segment (`.txnindex`).

34-byte entries: int16 version 0, int64 producer id, int64 first offset, int64 last offset (of the
marker), int64 last stable offset when the marker was written. Only aborted transactions; the file
exists only if there is one. Not here: open transactions (`producer_state`).

Source: KIP-98. Invariant: last offsets strictly rise, so a search by offset is a binary search.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas_broker.env.disk import Disk, DiskFile

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0
# So many entries are passed over at once by a search.
_BLOCK = 512


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted; `last_offset` is its marker's offset, inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of one segment. Memory holds the same bytes as the file, 34 for each aborted
    transaction.
    """

    __slots__ = (
        "_data",
        "_disk",
        "_file",
        "_is_torn",
        "_lowest_firsts",
        "is_file_longer",
        "is_name_unsynced",
        "path",
        "start_offset",
    )

    def __init__(self, disk: Disk, path: str, start_offset: int, *, is_new: bool = False) -> None:
        """Read what is there; with `is_new` there is known to be no file. Raises: OSError."""
        self._disk = disk
        self.path = path
        self.start_offset = start_offset
        self._file: DiskFile | None = None
        self._data = bytearray()
        # Whether the file was made here, and nobody has synced the folder since.
        self.is_name_unsynced = False
        # Entries were cut off here (`forget_from`) that the file still has.
        self.is_file_longer = False
        if not is_new and disk.exists(path):
            self._data += disk.read_bytes(path)
        # A crash may have left a part of the last entry.
        rest = len(self._data) % ENTRY_BYTES
        self._is_torn = rest > 0
        if rest:
            del self._data[-rest:]
        # The lowest first offset of each whole block.
        self._lowest_firsts: list[int] = []
        self._note_blocks()

    def __len__(self) -> int:
        return len(self._data) // ENTRY_BYTES

    def entries(self) -> Iterator[AbortedTransaction]:
        """Yield all entries, oldest first."""
        for index in range(len(self)):
            yield self._entry(index)

    @property
    def is_damaged(self) -> bool:
        """Whether there is something that is no entry, or cannot be one there.

        What comes behind it is to be found again in the batches, all of it.
        """
        return self._is_torn or self._good_count() < len(self)

    def _good_count(self) -> int:
        """How many entries come before the first that cannot be.

        A write that a power cut has torn ends in zeros, so an entry without a last stable offset
        counts as one too: it belongs to a log that began with an open transaction, or nowhere.
        """
        previous, count = -1, len(self)
        for index in range(count):
            version, _, first, last, stable = _ENTRY.unpack_from(self._data, index * ENTRY_BYTES)
            is_in_order = 0 <= first <= last and previous < last and last >= self.start_offset
            if version != _VERSION or not is_in_order or not 0 < stable <= last + 1:
                return index
            previous = last
        return count

    def restore(self, offset: int, found: Iterable[AbortedTransaction]) -> None:
        """Have these transactions from an offset on, in place of what there is. For a thread.

        Nothing is taken away first that is right and on the device: a recovery that is killed on
        its way, with the power lost after it, would leave an index that looks whole. Raises:
        OSError.
        """
        count = self._good_count()
        while count and self._entry(count - 1).last_offset >= offset:
            count -= 1
        expected = self._data[: count * ENTRY_BYTES]
        expected += b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in found)
        present = self._disk.read_bytes(self.path) if self._disk.exists(self.path) else b""
        self._data, self._is_torn = expected, False
        self._lowest_firsts.clear()
        self._note_blocks()
        if expected == present:
            return
        if present.startswith(expected) or expected.startswith(present):
            if self._file is None:
                self._file = self._open()
            if len(present) > len(expected):
                self._file.truncate(len(expected))
            else:
                self._file.append([expected[len(present) :]])
            return
        self._file = None
        self._disk.write_atomically(self.path, expected)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an entry; its last offset must be above all others. Raises: OSError, ValueError."""
        count = len(self)
        if count and self._entry(count - 1).last_offset >= transaction.last_offset:
            raise ValueError(f"{self.path}: {transaction} does not come after the last entry")
        entry = _ENTRY.pack(_VERSION, *transaction)
        if self._file is None:
            self._file = self._open()
            self.is_file_longer = True  # a torn entry, perhaps
        if self.is_file_longer:
            self._file.truncate(len(self._data))
            self.is_file_longer = False
        self._file.append([entry])
        self._data += entry
        self._note_blocks()

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap [start, end) and whether no later segment has any
        (TXL-7).
        """
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle).last_offset < start_offset:
                low = middle + 1
            else:
                high = middle
        found: list[AbortedTransaction] = []
        # There may be very many, as one transaction that stayed open keeps the search going.
        while low < len(self):
            high = min(low - low % _BLOCK + _BLOCK, len(self))
            if self._may_matter(low // _BLOCK, high, end_offset):
                entries = self._data[low * ENTRY_BYTES : high * ENTRY_BYTES]
                for _, producer_id, first, last, stable in _ENTRY.iter_unpack(entries):
                    if first < end_offset:
                        found.append(AbortedTransaction(producer_id, first, last, stable))
                    if stable >= end_offset:
                        # Everything below was decided when this marker was written.
                        return found, True
            low = high
        return found, False

    def _may_matter(self, block: int, end: int, end_offset: int) -> bool:
        """Whether a block, whose entries end at an index, has any below an offset, or the last that
        counts: last stable offsets never fall.
        """
        if block >= len(self._lowest_firsts) or self._lowest_firsts[block] < end_offset:
            return True
        return self._entry(end - 1).last_stable_offset >= end_offset

    def _note_blocks(self) -> None:
        """Note the lowest first offset of each block that is whole."""
        noted = len(self._lowest_firsts)
        for block in range(noted, len(self) // _BLOCK):
            begin = block * _BLOCK * ENTRY_BYTES
            entries = _ENTRY.iter_unpack(self._data[begin : begin + _BLOCK * ENTRY_BYTES])
            self._lowest_firsts.append(min(values[2] for values in entries))

    def forget_from(self, offset: int) -> None:
        """Drop the transactions whose marker is at or after `offset`, in memory.

        The file is cut when the markers are gone for good: they may come back with a power cut,
        and nothing would make the entries anew.
        """
        if self._drop_from(offset):
            self.is_file_longer = True

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or after `offset`, in the file too."""
        if self._drop_from(offset):
            if self._file is None:
                self._file = self._disk.open(self.path)
            self._file.truncate(len(self._data))

    def _drop_from(self, offset: int) -> bool:
        count = len(self)
        while count and self._entry(count - 1).last_offset >= offset:
            count -= 1
        is_shorter = count < len(self)
        del self._data[count * ENTRY_BYTES :]
        del self._lowest_firsts[count // _BLOCK :]
        return is_shorter

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries."""
        return len(self._data)

    def _open(self) -> DiskFile:
        is_new = not self._disk.exists(self.path)
        file = self._disk.open(self.path, create=True)
        self.is_name_unsynced = self.is_name_unsynced or is_new
        return file

    def flush(self) -> None:
        """Put the entries on disk; the file's name is the caller's to sync."""
        if self._file is not None:
            self._file.sync()

    def sync(self, folder: str) -> None:
        """Put entries that were written here on disk, and the file's name. For a thread."""
        if self._file is not None:
            self._file.sync()
        if self.is_name_unsynced:
            self._disk.sync_directory(folder)
            self.is_name_unsynced = False

    def renamed(self, path: str) -> None:
        """Note that the file, if there is one, was moved: the open handle stays valid."""
        self.path = path

    def release_file(self) -> None:
        """Let go of the file, all of which is synced, until the next entry."""
        self._file = None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _entry(self, index: int) -> AbortedTransaction:
        values = _ENTRY.unpack_from(self._data, index * ENTRY_BYTES)
        return AbortedTransaction(values[1], values[2], values[3], values[4])
