"""Up to where the recovery point in the checkpoint may be believed after the log was cut.

    truncation-checkpoint      version, "1" and the offset, as in the checkpoints

The checkpoint is written now and then, so that it may lie above a cut: what is appended there later
is not on the device, and a recovery that believes the checkpoint would not look at it. The note is
written when the log is cut, put on the device when the cut is settled, before anything is appended,
and taken away when everything below the old recovery point is on the device again.

Source: REC-1, REC-5. Invariant: while the note is there, no recovery begins above it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from barnabas_broker.log.checkpoints import CheckpointError, decode, encode, integer

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk, DiskDirectory

TRUNCATION_FILE = "truncation-checkpoint"


class TruncationNote:
    """The note of one log: `offset` is the lowest cut, `until` the old recovery point."""

    __slots__ = ("_disk", "_is_torn", "_until", "directory", "offset")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._until = 0
        self._is_torn = False
        self.directory = directory
        self.offset: int | None = None

    @property
    def _path(self) -> str:
        return f"{self.directory}/{TRUNCATION_FILE}"

    @classmethod
    def load(cls, disk: Disk, directory: str, recovery_point: int) -> TruncationNote:
        """The note in a folder, for a checkpointed recovery point. Raises: OSError.

        One that cannot be read was not on the device, and nothing was appended behind the cut: yet
        nothing is believed then.
        """
        found = cls(disk, directory)
        if disk.exists(found._path):
            try:
                ((offset,),) = decode(found._path, disk.read_bytes(found._path), 1)
                found.offset = integer(found._path, offset)
            except (CheckpointError, ValueError):
                found.offset, found._is_torn = 0, True
            found._until = recovery_point
        return found

    def lowered(self, recovery_point: int) -> int:
        """A recovery point, as far as it may be believed."""
        return recovery_point if self.offset is None else min(recovery_point, self.offset)

    def flushed_below(self, recovery_point: int) -> int:
        """Up to where all that there is was flushed: behind a cut something else may be by now.

        Where the note is torn, nothing was appended behind the cut; it says no more of that.
        """
        return recovery_point if self._is_torn else self.lowered(recovery_point)

    def note(self, offset: int, recovery_point: int) -> None:
        """Note a cut, unsynced; the recovery point is that before it. Raises: OSError."""
        self._until = max(self._until, recovery_point)
        self.offset = offset if self.offset is None else min(self.offset, offset)
        file = self._disk.open(self._path, create=True)
        try:
            file.truncate(0)
            file.write_at(encode([(self.offset,)]), 0)
        finally:
            file.close()

    def sync(self, folder: DiskDirectory) -> None:
        """Put the note on the device; its name is the caller's to sync. For a thread.

        Raises: OSError.
        """
        file = folder.open(TRUNCATION_FILE)
        try:
            file.sync()
        finally:
            file.close()

    def flushed(self, recovery_point: int) -> None:
        """Take the note away if all that the checkpoint may say is true again.

        One that comes back with a power cut, or that cannot be removed, only makes a recovery read
        more.
        """
        if self.offset is not None and recovery_point >= self._until:
            with contextlib.suppress(OSError):
                self._disk.remove(self._path)
                self.offset = None
                self._until = 0
