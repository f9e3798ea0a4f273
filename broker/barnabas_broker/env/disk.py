"""The operating system's files and folders, and the threads that wait for them.

Knows nothing of what the bytes mean. The protocols it fulfils are those of `disk_protocol`, given
on from here so that users need one import.

Source: POSIX; preadv2(2) for RWF_NOWAIT; flock(2).
"""
# Paths are plain strings: the log opens thousands of them, and pathlib would cost more than the
# call behind it.
# ruff: noqa: PTH102, PTH103, PTH105, PTH107, PTH110, PTH112, PTH116, PTH120, PTH123, PTH208

import asyncio
import errno
import fcntl
import os
import shutil
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from barnabas_broker.env.disk_protocol import (
    Arguments,
    Buffer,
    Closeable,
    Disk,
    DiskDirectory,
    DiskFile,
    Result,
)
from barnabas_broker.env.thread_work import outlast
from barnabas_protocol.memory import unzeroed_memory

__all__ = [
    "Buffer",
    "Closeable",
    "Disk",
    "DiskDirectory",
    "DiskFile",
    "RealDisk",
    "RealFile",
    "RealLock",
]

UNZEROED_BYTES_MIN = 64 * 1024  # below it zeroing is quicker than allocating without it
THREADS = 6
"""Of these, clients keep three busy at most: with two reads and one piece of heavy work."""
NOWAIT_BYTES_MAX = 4 * 1024 * 1024
"""Copying more out of the page cache would hold the loop up for milliseconds: a thread does it."""
PARTS_MAX = 1024  # IOV_MAX on Linux and macOS: more buffers than this need a second call
_ZEROS_BYTES = 1024 * 1024
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
_WOULD_WAIT = (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class RealFile:
    """A file descriptor and where its content ends."""

    __slots__ = ("_descriptor", "_end")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Kept here instead of O_APPEND, with which Linux would ignore the position of `write_at`.
        self._end = os.fstat(descriptor).st_size

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order; returns how many bytes that were.

        Raises: OSError; a part may then be behind the old end, where the next append starts again.
        """
        total = sum(map(len, buffers))
        written = os.pwritev(self._descriptor, buffers[:PARTS_MAX], self._end)
        if written != total:
            self._append_rest(buffers, written)
        self._end += total
        return total

    def _append_rest(self, buffers: Sequence[Buffer], written: int) -> None:
        """Write what is behind the first `written` bytes of the buffers."""
        first, skip, position = 0, written, self._end + written
        while True:
            while first < len(buffers) and skip >= len(buffers[first]):
                skip -= len(buffers[first])
                first += 1
            if first == len(buffers):
                return
            parts = [memoryview(buffers[first])[skip:], *buffers[first + 1 : first + PARTS_MAX]]
            written = os.pwritev(self._descriptor, parts, position)
            if not written:
                raise OSError(errno.ENOSPC, "the file system took nothing of a write")
            skip += written
            position += written

    def read(self, size: int, position: int) -> bytes:
        """The bytes at a position; fewer than `size` only at the end of the file."""
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        left = size - len(data)
        while left and (data := os.pread(self._descriptor, left, position + size - left)):
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def read_nowait(self, size: int, position: int) -> bytearray | None:
        """As `read`, but only from the page cache; None where that takes long.

        It does where the device would be waited for, or so much would be copied. A file
        system without RWF_NOWAIT is treated as one whose pages are never in memory.
        """
        if not _NOWAIT or size > NOWAIT_BYTES_MAX:
            return None
        data = bytearray(size) if size < UNZEROED_BYTES_MIN else unzeroed_memory(size)
        filled = 0
        try:
            while filled < size:
                target = memoryview(data)[filled:]
                count = os.preadv(self._descriptor, [target], position + filled, _NOWAIT)
                if not count:
                    break
                filled += count
        except OSError as error:
            if error.errno in _WOULD_WAIT:
                return None
            raise
        if filled < size:
            target.release()
            del data[filled:]
        return data

    def write_at(self, data: Buffer, position: int) -> None:
        """Overwrite or extend from a position."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view = view[written:]
            position += written
        self._end = max(self._end, position)

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros to a size."""
        os.ftruncate(self._descriptor, size)
        self._end = size

    def allocate(self, size: int) -> None:
        """Occupy room for the first bytes; a file system without fallocate(2) writes zeros."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)
        else:
            zeros = bytes(_ZEROS_BYTES)
            for position in range(self._end, size, _ZEROS_BYTES):
                self.write_at(zeros[: size - position], position)
        self._end = max(self._end, size)

    def sync(self) -> None:
        """Return once the content and the size will survive a power cut."""
        _sync_data(self._descriptor)

    def size(self) -> int:
        """The file's size now."""
        return os.fstat(self._descriptor).st_size

    def fileno(self) -> int:
        """The file descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        """Close with the last user, so that nobody can close it under another thread."""
        self.close()


def _lock_record(descriptor: int) -> None:
    """Lock the whole file by fcntl(2), or raise OSError."""
    if hasattr(fcntl, "F_OFD_SETLK"):
        whole_file = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, whole_file)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RealLock:
    """A file held in both ways that programs lock files: flock(2), and a lock of fcntl(2).

    A JVM, and so Apache Kafka, takes the second kind, and the two do not see each other. Here that
    one belongs to the open file and not to the process, where the system can: else it would go as
    soon as anything in this process closes the file. Both end with the process, whatever kills it.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_record(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno == errno.EACCES:  # POSIX leaves systems the choice between the two
                raise BlockingIOError(errno.EAGAIN, "is locked", path) from error
            raise
        self._descriptor = descriptor

    def close(self) -> None:
        """Let the lock go; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealDirectory:
    """A folder by its descriptor: names are looked up in it, not along a path."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, name: str, *, create: bool = False) -> RealFile:
        """Open a file of the folder for reading and writing."""
        flags = os.O_CLOEXEC | os.O_RDWR | (os.O_CREAT if create else 0)
        return RealFile(os.open(name, flags, 0o644, dir_fd=self._descriptor))

    def exists(self, name: str) -> bool:
        """Whether the folder has a file of this name."""
        return os.access(name, os.F_OK, dir_fd=self._descriptor)

    def write_atomically(self, name: str, data: Buffer) -> None:
        """Replace a file: after a crash it holds the old content or the new, never a mix."""
        temporary = name + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write_at(data, 0)
            file.sync()
        finally:
            file.close()
        os.replace(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        self.sync()

    def sync(self) -> None:
        """Return once the names in the folder will survive a power cut."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        """Close with the last user."""
        self.close()


class RealDisk:
    """The operating system's files, and a few threads for what blocks."""

    __slots__ = ("_pool",)

    def __init__(self, thread_count: int = THREADS) -> None:
        # Threads start with the first call that needs them, not here.
        self._pool = ThreadPoolExecutor(thread_count, thread_name_prefix="disk")

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        """Open a file; `create` makes it where it is missing."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        return RealFile(os.open(path, flags, 0o644))

    def open_directory(self, path: str) -> RealDirectory:
        """Open a folder."""
        return RealDirectory(path)

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        """Make a folder and those above it; what exists stays."""
        os.makedirs(path, exist_ok=True)

    def make_directory(self, path: str) -> bool:
        """Make a folder in one that exists; False if there is a folder of that name already."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing a file of the new name."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder with everything in it; one that is missing is fine."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if os.path.exists(path):  # somebody else removes the same tree: the rest is still ours
                shutil.rmtree(path, ignore_errors=True)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        """A file's size."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When the file was last written, wall clock."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set when the file was last written."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_directory(self, path: str) -> None:
        """Return once the names in a folder will survive a power cut."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace a file: after a crash it holds the old content or the new, never a mix."""
        temporary = path + ".tmp"
        with open(temporary, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def lock(self, path: str) -> Closeable:
        """Take an exclusive lock until it is closed; BlockingIOError if somebody holds it."""
        return RealLock(path)

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call a function in one of the threads; whoever is cancelled waits until it has ended."""
        job = self._pool.submit(function, *args, **kwargs)
        return await outlast(asyncio.wrap_future(job), job.cancel)

    def free_bytes(self, path: str) -> int:
        """How much an ordinary user may still write on the file system of a path."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """The size of the file system of a path."""
        status = os.statvfs(path)
        return status.f_frsize * status.f_blocks

    def boot_id(self) -> str:
        """The kernel's id of this boot; in a container the host's. Empty where there is none."""
        try:
            return self.read_bytes(_BOOT_ID_PATH).decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def close(self) -> None:
        """Wait for what runs in the threads and end them."""
        self._pool.shutdown(wait=True)
