"""A file system in memory that forgets what was not synced, tears writes, fills up and fails.

What it models: content is safe after `sync` of the file; names of files (made, renamed, removed)
are safe after `sync_directory` of their folder; a rename is whole or not there, as with a journal.
A crash keeps any prefix of what was not safe, in the order it was done, the last write cut
anywhere, its rest missing or zeros; or nothing of it.

A harsher disk, by its traits: folders that were made, moved or removed are safe only after
`sync_directory` of the folder above (`forgets_directories`), of the writes that were not safe some
in the middle are missing (`reorders_writes`), and some of their bits are wrong (`flips_bits`).
"""

import asyncio
import errno
import posixpath
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar

from barnabas_broker.env.disk import Buffer
from barnabas_broker.env.thread_work import outlast
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_random import SimulatedRandom

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
PATHS_MAX = 4096


class _Content:
    """A file's bytes: as they are, as they would be after a crash, and the writes in between."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.safe = b""
        self.unsafe: list[tuple[int, bytes | None]] = []  # position and data; None: truncated there
        self.modified_ms = 0
        self.allocated_bytes = 0  # what the file occupies, though it has no bytes for it

    def write(self, data: bytes, position: int) -> None:
        self.unsafe.append((position, data))
        _write(self.data, data, position)

    def truncate(self, size: int) -> None:
        self.unsafe.append((size, None))
        _truncate(self.data, size)

    def sync(self) -> None:
        self.safe = bytes(self.data)
        self.unsafe.clear()

    def crash(self, random: SimulatedRandom | None, *, reorders: bool, flips: bool) -> None:
        survivor = bytearray(self.safe)
        if random is not None and self.unsafe:
            count = random.integer(len(self.unsafe) + 1)
            for position, data in self.unsafe[:count]:
                if data is None:
                    _truncate(survivor, position)
                    continue
                if reorders and random.integer(3) == 0:
                    # The size is there, what was written is not: old bytes, or zeros.
                    old = bytes(survivor[position : position + len(data)])
                    data = old + bytes(len(data) - len(old))
                elif flips and data and random.integer(8) == 0:
                    data = bytearray(data)
                    data[random.integer(len(data))] ^= 1 << random.integer(8)
                _write(survivor, data, position)
            torn = self.unsafe[count : count + 1]
            if torn and torn[0][1] is not None:
                position, data = torn[0]
                cut = random.integer(len(data) + 1)
                # The file's size may be safe before its content is: then the rest reads as zeros.
                rest = bytes(len(data) - cut) if random.integer(3) == 0 else b""
                _write(survivor, data[:cut] + rest, position)
        self.data = survivor
        self.sync()


def _write(target: bytearray, data: Buffer, position: int) -> None:
    if position > len(target):
        target += bytes(position - len(target))
    target[position : position + len(data)] = data


def _truncate(target: bytearray, size: int) -> None:
    if size < len(target):
        del target[size:]
    else:
        target += bytes(size - len(target))


class SimulatedDisk:
    """A disk for one simulated node; `crash` turns it into what the next start will find."""

    def __init__(
        self,
        random: SimulatedRandom | None = None,
        clock: SimulatedClock | None = None,
        capacity_bytes: int = 1 << 40,
    ) -> None:
        self.random = random or SimulatedRandom()
        self.clock = clock or SimulatedClock()
        self.capacity_bytes = capacity_bytes
        self.forgets_directories = False
        self.reorders_writes = False
        self.flips_bits = False
        self.is_cold = False  # if set, nothing is in memory: every `read_nowait` gives None
        self.sync_count = 0
        self.run_count = 0
        self.is_in_thread = False  # whether what runs now would run in a thread
        self._names: dict[str, _Content] = {}
        self._safe_names: dict[str, _Content] = {}
        # What one operation did to names, which happens whole or not; None: the name is gone.
        self._unsafe_names: list[dict[str, _Content | None]] = []
        self._directories = {"/", "."}
        # Folders that were made, moved or removed since the folder above was synced: old and new
        # path, in order; "" where there was none before, or is none any more.
        self._unsafe_directories: list[tuple[str, str]] = []
        self._locks: set[str] = set()
        self._generation = 0  # what was opened before a crash is dead after it
        self._failures: list[tuple[str, str, int]] = []
        self.failure_count = 0  # how often an operation was told to fail, and did
        self._open_directories: weakref.WeakSet[SimulatedDirectory] = weakref.WeakSet()
        self._boot_count = 0

    # What tests do to it.

    @property
    def is_about_to_fail(self) -> bool:
        """Whether some operation will fail."""
        return bool(self._failures)

    def fail(self, operation: str, path_part: str = "", code: int = errno.EIO) -> None:
        """Let the next such operation on such a path raise an OSError; once."""
        self._failures.append((operation, path_part, code))

    def forget_failures(self) -> None:
        """Let nothing fail that has not failed yet."""
        self._failures.clear()

    def crash(self, *, keep_some: bool = True) -> None:
        """Lose power: locks and open files end; what was not synced is lost, in part or whole."""
        random = self.random if keep_some else None
        names = dict(self._safe_names)
        count = random.integer(len(self._unsafe_names) + 1) if random is not None else 0
        for changes in self._unsafe_names[:count]:
            _set_names(names, changes)
        for content in {id(c): c for c in [*self._names.values(), *names.values()]}.values():
            content.crash(random, reorders=self.reorders_writes, flips=self.flips_bits)
        self._forget_directories(names, random)
        self._names = names
        self._safe_names = dict(names)
        self._unsafe_names.clear()
        self._locks.clear()
        self._failures.clear()
        self._generation += 1
        self._boot_count += 1

    def replace_directory(self, directory: str) -> None:
        """Another, empty disk is mounted at a folder."""
        for names in (self._names, self._safe_names):
            for path in [p for p in names if _is_below(p, directory)]:
                del names[path]
        self._unsafe_names = [
            {p: content for p, content in changes.items() if not _is_below(p, directory)}
            for changes in self._unsafe_names
        ]
        self._unsafe_directories = [
            change
            for change in self._unsafe_directories
            if not any(_is_below(path, directory) for path in change)
        ]
        self._directories -= {p for p in self._directories if _is_below(p, directory)}

    def _forget_directories(
        self, names: dict[str, _Content], random: SimulatedRandom | None
    ) -> None:
        """Undo what was not safe of folders, but for the first of it."""
        unsafe, self._unsafe_directories = self._unsafe_directories, []
        kept = 0 if random is None else random.integer(len(unsafe) + 1)
        for old, new in reversed(unsafe[kept:]):
            below = [p for p in names if p.startswith(new + "/")] if new else []
            if not old:
                for path in below:
                    del names[path]
                self._directories -= {p for p in self._directories if _is_within(p, new)}
            elif not new:
                self._directories.add(old)
            else:
                self._directories = {_moved(p, new, old) for p in self._directories}
                for path in below:
                    names[_moved(path, new, old)] = names.pop(path)
        if self.forgets_directories:
            for path in [p for p in names if posixpath.dirname(p) not in self._directories]:
                del names[path]

    @property
    def used_bytes(self) -> int:
        return sum(
            max(len(content.data), content.allocated_bytes) for content in self._names.values()
        )

    # The protocol.

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> "SimulatedFile":
        path = self._checked("open", path)
        content = self._names.get(path)
        if content is None:
            if path in self._directories:
                raise IsADirectoryError(errno.EISDIR, "is a folder", path)
            if not create or posixpath.dirname(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            content = _Content()
            content.modified_ms = self.clock.wall_ms()
            self._change_names({path: content})
        return SimulatedFile(self, path, content, read_only)

    def open_directory(self, path: str) -> "SimulatedDirectory":
        path = self._checked("open_directory", path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        directory = SimulatedDirectory(self, path)
        self._open_directories.add(directory)
        return directory

    def list_directory(self, path: str) -> list[str]:
        path = self._checked("list_directory", path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        start = path if path.endswith("/") else path + "/"
        length = len(start)
        return sorted(
            {
                p[length:]
                for names in (self._names, self._directories)
                for p in names
                if p.startswith(start) and len(p) > length and "/" not in p[length:]
            }
        )

    def make_directories(self, path: str) -> None:
        path = self._checked("make_directories", path)
        made: list[str] = []
        while path not in self._directories:
            if path in self._names:
                raise FileExistsError(errno.EEXIST, "is a file", path)
            self._directories.add(path)
            made.append(path)
            path = posixpath.dirname(path)
        if self.forgets_directories:
            self._unsafe_directories += [("", path) for path in reversed(made)]

    def make_directory(self, path: str) -> bool:
        path = self._checked("make_directory", path)
        if posixpath.dirname(path) not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        is_new = path not in self._directories
        self.make_directories(path)
        return is_new

    def rename(self, old: str, new: str) -> None:
        old, new = self._checked("rename", old), _normal(new)
        if old in self._names:
            self._change_names({new: self._names[old], old: None})
        elif old in self._directories:
            self._rename_directory(old, new)
        else:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)

    def _rename_directory(self, old: str, new: str) -> None:
        below = old + "/"
        if new in self._names or any(p.startswith(new + "/") for p in self._names):
            raise OSError(errno.ENOTEMPTY, "is in use", new)
        self._directories = {_moved(p, old, new) for p in self._directories}
        for directory in self._open_directories:
            directory.path = _moved(directory.path, old, new)
        if self.forgets_directories:
            # What was done below it is found under its new path, also to be undone.
            self._unsafe_directories = [
                (_moved(o, old, new) if _is_below(o, old) else o, _moved(n, old, new))
                if _is_below(n, old)
                else (o, n)
                for o, n in self._unsafe_directories
            ]
            self._unsafe_directories.append((old, new))
        # What is below the folder moves in both worlds; a crash may move it back.
        for names in (self._names, self._safe_names):
            for path in [p for p in names if p.startswith(below)]:
                names[_moved(path, old, new)] = names.pop(path)
        self._unsafe_names = [
            {_moved(p, old, new): content for p, content in changes.items()}
            for changes in self._unsafe_names
        ]

    def remove(self, path: str) -> None:
        path = self._checked("remove", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._change_names({path: None})

    def remove_tree(self, path: str) -> None:
        path = self._checked("remove_tree", path)
        for name in [p for p in self._names if p.startswith(path + "/")]:
            self._change_names({name: None})
        for directory in self._open_directories:
            if directory.path == path or directory.path.startswith(path + "/"):
                directory.path = "/removed"
        if self.forgets_directories and path in self._directories:
            self._unsafe_directories.append((path, ""))
        self._directories -= {p for p in self._directories if p == path or p.startswith(path + "/")}

    def exists(self, path: str) -> bool:
        path = self._checked("exists", path)
        return path in self._names or path in self._directories

    def is_directory(self, path: str) -> bool:
        return self._checked("is_directory", path) in self._directories

    def size(self, path: str) -> int:
        content = self._content("size", path)
        return max(len(content.data), content.allocated_bytes)

    def modified_ms(self, path: str) -> int:
        return self._content("modified_ms", path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._content("set_modified_ms", path).modified_ms = modified_ms

    def sync_directory(self, path: str) -> None:
        path = self._checked("sync_directory", path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        left = []
        for changes in self._unsafe_names:
            if path in map(_folder_of, changes):
                _set_names(self._safe_names, changes)
            else:
                left.append(changes)
        self._unsafe_names = left
        self._unsafe_directories = [
            change for change in self._unsafe_directories if path not in map(_above, change)
        ]

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._content("read_bytes", path).data)

    def write_atomically(self, path: str, data: Buffer) -> None:
        path = self._checked("write_atomically", path)
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.append([data])
        file.sync()
        file.close()
        self.rename(path + ".tmp", path)
        self.sync_directory(posixpath.dirname(path))

    def lock(self, path: str) -> "SimulatedLock":
        path = self._checked("lock", path)
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "is locked", path)
        self.open(path, create=True)
        self._locks.add(path)
        return SimulatedLock(self._locks, path)

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call it here, after others had their turn: as late as a thread would be.

        As in a thread, what has begun goes on though its caller is cancelled.
        """
        self.run_count += 1
        work = asyncio.get_running_loop().create_task(
            self._in_thread(partial(function, *args, **kwargs))
        )
        return await outlast(work, partial(self._take_back, work))

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        """What a thread does for one call; there is always one that is free."""
        await asyncio.sleep(0)
        return self._call(call)

    def _call(self, call: Callable[[], Result]) -> Result:
        """The call itself, in its thread."""
        self.is_in_thread = True
        try:
            return call()
        finally:
            self.is_in_thread = False

    def _take_back(self, work: asyncio.Task[Any]) -> bool:
        """Cancel what no thread has begun; returns whether that was so."""
        return False

    def appended(self, path: str, data: bytes) -> None:
        """Something was written at the end of a file."""

    def free_bytes(self, path: str) -> int:
        self._checked("free_bytes", path)
        return max(self.capacity_bytes - self.used_bytes, 0)

    def total_bytes(self, path: str) -> int:
        self._checked("total_bytes", path)
        return self.capacity_bytes

    def boot_id(self) -> str:
        return f"boot {self._boot_count}"

    def close(self) -> None:
        pass

    def _checked(self, operation: str, path: str) -> str:
        """The normal form of a path, unless the operation was told to fail on it."""
        path = _normal(path)
        for failure in self._failures:
            if failure[0] == operation and failure[1] in path:
                self._failures.remove(failure)
                self.failure_count += 1
                raise OSError(failure[2], f"simulated failure of {operation}", path)
        return path

    def _content(self, operation: str, path: str) -> _Content:
        path = self._checked(operation, path)
        try:
            return self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def _change_names(self, changes: dict[str, _Content | None]) -> None:
        _set_names(self._names, changes)
        self._unsafe_names.append(changes)


