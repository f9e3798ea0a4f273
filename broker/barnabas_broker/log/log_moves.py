"""Logs that are being copied to another log directory, until one takes the place of the other.

The copy grows in a directory of its own name (`-future`), unknown to the log manager. A note in it
(`partition.move`) says whose copy it is, since names of directories are cut where they are long,
and which name the log that it copies will get for its removal. When the copy has all, that log is
renamed so and the copy gets its name, between two turns of the loop. Both names are then made
durable in a thread, and nothing that the copy takes meanwhile counts as durable before they are.
After a crash in between, the copy is found with just that directory there, and is put in its place
(`settle_leftovers`); or both have the partition's name, and the one is loaded that the metadata
remembers. Any other copy is thrown away at the next start, and the log copied anew: what of a copy
survived a crash is not known. A copy that was given up has lost that name.

Not here: copying (`replication.future_log`). Source: KIP-113, LOG-11. Invariant: a partition
never has two directories of its own name while the machine runs, and, where a copy was begun, never
none that can be found.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas_broker.log import layout
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.directory_removal import removal_path
from barnabas_broker.log.partition_log import PartitionLog, Successor
from barnabas_broker.log.properties_files import (
    MOVE_FILE,
    PARTITION_METADATA_FILE,
    MoveNote,
    read_move_note,
    read_topic_id,
    write_move_note,
    write_topic_id,
)
from barnabas_broker.log.tail_cache import TailCache

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.log.log_directory import LogDirectory
    from barnabas_broker.log.log_manager import LogManager
    from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)


async def begin_copy(manager: LogManager, log: PartitionLog, target: LogDirectory) -> PartitionLog:
    """A new, empty log in a `-future` directory, for a copy of `log`.

    Raises: OSError, LogDirectoryError; then the target's disk fails.
    """
    name = layout.future_directory_name(log.topic_partition, manager.random.uuid().hex())
    path = f"{target.path}/{name}"
    replaced = removal_path(manager.random, log.directory, log.topic_partition)
    note = MoveNote(log.topic_partition, replaced.rpartition("/")[2])
    await manager.disk.run(
        _make_copy_directory, manager.disk, target.path, path, log.topic_id, note
    )
    # What is copied is old: it must not push what is new out of the shared tail cache.
    copy = PartitionLog.create(
        manager.disk,
        manager.clock,
        manager.random,
        TailCache(0),
        log.topic_partition,
        log.topic_id,
        path,
        log.config,
        manager.index_cache,
        is_empty_directory=True,
    )
    if log.log_start_offset:
        copy.truncate_fully_and_start_at(log.log_start_offset)
        copy.removal.cancel()
    log.successor = Successor(copy, replaced)
    return copy


def _make_copy_directory(
    disk: Disk, parent: str, path: str, topic_id: bytes, note: MoveNote
) -> None:
    """Durable, since this is also the note that the log is to be moved."""
    disk.make_directories(path)
    write_move_note(disk, path, note)
    write_topic_id(disk, f"{path}/{PARTITION_METADATA_FILE}", topic_id)
    disk.sync_directory(parent)


def discard_copy(manager: LogManager, copy: PartitionLog) -> None:
    """Give a copy up; its files go soon, and the next start does not make it again."""
    copy.retire()
    try:
        # Not as deleted: that name is for a log that a complete copy may replace.
        copy.rename_directory(
            removal_path(manager.random, copy.directory, copy.topic_partition, is_copy=True)
        )
    except OSError as error:
        manager.take_offline(manager.directory_of(copy).path, error)
        return
    manager.removals.add(copy.directory, manager.clock.monotonic_ms(), copy)


def leave_copy(copy: PartitionLog) -> None:
    """Let a copy be, because the broker stops: the next start makes it again."""
    copy.retire()
    copy.release_files()


async def put_in_place(manager: LogManager, log: PartitionLog, copy: PartitionLog) -> bool:
    """Let a complete copy take the place of its log; False if a disk fails meanwhile.

    Nothing else runs before the copy is in service.
    """
    source, target = manager.directory_of(log), manager.directory_of(copy)
    # A power cut before both names are safe may leave the log that is replaced, and not the copy.
    flushed = copy.recovery_point
    copy.recovery_point = min(flushed, log.recovery_point)
    copy.update_config(log.config)
    for leader_epoch, start_offset in log.leader_epochs.entries:
        copy.leader_epochs.assign(leader_epoch, start_offset)
    copy.advance_log_start_offset(log.log_start_offset)
    copy.advance_high_watermark(log.high_watermark)
    await manager.delete(log.topic_partition)  # does not wait for anything
    if source.is_offline:
        return False
    try:
        copy.rename_directory(target.partition_path(log.topic_partition))
    except OSError as error:
        manager.take_offline(target.path, error)
        return False
    copy.tail = manager.tail_cache.tail()
    manager.add(target, copy)
    with copy.flushing.held():
        for directory in (source, target):
            try:
                await manager.disk.run(manager.disk.sync_directory, directory.path)
            except OSError as error:
                manager.take_offline(directory.path, error)
    if target.is_offline:
        return False
    if not copy.is_offline:
        copy.recovery_point = max(copy.recovery_point, min(flushed, copy.log_end_offset))
        # Not before its new name is safe: a start that finds the old one needs the note.
        try:
            manager.disk.remove(f"{copy.directory}/{MOVE_FILE}")
        except OSError as error:
            manager.take_offline(target.path, error)
            return False
    await manager.note_deletions()
    await manager.checkpointing.write_all(target)
    return True


# After a restart.


async def settle_leftovers(manager: LogManager) -> set[str]:
    """Put a copy in its place whose log was already renamed; queue the others for removal.

    Where those were to go is in the manager's `interrupted_moves`. A directory that fails goes
    offline. Returns directories that are to be left alone: one of them may be the only place of a
    log, but nothing says of which.
    """
    leftovers = _Leftovers()
    for directory in manager.online_directories():
        try:
            leftovers.find(manager, directory)
        except OSError as error:
            manager.take_offline(directory.path, error)
    kept: set[str] = set()
    for directory, path in leftovers.copies:
        try:
            note = read_move_note(manager.disk, path) or leftovers.guess(manager, path)
            if note is None:
                same = leftovers.replaced.get(_cut_name(path), {}).get(_topic_id(manager, path), [])
                if same:
                    _logger.error("%s may be complete, but of which partition? It is kept", path)
                    kept.update((path, *same))
                    continue
            is_complete = note is not None and note.replaced in leftovers.deleted_names
            if note is not None and is_complete and note.topic_partition not in leftovers.live:
                _logger.warning("%s is put in the place of the log it copied", path)
                new_path = directory.partition_path(note.topic_partition)
                manager.disk.rename(path, new_path)
                await manager.disk.run(manager.disk.sync_directory, directory.path)
                if manager.disk.exists(f"{new_path}/{MOVE_FILE}"):
                    manager.disk.remove(f"{new_path}/{MOVE_FILE}")
                leftovers.live.add(note.topic_partition)
            elif not directory.is_offline:
                if note is not None:
                    move = directory.path, _topic_id(manager, path)
                    manager.interrupted_moves[note.topic_partition] = move
                manager.removals.add(path, manager.clock.monotonic_ms())
        except OSError as error:
            manager.take_offline(directory.path, error)
    return kept


class _Leftovers:
    """What the directories hold: partitions, logs that were deleted or replaced, and copies."""

    def __init__(self) -> None:
        self.live: set[TopicPartition] = set()
        self.deleted_names: set[str] = set()
        # By the partition in their names, which may be cut, and their topic ids.
        self.replaced: dict[str, dict[bytes, list[str]]] = {}
        self.copies: list[tuple[LogDirectory, str]] = []

    def find(self, manager: LogManager, directory: LogDirectory) -> None:
        """Look through a log directory. Raises: OSError."""
        self.live.update(key for key, _ in directory.partition_directories())
        for name in manager.disk.list_directory(directory.path):
            path = f"{directory.path}/{name}"
            if layout.is_future_directory(name):
                self.copies.append((directory, path))
            elif layout.is_deleted_directory(name):
                self.deleted_names.add(name)
                by_id = self.replaced.setdefault(_cut_name(path), {})
                by_id.setdefault(_topic_id(manager, path), []).append(path)

    def guess(self, manager: LogManager, path: str) -> MoveNote | None:
        """What the note of a copy would say that an earlier release made, without one.

        None if its name is cut.
        """
        name = path.rpartition("/")[2]
        topic_partition = layout.parse_marked_directory(name)
        if topic_partition is None or len(name) == layout.NAME_BYTES_MAX:
            return None
        same = self.replaced.get(_cut_name(path), {}).get(_topic_id(manager, path), [""])
        return MoveNote(topic_partition, same[0].rpartition("/")[2])


def _cut_name(path: str) -> str:
    """The part of a marked directory's name that says of which partition it is."""
    return path.rpartition("/")[2].rpartition(".")[0]


def _topic_id(manager: LogManager, path: str) -> bytes:
    try:
        return read_topic_id(manager.disk, f"{path}/{PARTITION_METADATA_FILE}") or b""
    except (CheckpointError, FileNotFoundError):
        return b""
