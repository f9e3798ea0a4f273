"""Up to where offsets may be missing between two segments of a log.

A segment is begun at the log end, so a hole in front of one says that the end of the one before
never reached the disk. Compaction makes holes too, where it takes away the last records of a
segment, and so does a follower that meets a gap too wide for a segment. Recovery must distinguish
the two, whatever the topic's policy is by then: hence this note in the partition's folder.

What is noted on the loop, which waits for no device, goes to a second file, with a checksum and the
id of the kernel's boot: a power cut may tear that file, or keep it and take the batches that were
written before it. After one, the first file holds, which says what is true of all that was flushed.
The next flush takes the second over.

Gaps within a segment, which a follower of a compacted log has, are noted by the flush that puts
them on the device, and only a power cut asks for the note: a base offset is not covered by its
batch's checksum, and one that it damaged looks like a gap. Source: `docs/formats/log.md`.

Invariants: the first file is on the device before the recovery point passes a hole that it allows;
it allows none behind a batch that is not on the device; the second file is empty before the first
allows more than it, and what that allows is made.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from barnabas_broker.log.checkpoints import CheckpointError, decode, encode, integer
from barnabas_protocol.records.checksum import crc32c

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk, DiskDirectory, DiskFile

HOLES_FILE = "holes-checkpoint"
UNSYNCED_HOLES_FILE = "holes-checkpoint.unsynced"
ANYWHERE = 2**63 - 1

_logger = logging.getLogger(__name__)


class Holes:
    """The note of one log. `below`: a segment that begins here or lower may follow a hole."""

    __slots__ = (
        "_disk",
        "_has_unsynced",
        "_is_noted",
        "_synced",
        "_unnoted_below",
        "_write_lock",
        "below",
        "directory",
    )

    def __init__(
        self, disk: Disk, directory: str, below: int = 0, *, is_noted: bool = False
    ) -> None:
        self._disk = disk
        self._is_noted = is_noted
        self._synced = below if is_noted else -1  # what the first file says
        self._unnoted_below = 0  # what held when the log was opened without that file
        self._has_unsynced = False
        # A flush and a round of the cleaner may both write the first file.
        self._write_lock = threading.Lock()
        self.directory = directory
        self.below = below

    @classmethod
    def load(cls, disk: Disk, directory: str, unless_noted: int) -> Holes:
        """The note in a folder; `unless_noted` is what holds for a log that has none.

        One that cannot be read allows holes anywhere: a lost end is then taken for one, instead of
        a hole for a lost end, which would cost all that comes after it. Raises: OSError.
        """
        found = cls._load_synced(disk, directory, unless_noted)
        path = f"{directory}/{UNSYNCED_HOLES_FILE}"
        if disk.exists(path):
            offset = _decode_unsynced(disk.read_bytes(path), disk.boot_id())
            found._has_unsynced = True
            if offset is not None:
                found._note(offset)
        return found

    @classmethod
    def _load_synced(cls, disk: Disk, directory: str, unless_noted: int) -> Holes:
        path = f"{directory}/{HOLES_FILE}"
        if not disk.exists(path):
            return cls(disk, directory, unless_noted)
        try:
            ((offset,),) = decode(path, disk.read_bytes(path), 1)
            return cls(disk, directory, integer(path, offset), is_noted=True)
        except (CheckpointError, ValueError) as error:
            _logger.warning("%s cannot be read: holes may be anywhere: %s", path, error)
            return cls(disk, directory, ANYWHERE)

    @property
    def flushed_below(self) -> int:
        """Up to where holes may be, of those whose batches in front are on the device."""
        return min(self.below, max(self._synced, self._unnoted_below))

    def end_at(self, offset: int) -> None:
        """Take over where the log ends at its start: without a note, no hole is above that."""
        if not self._is_noted:
            self.below = self._unnoted_below = min(self.below, offset)

    def allow(self, offset: int) -> None:
        """Allow, in memory, holes in front of a segment's base, or below it: `flush` comes next.

        All batches there are on the device, and no hole there is now is above it.
        """
        if offset > self.below or not self._is_noted:
            self._note(offset)

    def allow_with(self, offset: int) -> None:
        """Allow, in memory, gaps below it: a flush of all batches there begins."""
        if offset > self.below:
            self._note(offset)

    def allow_soon(self, offset: int) -> None:
        """As `allow`, for batches that are not on the device yet.

        A kill finds the note, a power cut from the next flush on. Raises: OSError.
        """
        if offset > self.below or not self._is_noted:
            self._note(offset)
            self._write()

    def forget_from(self, offset: int) -> None:
        """Note, until the next flush as `allow_soon` does, that the log was cut.

        What comes there from now on is new. Raises: OSError.
        """
        self._unnoted_below = min(self._unnoted_below, offset)
        if offset < self.below:
            self._note(offset)
            self._write()

    def flush(self, folder: DiskDirectory, below: int) -> None:
        """Put on the device what was noted when all that is there now was written.

        What was noted since stays in the second file: a power cut may still take the batches in
        front of such a hole. In a thread. Raises: OSError.
        """
        with self._write_lock:
            below = min(self.below, max(below, self._synced))
            if not self._is_noted or (below == self._synced and not self._has_unsynced):
                return
            if below != self._synced:
                folder.write_atomically(HOLES_FILE, encode([(below,)]))
                self._synced = below
            if self._has_unsynced and below == self.below:
                self._empty_unsynced(folder)

    def _note(self, offset: int) -> None:
        self.below, self._is_noted = offset, True

    def _write(self) -> None:
        self._has_unsynced = True
        _replace(
            self._disk.open(f"{self.directory}/{UNSYNCED_HOLES_FILE}", create=True),
            _encode_unsynced(self.below, self._disk.boot_id()),
        )

    def _empty_unsynced(self, folder: DiskDirectory) -> None:
        """What was noted on the loop is in the first file now. In a thread. Raises: OSError."""
        self._has_unsynced = False
        try:
            _replace(folder.open(UNSYNCED_HOLES_FILE, create=True), b"", sync=True)
        except OSError:
            self._has_unsynced = True
            raise
        written = self._synced
        while self.below != written:  # the loop has noted something else meanwhile, or just now
            written, self._has_unsynced = self.below, True
            file = folder.open(UNSYNCED_HOLES_FILE, create=True)
            _replace(file, _encode_unsynced(written, self._disk.boot_id()))


def _replace(file: DiskFile, data: bytes, *, sync: bool = False) -> None:
    try:
        file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()
    finally:
        file.close()


def _encode_unsynced(offset: int, boot_id: str) -> bytes:
    text = f"{offset} {boot_id}".encode()
    return b"%s %08x\n" % (text, crc32c(text))


def _decode_unsynced(data: bytes, boot_id: str) -> int | None:
    """The offset, None for what was torn, emptied, or written before the machine went down."""
    text = data.partition(b" ")[0]
    is_whole = text.isdigit() and data == _encode_unsynced(int(text), boot_id)
    return int(text) if is_whole else None
