"""Logs that are being copied to another log directory, until one takes the place of the other.

The copy grows in a directory of its own name (`-future`), unknown to the log manager. When it has
all, the log it copies is renamed for removal and the copy gets its name, between two turns of the
loop. Both names are then made durable in a thread, and nothing that the copy takes meanwhile counts
as durable before they are. After a power cut in between, the copy is found beside what it replaced
and is put in its place (`settle_leftovers`); or both have the partition's name, and the one is
loaded that the metadata remembers. Any other copy is thrown away at the next start, and the log
copied anew: what of a copy survived a crash is not known. A copy that was given up has lost that
name.

Not here: copying (`replication.future_log`). Source: KIP-113, LOG-11. Invariant: a partition
never has two directories of its own name while the machine runs, and, where a copy was begun, never
none that can be found.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas_broker.log import layout
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.directory_removal import rename_for_removal
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.properties_files import (
    PARTITION_METADATA_FILE,
    read_topic_id,
    write_topic_id,
)
from barnabas_broker.log.segment import Segment
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
    await manager.disk.run(_make_copy_directory, manager.disk, target.path, path, log.topic_id)
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
    return copy


def _make_copy_directory(disk: Disk, parent: str, path: str, topic_id: bytes) -> None:
    """Durable, since this is also the note that the log is to be moved."""
    disk.make_directories(path)
    write_topic_id(disk, f"{path}/{PARTITION_METADATA_FILE}", topic_id)
    disk.sync_directory(parent)


def discard_copy(manager: LogManager, copy: PartitionLog) -> None:
    """Give a copy up; its files go soon, and the next start does not make it again."""
    copy.retire()
    path = copy.directory
    try:
        # Not as deleted: that name is for a log that a complete copy may replace.
        path = rename_for_removal(
            manager.disk, manager.random, path, copy.topic_partition, is_copy=True
        )
    except OSError as error:
        manager.take_offline(manager.directory_of(copy).path, error)
        return
    manager.removals.add(path, manager.clock.monotonic_ms(), copy)


def leave_copy(copy: PartitionLog) -> None:
    """Let a copy be, because the broker stops: the next start makes it again."""
    copy.retire()
    copy.release_files()


async def put_in_place(manager: LogManager, log: PartitionLog, copy: PartitionLog) -> bool:
    """Let a complete copy take the place of its log; False if a disk fails meanwhile.

    Nothing else runs before the copy is in service.
    """
    source, target = manager.directory_of(log), manager.directory_of(copy)
    copy.update_config(log.config)
    for leader_epoch, start_offset in log.leader_epochs.entries:
        copy.leader_epochs.assign(leader_epoch, start_offset)
    copy.advance_log_start_offset(log.log_start_offset)
    copy.advance_high_watermark(log.high_watermark)
    await manager.delete(log.topic_partition)  # does not wait for anything
    if source.is_offline:
        return False
    try:
        _rename(copy, target.partition_path(log.topic_partition))
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
    await manager.note_deletions()
    await manager.checkpointing.write_all(target)
    return True


def _rename(log: PartitionLog, directory: str) -> None:
    """Give a log's directory another name, on the same disk. Raises: OSError."""
    log.disk.rename(log.directory, directory)
    log.directory = directory
    for segment in log.segments.values():
        _point(segment, directory)
    log.snapshots.directory = directory
    log.leader_epochs.path = f"{directory}/{log.leader_epochs.path.rpartition('/')[2]}"


def _point(segment: Segment, directory: str) -> None:
    """Have a segment find its files under another directory."""
    segment.directory = directory
    if segment.offset_index is not None:
        segment.offset_index.path = segment.path(layout.INDEX_SUFFIX)
    if segment.time_index is not None:
        segment.time_index.path = segment.path(layout.TIME_INDEX_SUFFIX)
    if segment.transaction_index is not None:
        segment.transaction_index.path = segment.path(layout.TRANSACTION_INDEX_SUFFIX)


# After a restart.


async def settle_leftovers(manager: LogManager) -> None:
    """Put a copy in its place whose log was already renamed; queue the others for removal.

    Where those were to go is in the manager's `interrupted_moves`. A directory that fails goes
    offline.
    """
    live: set[TopicPartition] = set()
    replaced: dict[TopicPartition, set[bytes]] = {}
    copies: list[tuple[LogDirectory, TopicPartition, str]] = []
    for directory in manager.online_directories():
        try:
            live.update(key for key, _ in directory.partition_directories())
            for name in manager.disk.list_directory(directory.path):
                marked = layout.parse_marked_directory(name)
                path = f"{directory.path}/{name}"
                if marked is None:
                    continue
                if layout.is_future_directory(name):
                    copies.append((directory, marked, path))
                elif layout.is_deleted_directory(name):
                    replaced.setdefault(marked, set()).add(_topic_id(manager, path))
        except OSError as error:
            manager.take_offline(directory.path, error)
    for directory, topic_partition, path in copies:
        try:
            is_complete = topic_partition not in live and _topic_id(manager, path) in replaced.get(
                topic_partition, ()
            )
            if is_complete:
                _logger.warning("%s is put in the place of the log it copied", path)
                manager.disk.rename(path, directory.partition_path(topic_partition))
                await manager.disk.run(manager.disk.sync_directory, directory.path)
                live.add(topic_partition)
            elif not directory.is_offline:
                move = directory.path, _topic_id(manager, path)
                manager.interrupted_moves[topic_partition] = move
                manager.removals.add(path, manager.clock.monotonic_ms())
        except OSError as error:
            manager.take_offline(directory.path, error)


def _topic_id(manager: LogManager, path: str) -> bytes:
    try:
        return read_topic_id(manager.disk, f"{path}/{PARTITION_METADATA_FILE}") or b""
    except (CheckpointError, FileNotFoundError):
        return b""
