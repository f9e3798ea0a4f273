"""A tree of files, with the few operations that jobs need; and the one of this machine.

Not here: file systems that only Spark can reach (`hadoop_files.py`), tables (`tables/`).

Invariants: paths are relative to the root, with slashes; nothing outside of the root is touched; a
file that is written is whole, or is what it was.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Protocol


class FileStore(Protocol):
    """A root folder, which need not exist yet."""

    def url(self, path: str = "") -> str:
        """What Spark calls the path."""

    def names(self, path: str = "") -> tuple[str, ...]:
        """What is in a folder, sorted; nothing where there is no folder."""

    def read(self, path: str) -> str | None:
        """The text of a file; None if there is none."""

    def write(self, path: str, text: str) -> None:
        """Write a file, whole, in place of what was there; makes its folder."""

    def create(self, path: str, text: str) -> bool:
        """Write a file, whole, unless there is one: of several at once, one does it and knows."""

    def remove(self, path: str) -> None:
        """Remove a file, if there is one."""


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

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, text: str) -> None:
        """Write beside the file, then rename."""
        target = self._root / path
        _written(target.with_name(f".{target.name}.new"), text).replace(target)
        _sync(target.parent)

    def create(self, path: str, text: str) -> bool:
        """Write beside the file, under a name of its own, then link: that never replaces."""
        target = self._root / path
        beside = _written(target.with_name(f".{target.name}.{uuid.uuid4().hex}"), text)
        try:
            os.link(beside, target)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        _sync(target.parent)
        return True

    def remove(self, path: str) -> None:
        """Remove a file."""
        (self._root / path).unlink(missing_ok=True)


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
