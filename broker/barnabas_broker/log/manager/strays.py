"""Stray partition directories: those that the metadata does not assign to this broker.

A stray is renamed to its `-stray` name, so that it is not served and its name is free, and then
kept until an operator restores or deletes it: that the metadata does not know a partition may be
the metadata's fault. A note inside says whose it was, for the name may have been cut.

Not here: finding out what is stray (`directory_loader`, `replication.replica_manager`), and the
command (`barnabas log strays`). Source: TOP-15. Invariant: the broker never deletes a stray.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas_broker.log import checkpoints, layout
from barnabas_broker.log.checkpoints import CheckpointError, OffsetCheckpoint
from barnabas_broker.log.properties_files import (
    PARTITION_METADATA_FILE,
    read_topic_id,
    write_topic_id,
)
from barnabas_broker.log.recovery.log_loader import LogLoader
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from barnabas_broker.config.topic import LogConfig
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.env.randomness import Random

STRAY_NOTE_FILE: Final = "stray.json"
UNSETTLED_FILE: Final = "stray-unsettled"
"""While a stray has it, checkpoints may name its partition, and its note may not be durable."""


class StrayRefusedError(Exception):
    """A stray cannot be restored or deleted; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A stray directory. `log_start_offset` is what the checkpoints said when it was put aside."""

    path: str
    topic_partition: TopicPartition
    topic_id: bytes  # zero if the directory does not say
    reason: str
    put_aside_ms: int  # wall clock; 0 if not known
    log_start_offset: int
    is_name_whole: bool

    @property
    def name(self) -> str:
        """The directory's own name, by which an operator calls it."""
        return self.path.rpartition("/")[2]


def put_aside(
    disk: Disk,
    random: Random,
    path: str,
    topic_partition: TopicPartition,
    *,
    reason: str,
    now_ms: int,
    log_start_offset: int,
    rename: Callable[[str], None] | None = None,
) -> str:
    """Rename a partition directory to its `-stray` name and return the new path.

    `rename`: how an open log gives its directory another name.

    A crash that undoes the renaming leaves a directory that the next start puts aside again. The
    stray is unsettled until `settle`. Raises: OSError.
    """
    note = {
        "version": 0,
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "reason": reason,
        "put_aside_ms": now_ms,
        "log_start_offset": log_start_offset,
    }
    file = disk.open(f"{path}/{STRAY_NOTE_FILE}", create=True)
    try:
        file.truncate(0)
        file.write_at(json.dumps(note).encode(), 0)
    finally:
        file.close()
    disk.open(f"{path}/{UNSETTLED_FILE}", create=True).close()
    parent = path.rpartition("/")[0]
    name = layout.stray_directory_name(topic_partition, random.uuid().hex())
    if rename is None:
        disk.rename(path, f"{parent}/{name}")
    else:
        rename(f"{parent}/{name}")
    return f"{parent}/{name}"


def settle(disk: Disk, paths: Iterable[str]) -> None:
    """Have what strays say of themselves survive a power cut; no checkpoint names them any more.

    In a thread. A stray that an operator has deleted meanwhile is none. Raises: OSError.
    """
    for path in paths:
        if not disk.exists(f"{path}/{UNSETTLED_FILE}"):
            continue
        if disk.exists(f"{path}/{STRAY_NOTE_FILE}"):
            file = disk.open(f"{path}/{STRAY_NOTE_FILE}")
            try:
                file.sync()
            finally:
                file.close()
        disk.sync_directory(path)
        disk.sync_directory(path.rpartition("/")[0])
        disk.remove(f"{path}/{UNSETTLED_FILE}")
        disk.sync_directory(path)


def unsettled_strays(disk: Disk, log_directory: str) -> list[Stray]:
    """The strays that the last run has not settled. Raises: OSError."""
    return [
        stray
        for stray in list_strays(disk, log_directory)
        if disk.exists(f"{stray.path}/{UNSETTLED_FILE}")
    ]


def list_strays(disk: Disk, log_directory: str) -> list[Stray]:
    """The strays of a log directory, by name. Raises: OSError."""
    names = sorted(filter(layout.is_stray_directory, disk.list_directory(log_directory)))
    paths = [f"{log_directory.rstrip('/')}/{name}" for name in names]
    return [_read(disk, path) for path in paths if disk.is_directory(path)]


