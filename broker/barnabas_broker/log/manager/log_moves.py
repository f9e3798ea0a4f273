"""Logs that are being copied to another log directory, until one takes the place of the other.

The copy grows in a directory of its own name (`-future`), unknown to the log manager. A note in it
(`partition.move`) says whose copy it is, since names of directories are cut where they are long,
and which name the log that it copies will get for its removal. When the copy has all, that log is
renamed so and the copy gets its name, between two turns of the loop. Both names are then made
durable in a thread, and nothing that the copy takes meanwhile counts as durable before they are.
After a crash in between, the copy is found with just that directory there, and is put in its place
(`leftover_copies`); or both have the partition's name, and the one is loaded that the metadata
remembers. Any other copy is thrown away at the next start, and the log copied anew: what of a copy
survived a crash is not known. A copy that was given up has lost that name.

Not here: copying (`replication.future_log`). Source: KIP-113, LOG-11. Invariant: a partition
never has two directories of its own name while the machine runs, and, where a copy was begun, never
none that can be found.
"""

from __future__ import annotations

from barnabas_broker.env.disk import Disk
from barnabas_broker.log import layout
from barnabas_broker.log.local_log import LogContext
from barnabas_broker.log.manager.directory_removal import removal_path
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog, Successor
from barnabas_broker.log.properties_files import (
    MOVE_FILE,
    PARTITION_METADATA_FILE,
    MoveNote,
    write_move_note,
    write_topic_id,
)
from barnabas_broker.log.tail_cache import TailCache


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
        LogContext(
            disk=manager.disk,
            clock=manager.clock,
            random=manager.random,
            tail_cache=TailCache(0),
            index_cache=manager.index_cache,
            flush_times=target.flush_times,
        ),
        log.topic_partition,
        log.topic_id,
        path,
        log.config,
        is_empty_directory=True,
    )
    if log.log_start_offset:
        copy.truncate_fully_and_start_at(log.log_start_offset)
        copy.local.removal.cancel()
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
    copy.local.lower_recovery_point(log.recovery_point)
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
    copy.local.use_tail_cache(manager.tail_cache)
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
        copy.local.raise_recovery_point(min(flushed, copy.log_end_offset))
        # Not before its new name is safe: a start that finds the old one needs the note.
        try:
            manager.disk.remove(f"{copy.directory}/{MOVE_FILE}")
        except OSError as error:
            manager.take_offline(target.path, error)
            return False
    await manager.note_deletions()
    await manager.checkpointing.write_all(target)
    return True