class SimulatedFile:
    """An open file of a simulated disk."""

    def __init__(self, disk: SimulatedDisk, path: str, content: _Content, read_only: bool) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._read_only = read_only
        self._generation = disk._generation
        self._is_closed = False
        self._torn_at: int | None = None

    def append(self, buffers: Sequence[Buffer]) -> int:
        content = self._usable("append", writes=True)
        data = b"".join(buffers)
        if self._torn_at is not None and self._torn_at < len(content.data):
            content.truncate(self._torn_at)  # an append that failed is written over by the next
        self._torn_at = None
        room = self._disk.free_bytes("/")
        if len(data) > room:
            self._torn_at = len(content.data)
            content.write(data[:room], len(content.data))
            raise OSError(errno.ENOSPC, "the simulated disk is full", self._path)
        content.write(data, len(content.data))
        self._disk.appended(self._path, data)
        return len(data)

    def read(self, size: int, position: int) -> bytes:
        return bytes(self._usable("read").data[position : position + size])

    def read_nowait(self, size: int, position: int) -> bytes | None:
        return None if self._disk.is_cold else self.read(size, position)

    def write_at(self, data: Buffer, position: int) -> None:
        content = self._usable("write_at", writes=True)
        if position + len(data) - len(content.data) > self._disk.free_bytes("/"):
            raise OSError(errno.ENOSPC, "the simulated disk is full", self._path)
        content.write(bytes(data), position)

    def truncate(self, size: int) -> None:
        self._torn_at = None
        self._usable("truncate", writes=True).truncate(size)

    def allocate(self, size: int) -> None:
        content = self._usable("allocate", writes=True)
        held = max(len(content.data), content.allocated_bytes)
        if size - held > self._disk.free_bytes("/"):
            raise OSError(errno.ENOSPC, "the simulated disk is full", self._path)
        content.allocated_bytes = max(held, size)

    def sync(self) -> None:
        self._usable("sync").sync()
        self._disk.sync_count += 1

    def size(self) -> int:
        return len(self._usable("size").data)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._is_closed = True

    def _usable(self, operation: str, *, writes: bool = False) -> _Content:
        if self._is_closed or self._generation != self._disk._generation:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        if writes and self._read_only:
            raise OSError(errno.EBADF, "the file is open for reading only", self._path)
        self._disk._checked(operation, self._path)
        if writes:
            self._content.modified_ms = self._disk.clock.wall_ms()
        return self._content