def restore(disk: Disk, stray: Stray, topic_id: bytes, config: LogConfig, now_ms: int) -> int:
    """Give a stray its partition's name back, recovered and durable; returns its log end offset.

    The broker must be stopped and its lock held by the caller, who knows that the metadata assigns
    the partition to this broker. Repeating it after an interruption is safe.
    Raises: StrayRefusedError, CorruptionError, OSError.
    """
    log_directory = stray.path.rpartition("/")[0]
    target = f"{log_directory}/{layout.partition_directory_name(stray.topic_partition)}"
    if disk.exists(target):
        raise StrayRefusedError(f"{target} exists: the broker has another log of this partition")
    write_topic_id(disk, f"{stray.path}/{PARTITION_METADATA_FILE}", topic_id)
    loaded = LogLoader(disk, stray.path, config, now_ms).load(
        recovery_point=0, log_start_offset=stray.log_start_offset, was_clean=False
    )
    loaded.leader_epochs.flush()
    loaded.write_active_indexes()
    for segment in loaded.segments.values():
        segment.close()
    for name in disk.list_directory(stray.path):
        file = disk.open(f"{stray.path}/{name}")
        try:
            file.sync()
        finally:
            file.close()
    disk.sync_directory(stray.path)
    for name, offset in (
        (checkpoints.LOG_START_OFFSET_FILE, stray.log_start_offset),
        (checkpoints.RECOVERY_POINT_FILE, loaded.log_end_offset),
        (checkpoints.HIGH_WATERMARK_FILE, None),
    ):
        _note_offset(disk, f"{log_directory}/{name}", stray.topic_partition, offset)
    disk.rename(stray.path, target)
    for name in (STRAY_NOTE_FILE, UNSETTLED_FILE):
        if disk.exists(f"{target}/{name}"):
            disk.remove(f"{target}/{name}")
    disk.sync_directory(target)
    disk.sync_directory(log_directory)
    return loaded.log_end_offset


def delete(disk: Disk, random: Random, stray: Stray) -> None:
    """Remove a stray for good; if interrupted, the broker's next start ends it. Raises: OSError."""
    log_directory = stray.path.rpartition("/")[0]
    name = layout.discarded_directory_name(stray.topic_partition, random.uuid().hex())
    disk.rename(stray.path, f"{log_directory}/{name}")
    disk.sync_directory(log_directory)
    disk.remove_tree(f"{log_directory}/{name}")


def _read(disk: Disk, path: str) -> Stray:
    name = path.rpartition("/")[2]
    found = layout.parse_marked_directory(name)
    marked = found or TopicPartition(name, -1)
    try:
        topic_id = read_topic_id(disk, f"{path}/{PARTITION_METADATA_FILE}") or ZERO_UUID
    except CheckpointError:
        topic_id = ZERO_UUID
    try:
        note = json.loads(disk.read_bytes(f"{path}/{STRAY_NOTE_FILE}"))
        return Stray(
            path=path,
            topic_partition=TopicPartition(str(note["topic"]), int(note["partition"])),
            topic_id=topic_id,
            reason=str(note["reason"]),
            put_aside_ms=int(note["put_aside_ms"]),
            log_start_offset=int(note["log_start_offset"]),
            is_name_whole=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        # Put aside by an older release, or the note was lost with the power.
        return Stray(
            path=path,
            topic_partition=marked,
            topic_id=topic_id,
            reason="",
            put_aside_ms=0,
            log_start_offset=0,
            is_name_whole=found is not None and len(name) < layout.NAME_BYTES_MAX,
        )


def _note_offset(
    disk: Disk, path: str, topic_partition: TopicPartition, offset: int | None
) -> None:
    checkpoint = OffsetCheckpoint(disk, path)
    try:
        offsets = checkpoint.read()
    except CheckpointError as error:
        raise StrayRefusedError(str(error)) from error
    if offset is None:
        offsets.pop(topic_partition, None)
    else:
        offsets[topic_partition] = offset
    checkpoint.write(offsets)
