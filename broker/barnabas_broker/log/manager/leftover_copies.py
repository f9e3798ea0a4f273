"""Copies of logs to another directory that a crash or a stop has left, at the next start.

A copy that was complete takes the place of its log, which then has the name in the copy's note.
Any other is removed, and the log is copied anew: what of a copy survived a crash is not known.

Not here: the move itself (`log_moves`). Source: KIP-113, LOG-11. Invariant: nothing is removed that
may be the only place of a log.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from barnabas_broker.env.disk import Disk
from barnabas_broker.log import layout
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.manager.log_directories import LogDirectories
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.properties_files import (
    MOVE_FILE,
    PARTITION_METADATA_FILE,
    MoveNote,
    read_move_note,
    read_topic_id,
)
from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)


class Settled(NamedTuple):
    """The outcome: `interrupted` has the target directory and topic id of each copy.

    The directories in `kept` are to be left alone: one of them may be the only place of a log, but
    nothing says of which.
    """

    kept: set[str]
    interrupted: dict[TopicPartition, tuple[str, bytes]]


async def settle_copies(directories: LogDirectories) -> Settled:
    """Put a copy in its place whose log was already renamed; queue the others for removal.

    A directory that fails goes offline.
    """
    leftovers = Leftovers()
    for directory in directories.online():
        try:
            leftovers.find(directories.disk, directory)
        except OSError as error:
            directories.take_offline(directory.path, error)
    settled = Settled(set(), {})
    for directory, path in leftovers.copies:
        try:
            note = read_move_note(directories.disk, path) or leftovers.guess(directories.disk, path)
            if note is None:
                same = leftovers.replaced.get(cut_name(path), {}).get(
                    topic_id_of(directories.disk, path), []
                )
                if same:
                    _logger.error("%s may be complete, but of which partition? It is kept", path)
                    settled.kept.update((path, *same))
                    continue
            is_complete = note is not None and note.replaced in leftovers.deleted_names
            if note is not None and is_complete and note.topic_partition not in leftovers.live:
                _logger.warning("%s is put in the place of the log it copied", path)
                new_path = directory.partition_path(note.topic_partition)
                directories.disk.rename(path, new_path)
                await directories.disk.run(directories.disk.sync_directory, directory.path)
                if directories.disk.exists(f"{new_path}/{MOVE_FILE}"):
                    directories.disk.remove(f"{new_path}/{MOVE_FILE}")
                leftovers.live.add(note.topic_partition)
            elif not directory.is_offline:
                if note is not None:
                    move = directory.path, topic_id_of(directories.disk, path)
                    settled.interrupted[note.topic_partition] = move
                directories.removals.add(path, directories.clock.monotonic_ms())
        except OSError as error:
            directories.take_offline(directory.path, error)
    return settled


class Leftovers:
    """What the directories hold: partitions, logs that were deleted or replaced, and copies."""

    def __init__(self) -> None:
        self.live: set[TopicPartition] = set()
        self.deleted_names: set[str] = set()
        # By the partition in their names, which may be cut, and their topic ids.
        self.replaced: dict[str, dict[bytes, list[str]]] = {}
        self.copies: list[tuple[LogDirectory, str]] = []

    def find(self, disk: Disk, directory: LogDirectory) -> None:
        """Look through a log directory. Raises: OSError."""
        self.live.update(key for key, _ in directory.partition_directories())
        for name in disk.list_directory(directory.path):
            path = f"{directory.path}/{name}"
            if layout.is_future_directory(name):
                self.copies.append((directory, path))
            elif layout.is_deleted_directory(name):
                self.deleted_names.add(name)
                by_id = self.replaced.setdefault(cut_name(path), {})
                by_id.setdefault(topic_id_of(disk, path), []).append(path)

    def guess(self, disk: Disk, path: str) -> MoveNote | None:
        """What the note of a copy would say that an earlier release made, without one.

        None if its name is cut.
        """
        name = path.rpartition("/")[2]
        topic_partition = layout.parse_marked_directory(name)
        if topic_partition is None or len(name) == layout.NAME_BYTES_MAX:
            return None
        same = self.replaced.get(cut_name(path), {}).get(topic_id_of(disk, path), [""])
        return MoveNote(topic_partition, same[0].rpartition("/")[2])


def cut_name(path: str) -> str:
    """The part of a marked directory's name that says of which partition it is."""
    return path.rpartition("/")[2].rpartition(".")[0]


def topic_id_of(disk: Disk, path: str) -> bytes:
    """The topic id in a partition directory, empty if it cannot be read."""
    try:
        return read_topic_id(disk, f"{path}/{PARTITION_METADATA_FILE}") or b""
    except (CheckpointError, FileNotFoundError):
        return b""
