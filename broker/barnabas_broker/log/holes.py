"""Up to where offsets may be missing between two segments of a log.

A segment is begun at the log end, so a hole in front of one says that the end of the one before
never reached the disk. Compaction makes holes too, where it takes away the last records of a
segment, and so does a follower that meets a gap too wide for a segment. Recovery must tell the two
apart, whatever the topic's policy is by then: hence this note in the partition's folder.

What is noted on the loop, which waits for no device, goes to a second file, with a checksum: a
power cut may tear that one, and then the first still says what holds for all that was flushed. The
next flush takes it over.

Not here: gaps within a segment, which any log may have. Source: `docs/formats/log.md`. Invariants:
the note is on the device before the recovery point passes a hole that it allows; it never allows
one above the log end; the second file is empty, on the device too, before the first is newer.
"""

from __future__ import annotations

import logging
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

    __slots__ = ("_disk", "_has_unsynced", "_is_dirty", "_is_noted", "below", "directory")

    def __init__(
        self, disk: Disk, directory: str, below: int = 0, *, is_noted: bool = False
    ) -> None:
        self._disk = disk
        self._is_noted = is_noted
        self._is_dirty = False  # the file, or the device, has something else
        self._has_unsynced = False
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
        offset = _decode_unsynced(disk.read_bytes(path)) if disk.exists(path) else None
        if offset is not None:
            found._note(offset)
            found._has_unsynced = True
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

    def allow(self, offset: int, folder: DiskDirectory) -> None:
        """Note, on the device, that there may be holes in front of a segment's base, or below it.

        No hole there is now may be above it. In a thread. Raises: OSError.
        """
        if offset > self.below or not self._is_noted:
            self._note(offset)
            self.flush(folder)

    def allow_soon(self, offset: int) -> None:
        """As `allow`, on the loop: a kill finds the note, a power cut from the next flush on.

        Raises: OSError.
        """
        if offset > self.below or not self._is_noted:
            self._note(offset)
            self._write()

    def forget_from(self, offset: int) -> None:
        """Note, until the next flush as `allow_soon` does, that the log was cut.

        What comes there from now on is new. Raises: OSError.
        """
        if offset < self.below:
            self._note(offset)
            self._write()

    def flush(self, folder: DiskDirectory) -> None:
        """Put the note on the device if it has changed. In a thread. Raises: OSError."""
        if self._is_dirty:
            self._is_dirty = False
            try:
                folder.write_atomically(HOLES_FILE, encode([(self.below,)]))
                if self._has_unsynced:
                    self._empty_unsynced(folder)
            except OSError:
                self._is_dirty = True
                raise

    def _note(self, offset: int) -> None:
        self.below, self._is_noted, self._is_dirty = offset, True, True

    def _write(self) -> None:
        self._has_unsynced = True
        _replace(
            self._disk.open(f"{self.directory}/{UNSYNCED_HOLES_FILE}", create=True),
            _encode_unsynced(self.below),
        )

    def _empty_unsynced(self, folder: DiskDirectory) -> None:
        """What was noted on the loop is in the first file now. In a thread. Raises: OSError."""
        _replace(folder.open(UNSYNCED_HOLES_FILE, create=True), b"", sync=True)
        if self._is_dirty:  # the loop has noted something else meanwhile
            file = folder.open(UNSYNCED_HOLES_FILE, create=True)
            _replace(file, _encode_unsynced(self.below))


def _replace(file: DiskFile, data: bytes, *, sync: bool = False) -> None:
    try:
        file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()
    finally:
        file.close()


def _encode_unsynced(offset: int) -> bytes:
    text = b"%d" % offset
    return b"%s %08x\n" % (text, crc32c(text))


def _decode_unsynced(data: bytes) -> int | None:
    """The offset, None for what was torn or emptied."""
    text = data.partition(b" ")[0]
    is_whole = text.isdigit() and data == _encode_unsynced(int(text))
    return int(text) if is_whole else None
