"""Snapshot files beyond reading and writing them: what may be read, and installing one of a leader.

A snapshot that is to take the log's place is first written under a name of its own, then the log is
emptied, then it gets its final name. A start that finds the first name ends what was begun: nothing
else was done in between, so nothing can be lost.

Not here: the content (`snapshot`).
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.env.disk import Disk
from barnabas_broker.metadata.snapshot import SnapshotName, decode_snapshot, list_snapshots
from barnabas_protocol.errors import ParseError

INSTALLING_SUFFIX: Final = ".installing"


def readable_snapshots(disk: Disk, directory: str) -> list[SnapshotName]:
    """The snapshots that can be read, newest first. Raises: OSError."""
    names = list_snapshots(disk, directory)
    return [name for name in names if _is_readable(disk, f"{directory}/{name.file_name}")]


def read_snapshot(disk: Disk, directory: str, name: SnapshotName) -> bytes | None:
    """The content of a snapshot, None if there is no such one. Raises: OSError."""
    path = f"{directory}/{name.file_name}"
    return bytes(disk.read_bytes(path)) if disk.exists(path) else None


def write_installing(disk: Disk, directory: str, name: SnapshotName, data: bytes) -> None:
    """Write a snapshot that is to take the log's place. Raises: OSError."""
    disk.write_atomically(f"{directory}/{name.file_name}{INSTALLING_SUFFIX}", data)


def find_installing(disk: Disk, directory: str) -> SnapshotName | None:
    """The snapshot whose installation was interrupted. Raises: OSError."""
    for file_name in disk.list_directory(directory):
        name = SnapshotName.parse(file_name.removesuffix(INSTALLING_SUFFIX))
        if name is not None and file_name.endswith(INSTALLING_SUFFIX):
            return name
    return None


def finish_installing(disk: Disk, directory: str, name: SnapshotName) -> None:
    """Give the snapshot its final name and drop those before it. Raises: OSError."""
    path = f"{directory}/{name.file_name}"
    disk.rename(f"{path}{INSTALLING_SUFFIX}", path)
    disk.sync_directory(directory)
    for other in list_snapshots(disk, directory):
        if other.end_offset < name.end_offset:
            disk.remove(f"{directory}/{other.file_name}")


def _is_readable(disk: Disk, path: str) -> bool:
    try:
        decode_snapshot(bytes(disk.read_bytes(path)))
    except ParseError:
        return False
    return True
