"""Room held for what may not stop when a disk is full, and the disk of those who may use it.

Each log directory has a file that occupies room and holds nothing. Where a write of the metadata
log, of an internal topic or of a checkpoint finds no room at all, the file is removed and the write
is made again. Client topics never get that room: from that moment the directory is CRITICAL. The
file comes back when there is room for it (`disk_guard`).

Not here: when there is little room, and who stops then (`disk_room`, `disk_guard`).
Source: VOL-4, `docs/decisions/0016-a-full-disk-is-a-state.md`. Invariant: what is done again is
without effect where it has failed, or has the same effect twice.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from barnabas_broker.log.errors import LogDirectoryError

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Buffer, Closeable, Disk, DiskDirectory, DiskFile

_logger = logging.getLogger(__name__)

BALLAST_FILE: Final = "barnabas.ballast"
BALLAST_BYTES_MAX: Final = 64 * 1024 * 1024
SHARE_OF_RESERVE: Final = 4
"""The ballast is at most one part in this many of a volume's reserve."""

_OUT_OF_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def is_out_of_space(error: BaseException | None) -> bool:
    """Whether a write failed because there is no room, and for no other reason."""
    if isinstance(error, LogDirectoryError):
        error = error.cause
    return isinstance(error, OSError) and error.errno in _OUT_OF_SPACE


