"""Disks in memory, small enough to be filled without harm. Needs root."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.support.network_namespaces import run


def fill_up(folder: Path, filler: Path) -> None:
    """Leave hardly any room on the disk of a folder that somebody else is writing to."""
    with filler.open("wb") as file:
        while True:
            free = os.statvfs(folder)
            try:
                size = max(free.f_bavail * free.f_frsize - (1 << 20), 1)
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                continue  # it was taken meanwhile
            return


def take_all_inodes(folder: Path) -> None:
    """Make empty files until no more can be made."""
    folder.mkdir()
    try:
        for number in count():
            (folder / str(number)).touch()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextmanager
def small_disks(
    folders: Sequence[Path], mebibytes: int, *, inodes: int | None = None
) -> Iterator[None]:
    """A file system of its own, of that size and for so many files, under each folder."""
    mounted = []
    options = f"size={mebibytes}m" + ("" if inodes is None else f",nr_inodes={inodes}")
    try:
        for folder in folders:
            folder.mkdir(parents=True)
            run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)])
            mounted.append(folder)
        yield
    finally:
        for folder in mounted:
            run(["umount", "-l", str(folder)])
