"""Gives files that root writes into a broker's folders to the broker's user.

Commands on a stopped broker's data are often run by root, and the broker, which is not root, could
open nothing of what they left.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def given_to_owner(directories: Iterable[Path]) -> Iterator[None]:
    """Give what is root's in the folders to their owners in the end, whatever came of the block.

    A command that was killed is run again, and gives away what the first run left.
    """
    try:
        yield
    finally:
        if os.geteuid() == 0:
            for directory in directories:
                if directory.is_dir():
                    _give(directory)


def _give(directory: Path) -> None:
    owner = directory.stat()
    if owner.st_uid == 0:
        return
    for path in (directory, *directory.rglob("*")):
        if path.lstat().st_uid == 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
