"""A tree of files, with the few operations that exactly-once needs; and the one of this machine.

`publish` is the heart of it: a folder that was filled out of sight appears under its name, whole,
and never over another. On a local disk and on HDFS that is one step. Object stores copy file by
file, so that a crash can leave a part: what a reader of manifests must expect.

Not here: file systems that only Spark can reach (`hadoop_files.py`).

Invariants: paths are relative to the root, with slashes; nothing outside of the root is touched.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Protocol


class FileStore(Protocol):
    """A root folder, which need not exist yet."""

    def url(self, path: str = "") -> str:
        """What Spark calls the path."""

    def names(self, path: str = "") -> tuple[str, ...]:
        """What is in a folder, sorted; nothing where there is no folder."""

    def files(self, path: str) -> dict[str, int]:
        """Sizes of all files below a folder, by their path from there."""

    def read(self, path: str) -> str | None:
        """The text of a file; None if there is none."""

    def write(self, path: str, text: str) -> None:
        """Write a file, whole, in place of what was there; makes its folder."""

    def publish(self, source: str, target: str) -> None:
        """Give a folder its name; where that can be, in one step that lasts.

        Raises: FileExistsError if the target exists; FileNotFoundError if the source does not.
        """

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all that is in it; nothing if it does not exist."""


class LocalFiles:
    """A folder of this machine, or of one that is mounted here."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def url(self, path: str = "") -> str:
        """Return what Spark calls the path."""
        # Not `as_uri`: Hadoop takes escapes for what they are.
        return f"file://{self._root / path}"

    def names(self, path: str = "") -> tuple[str, ...]:
        """Return what is in a folder."""
        try:
            return tuple(sorted(found.name for found in (self._root / path).iterdir()))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def files(self, path: str) -> dict[str, int]:
        """Return sizes by path."""
        top = self._root / path
        return {
            found.relative_to(top).as_posix(): found.stat().st_size
            for found in sorted(top.rglob("*"))
            if found.is_file()
        }

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, text: str) -> None:
        """Write beside the file, then rename."""
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        _sync(target.parent)

    def publish(self, source: str, target: str) -> None:
        """Rename, after all that is in the folder has reached the disk."""
        old, new = self._root / source, self._root / target
        for found in old.rglob("*"):
            _sync(found)
        _sync(old)
        if new.exists():
            raise FileExistsError(errno.EEXIST, "it exists already", str(new))
        try:
            old.rename(new)  # refused where another writer was quicker: its folder is not empty
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise FileExistsError(errno.EEXIST, "it exists already", str(new)) from error
            raise
        _sync(new.parent)

    def delete(self, path: str) -> None:
        """Delete a file or a folder."""
        found = self._root / path
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found)
        else:
            found.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
