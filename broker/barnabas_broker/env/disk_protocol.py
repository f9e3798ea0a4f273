"""Files and folders, behind a protocol so that a simulation can lose, tear and refuse writes.

`Disk` works on whole paths, `DiskFile` on one open file. Both are synchronous; whatever may block
for long (fsync, cold reads, recovery scans) is sent to the disk's threads by `Disk.run`, so a loop
never waits for a platter. Nothing here knows what the bytes mean. All failures are `OSError`.

Source: POSIX; preadv2(2) for RWF_NOWAIT; the rule that a new name lasts only once its folder has
been synced is the one LevelDB and Kafka follow.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What can be written without a copy."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Closeable(Protocol):
    """Something held until it is closed."""

    def close(self) -> None:
        """Let it go; a second call does nothing."""
        ...


class DiskFile(Protocol):
    """One open file. The position of appends is the end of the file, reads name their own."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order; returns how many bytes that were.

        Raises: OSError; a part may then be behind the old end, where the next append starts again.
        """
        ...

    def read(self, size: int, position: int) -> bytes:
        """The bytes at a position; fewer than `size` only at the end of the file."""
        ...

    def read_nowait(self, size: int, position: int) -> bytes | bytearray | None:
        """As `read`, but only from memory; None where the device would have to be waited for."""
        ...

    def write_at(self, data: Buffer, position: int) -> None:
        """Overwrite or extend from a position."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros to a size."""
        ...

    def allocate(self, size: int) -> None:
        """Occupy room for the first bytes, whatever they are. Raises: OSError."""
        ...

    def sync(self) -> None:
        """Return once the content and the size will survive a power cut."""
        ...

    def size(self) -> int:
        """The file's size now."""
        ...

    def fileno(self) -> int:
        """The file descriptor, -1 where there is none."""
        ...

    def close(self) -> None:
        """Close; a second call does nothing."""
        ...


class DiskDirectory(Protocol):
    """An open folder: the one that had the path when it was opened, whatever that names by now.

    For threads, while the loop may rename the folder and make another one of its old name.
    """

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        """Open a file of the folder. Raises: FileNotFoundError, also if the folder was removed."""
        ...

    def exists(self, name: str) -> bool:
        """Whether the folder has a file of this name."""
        ...

    def write_atomically(self, name: str, data: Buffer) -> None:
        """Replace a file of the folder, as `Disk.write_atomically` does."""
        ...

    def sync(self) -> None:
        """Return once the names in the folder will survive a power cut."""
        ...

    def close(self) -> None:
        """Close; a second call does nothing."""
        ...


class Disk(Protocol):
    """A file system and the threads that wait for it."""

    def open_directory(self, path: str) -> DiskDirectory:
        """Open a folder. Raises: OSError."""
        ...

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file; `create` makes it where it is missing.

        Raises: FileNotFoundError, and any other OSError.
        """
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def make_directories(self, path: str) -> None:
        """Make a folder and those above it; what exists stays."""
        ...

    def make_directory(self, path: str) -> bool:
        """Make a folder in one that exists; False if there is a folder of that name already."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing a file of the new name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder with everything in it; one that is missing is fine."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether there is a folder."""
        ...

    def size(self, path: str) -> int:
        """A file's size."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, wall clock."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set when the file was last written."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in a folder will survive a power cut."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        ...

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Replace a file: after a crash it holds the old content or the new, never a mix."""
        ...

    def lock(self, path: str) -> Closeable:
        """Take an exclusive lock until it is closed.

        Raises: BlockingIOError if somebody else holds it.
        """
        ...

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call a function in one of the disk's threads.

        A cancellation is raised when the function has ended, or never begins: what the caller
        holds meanwhile (a lock, a file, an invariant) it holds until then.
        """
        ...

    def free_bytes(self, path: str) -> int:
        """How much an ordinary user may still write on the file system of a path."""
        ...

    def total_bytes(self, path: str) -> int:
        """The size of the file system of a path."""
        ...

    def boot_id(self) -> str:
        """Which life of the page cache this is: another one after the machine was down.

        Empty where that cannot be known.
        """
        ...

    def close(self) -> None:
        """Wait for what runs in the threads and end them."""
        ...