class SimulatedDirectory:
    """An open folder, which is the same one whatever its path is by now."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._generation = disk._generation
        self.path = path

    def open(self, name: str, *, create: bool = False) -> "SimulatedFile":
        return self._usable().open(f"{self.path}/{name}", create=create)

    def exists(self, name: str) -> bool:
        return self._usable().exists(f"{self.path}/{name}")

    def write_atomically(self, name: str, data: Buffer) -> None:
        self._usable().write_atomically(f"{self.path}/{name}", data)

    def sync(self) -> None:
        if self._usable().is_directory(self.path):
            self._disk.sync_directory(self.path)

    def close(self) -> None:
        self._disk._open_directories.discard(self)

    def _usable(self) -> SimulatedDisk:
        if self._generation != self._disk._generation:
            raise OSError(errno.EBADF, "the folder is closed", self.path)
        return self._disk


class SimulatedLock:
    """A held lock."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path: str | None = path

    def close(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            self._locks.discard(path)


# A story asks for the same paths again and again.
_normal = lru_cache(PATHS_MAX)(posixpath.normpath)
_folder_of = lru_cache(PATHS_MAX)(posixpath.dirname)


def _above(path: str) -> str:
    return posixpath.dirname(path) if path else ""


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(old + "/") else path


def _set_names(names: dict[str, _Content], changes: dict[str, _Content | None]) -> None:
    for path, content in changes.items():
        if content is None:
            names.pop(path, None)
        else:
            names[path] = content