def ballast_bytes(reserve_bytes: int) -> int:
    """How large the ballast of a volume with that reserve is."""
    return min(BALLAST_BYTES_MAX, reserve_bytes // SHARE_OF_RESERVE)


class Ballast:
    """The file of one log directory. Used from the loop and from threads."""

    __slots__ = ("_disk", "_lock", "given_up_count", "is_held", "on_given_up", "path")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self.path = f"{directory}/{BALLAST_FILE}"
        self.is_held = False
        self.given_up_count = 0
        # Called where the room is given up: in whatever thread needed it.
        self.on_given_up: Callable[[], None] = lambda: None

    def give_up(self) -> None:
        """Remove the file, if there is one. Raises: OSError."""
        with self._lock:
            self.is_held = False
            if not self._disk.exists(self.path):
                return
            self._disk.remove(self.path)
            self.given_up_count += 1
        _logger.warning("%s is given up: its disk has no room left", self.path)
        self.on_given_up()

    def find(self) -> bool:
        """Whether the last run has left the file; in a thread. Raises: OSError."""
        with self._lock:
            self.is_held = self._disk.exists(self.path) and self._disk.size(self.path) > 0
            return self.is_held

    def make(self, size: int) -> None:
        """Occupy the room, which takes a while on some file systems: in a thread. Raises: OSError.

        Where there is not enough, nothing is left.
        """
        with self._lock:
            file = self._disk.open(self.path, create=True)
            try:
                file.allocate(size)
            except OSError:
                self._disk.remove(self.path)
                raise
            finally:
                file.close()
            self.is_held = True

    def again(
        self,
        failed: OSError,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Give the room up and do again what found none. Raises: what was raised, if not for that.

        Also where somebody else has just given it up.
        """
        if not is_out_of_space(failed):
            raise failed
        self.give_up()
        return function(*args, **kwargs)


class NeededFile:
    """An open file whose writes may use the ballast's room."""

    __slots__ = ("_ballast", "_file", "close", "fileno", "read", "read_nowait", "size", "sync")

    def __init__(self, file: DiskFile, ballast: Ballast) -> None:
        self._file = file
        self._ballast = ballast
        # What needs no room goes straight to the file.
        self.close = file.close
        self.fileno = file.fileno
        self.read = file.read
        self.read_nowait = file.read_nowait
        self.size = file.size
        self.sync = file.sync

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order."""
        try:
            return self._file.append(buffers)
        except OSError as error:
            return self._ballast.again(error, self._file.append, buffers)

    def write_at(self, data: Buffer, position: int) -> None:
        """Overwrite or extend from a position."""
        try:
            self._file.write_at(data, position)
        except OSError as error:
            self._ballast.again(error, self._file.write_at, data, position)

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros to a size."""
        try:
            self._file.truncate(size)
        except OSError as error:
            self._ballast.again(error, self._file.truncate, size)

    def allocate(self, size: int) -> None:
        """Occupy the room of the first bytes."""
        try:
            self._file.allocate(size)
        except OSError as error:
            self._ballast.again(error, self._file.allocate, size)


class NeededFolder:
    """An open folder whose writes may use the ballast's room."""

    __slots__ = ("_ballast", "_folder", "close", "exists", "sync")

    def __init__(self, folder: DiskDirectory, ballast: Ballast) -> None:
        self._folder = folder
        self._ballast = ballast
        self.close = folder.close
        self.exists = folder.exists
        self.sync = folder.sync

    def open(self, name: str, *, create: bool = False) -> NeededFile:
        """Open a file of the folder."""
        try:
            file = self._folder.open(name, create=create)
        except OSError as error:
            file = self._ballast.again(error, self._folder.open, name, create=create)
        return NeededFile(file, self._ballast)

    def write_atomically(self, name: str, data: Buffer) -> None:
        """Replace a file of the folder."""
        try:
            self._folder.write_atomically(name, data)
        except OSError as error:
            self._ballast.again(error, self._folder.write_atomically, name, data)


class NeededDisk:
    """The disk as those see it whose writes may use a directory's ballast."""

    def __init__(self, disk: Disk, ballast: Ballast) -> None:
        self._disk = disk
        self._ballast = ballast

    def open_directory(self, path: str) -> NeededFolder:
        """Open a folder."""
        return NeededFolder(self._disk.open_directory(path), self._ballast)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> NeededFile:
        """Open a file; `create` makes it where it is missing."""
        try:
            file = self._disk.open(path, create=create, read_only=read_only)
        except OSError as error:
            file = self._ballast.again(
                error, self._disk.open, path, create=create, read_only=read_only
            )
        return NeededFile(file, self._ballast)

    def make_directories(self, path: str) -> None:
        """Make a folder and those above it."""
        try:
            self._disk.make_directories(path)
        except OSError as error:
            self._ballast.again(error, self._disk.make_directories, path)

    def make_directory(self, path: str) -> bool:
        """Make a folder in one that exists; False if there is a folder of that name already."""
        try:
            return self._disk.make_directory(path)
        except OSError as error:
            return self._ballast.again(error, self._disk.make_directory, path)

    def rename(self, old: str, new: str) -> None:
        """Rename atomically: a folder may have to grow for the name."""
        try:
            self._disk.rename(old, new)
        except OSError as error:
            self._ballast.again(error, self._disk.rename, old, new)

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace a file."""
        try:
            self._disk.write_atomically(path, data)
        except OSError as error:
            self._ballast.again(error, self._disk.write_atomically, path, data)

    # What needs no room.

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return self._disk.list_directory(path)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder with everything in it."""
        self._disk.remove_tree(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self._disk.exists(path)

    def is_directory(self, path: str) -> bool:
        """Whether there is a folder."""
        return self._disk.is_directory(path)

    def size(self, path: str) -> int:
        """A file's size."""
        return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""
        return self._disk.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set when the file was last written."""
        self._disk.set_modified_ms(path, modified_ms)

    def sync_directory(self, path: str) -> None:
        """Return once the names in a folder will survive a power cut."""
        self._disk.sync_directory(path)

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        return self._disk.read_bytes(path)

    def lock(self, path: str) -> Closeable:
        """Take an exclusive lock until it is closed."""
        return self._disk.lock(path)

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call a function in one of the disk's threads."""
        return await self._disk.run(function, *args, **kwargs)

    def free_bytes(self, path: str) -> int:
        """How much may still be written."""
        return self._disk.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        """The size of the file system."""
        return self._disk.total_bytes(path)

    def boot_id(self) -> str:
        """Which life of the page cache this is."""
        return self._disk.boot_id()

    def close(self) -> None:
        """End the disk's threads."""
        self._disk.close()
