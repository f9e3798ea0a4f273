"""Moving replicas between the log directories of one broker while they are in use.

A copy grows beside the log that is served; when it has all, it takes its place between two turns of
the loop. One replica is copied at a time; one whose target has no room waits for it, and lets
others go first. Not here: files and their names (`log.log_moves`),
requests (`handlers.alter_replica_log_dirs`).

Source: KIP-113, AlterReplicaLogDirs. Invariants: what is served is never the copy before it is
complete; a copy of a log that was cut, or whose start passed what was copied, begins anew, and so
does one that a stop of the broker has interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.manager.disk_room import Room
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.log_moves import begin_copy, discard_copy, leave_copy, put_in_place
from barnabas_broker.log.partition_log import LogRead, PartitionLog
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

COPY_BYTES = 1024 * 1024
# A log that grows while its copy is flushed is caught up with at the end without waiting.
LAST_READS_MAX = 8
# How soon it is seen that a disk has room for a copy again.
ROOM_LOOK_SECONDS = 0.2
# How long a flush of a log waits for that of its copy, which is about to take its place.
COMPANION_SECONDS = 5.0
# Directories that were requested before their replica was there.
REQUESTED_DIRECTORIES_MAX = 10_000


class Spawn(Protocol):
    """How a task of the broker is started."""

    def __call__(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it."""
        ...


class _Restart(Exception):
    """The log is not what it was when its copy was begun."""


class _NoRoom(Exception):
    """What is left of the target's disk is not for copies."""


class FutureLog:
    """A replica on its way to another directory."""

    __slots__ = ("copy", "is_cancelled", "is_in_place", "is_interrupted", "partition", "target")

    def __init__(self, partition: Partition, target: LogDirectory) -> None:
        self.partition = partition
        self.target = target
        self.copy: PartitionLog | None = None  # until its turn has come
        self.is_cancelled = False
        self.is_in_place = False  # the copy, or what it was opened again as, is the log
        self.is_interrupted = False  # cancelled because the broker stops

    @property
    def lag(self) -> int:
        """Records that the copy lacks."""
        log = self.partition.log
        copied = log.log_start_offset if self.copy is None else self.copy.log_end_offset
        return max(0, log.log_end_offset - copied)

    @property
    def size_bytes(self) -> int:
        """How much is copied."""
        return 0 if self.copy is None else self.copy.size_bytes


class FutureLogs:
    """All moves of one broker."""

    def __init__(
        self, logs: LogManager, find: Callable[[TopicPartition], Partition], spawn: Spawn
    ) -> None:
        """Make one. `find` raises KafkaError for a partition that is not served here."""
        self._logs = logs
        self._find = find
        self._spawn = spawn
        self.moving: dict[TopicPartition, FutureLog] = {}  # in the order in which they are done
        self.requested_directories: dict[TopicPartition, str] = {}
        # The directories to which logs were on their way that are out of service for a moment.
        self._held_up: dict[TopicPartition, str] = {}
        self.on_moved: list[Callable[[Partition], None]] = []
        self._is_working = False
        self._is_closed = False

    # Requests.

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Begin to move a replica to a directory; to where it is: end its move.

        Raises: KafkaError 57 for a directory that is not this broker's, 56 for one that is offline
        (the replica's, too), 9 for a replica that is not here: it will be made there.
        """
        target = self._directory(path)
        if target.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline")
        try:
            partition = self._find(topic_partition)
        except KafkaError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            self._note_request(topic_partition, target)
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, "no such replica here") from error
        if partition.log.is_offline:
            raise partition.log.storage_error()
        known = self.moving.get(topic_partition)
        if known is not None and known.target is target:
            return
        self.dropped(topic_partition)
        if self._logs.directory_of(partition.log) is target or self._is_closed:
            return
        self.moving[topic_partition] = FutureLog(partition, target)
        if not self._is_working:
            self._is_working = True
            self._spawn(self._work())

    def _directory(self, path: str) -> LogDirectory:
        for directory in self._logs.directories:
            if directory.path == (path.rstrip("/") or "/"):
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is no log directory")

    def _note_request(self, topic_partition: TopicPartition, target: LogDirectory) -> None:
        self.requested_directories.pop(topic_partition, None)
        if len(self.requested_directories) >= REQUESTED_DIRECTORIES_MAX:
            del self.requested_directories[next(iter(self.requested_directories))]
        self.requested_directories[topic_partition] = target.path

    def take_requested(self, topic_partition: TopicPartition) -> str | None:
        """The directory that was requested for a replica that is made now, None for any."""
        return self.requested_directories.pop(topic_partition, None)

    def made(self, partition: Partition) -> None:
        """Move a replica on that the last stop of the broker has kept from arriving."""
        topic_partition = partition.topic_partition
        path, topic_id = self._logs.interrupted_moves.pop(topic_partition, ("", b""))
        if topic_id != partition.topic_id:
            return
        try:
            self.move(topic_partition, path)
        except KafkaError as error:
            logger.warning("%s-%d is not moved to %s: %s", *topic_partition, path, error)

    def log_closed(self, topic_partition: TopicPartition) -> None:
        """End the move of a log that is opened again: the copy is one of the log that was."""
        future = self.moving.get(topic_partition)
        if future is not None:
            self.dropped(topic_partition)
            self._held_up[topic_partition] = future.target.path

    def log_reopened(self, topic_partition: TopicPartition) -> None:
        """Begin the move anew."""
        path = self._held_up.pop(topic_partition, None)
        if path is not None:
            try:
                self.move(topic_partition, path)
            except KafkaError as error:
                logger.warning("%s-%d is not moved to %s: %s", *topic_partition, path, error)

    def dropped(self, topic_partition: TopicPartition) -> None:
        """End a move: the replica is gone, or is to be elsewhere."""
        self._held_up.pop(topic_partition, None)
        future = self.moving.pop(topic_partition, None)
        if future is not None:
            future.is_cancelled = True

    def close(self) -> None:
        """End all moves; the next start begins them anew."""
        self._is_closed = True
        for topic_partition, future in list(self.moving.items()):
            future.is_interrupted = True
            self.dropped(topic_partition)

    # Copying.

    async def _work(self) -> None:
        try:
            while self.moving:
                future = self._next()
                if future is None:
                    await asyncio.sleep(ROOM_LOOK_SECONDS)
                    continue
                is_done = await self._move(future)
                topic_partition = future.partition.topic_partition
                if self.moving.get(topic_partition) is future:
                    del self.moving[topic_partition]
                    if not is_done:
                        self.moving[topic_partition] = future  # others may make room for it
        finally:
            self._is_working = False

    def _next(self) -> FutureLog | None:
        """The first move that can be gone on with, or is over; None if all wait for room."""
        for future in self.moving.values():
            if self._is_over(future) or self._has_room(future):
                return future
        return None

    def _has_room(self, future: FutureLog) -> bool:
        """Whether the target's disk has room for more than the broker itself needs (VOL-4)."""
        return self._logs.disk_guard.room(future.target) < Room.CRITICAL

    async def _move(self, future: FutureLog) -> bool:
        """Copy until the copy is in place, or never can be; False if it has to wait for room."""
        while not self._is_over(future):
            try:
                future.copy = await begin_copy(self._logs, future.partition.log, future.target)
                if await self._copy(future, future.copy):
                    return True
            except _NoRoom:
                return False
            except _Restart:
                logger.info("the copy of %s-%d begins anew", *future.partition.topic_partition)
            except LogDirectoryError as error:
                self._logs.take_offline(error.path, error)
                if is_out_of_space(error):
                    return False
            except OSError as error:
                self._logs.take_offline(future.target.path, error)
                if is_out_of_space(error):
                    return False
            except KafkaError as error:
                logger.warning("%s-%d is not moved: %s", *future.partition.topic_partition, error)
                future.is_cancelled = True
            finally:
                copy, future.copy = future.copy, None
                if copy is not None and not future.is_in_place:
                    if future.is_interrupted:
                        leave_copy(copy)
                    else:
                        discard_copy(self._logs, copy)
        return True

    def _is_over(self, future: FutureLog) -> bool:
        """Whether a move has lost its sense."""
        return future.is_cancelled or future.target.is_offline or future.partition.log.is_offline

    async def _copy(self, future: FutureLog, copy: PartitionLog) -> bool:
        """Copy all there is and put it in place; False if the move is over.

        Raises: _Restart if the log is not what it was, _NoRoom.
        """
        log = future.partition.log
        generation = log.generation
        while not self._is_over(future):
            _check(log, copy, generation)
            if copy.log_end_offset < log.log_end_offset:
                if not self._has_room(future):
                    raise _NoRoom
                offset = copy.log_end_offset
                read = await log.read(offset, COPY_BYTES, log.log_end_offset)
                _check(log, copy, generation)
                _append(copy, read, offset)
                await asyncio.sleep(0)  # reads from memory do not give way by themselves
                if read.size_bytes * 2 > COPY_BYTES:
                    continue
            # Nearly all is there. From now on nothing that is flushed counts as such before its
            # copy is flushed too: so the copy vouches for all that the log does, when it replaces
            # it, and a log that is written all the time never waits for its copy.
            log.flushing.companion = partial(self._flush_too, log, copy)
            try:
                await copy.flush()
                if self._is_over(future):
                    break
                _check(log, copy, generation)
                if _vouches_for(log, copy) and self._catch_up(log, copy):
                    return await self._put_in_place(future, copy)
            finally:
                log.flushing.companion = None
        return False

    async def _flush_too(self, log: PartitionLog, copy: PartitionLog, end_offset: int) -> None:
        """Flush a copy up to what has been flushed of its log; give up if its disk does not."""
        try:
            async with asyncio.timeout(COMPANION_SECONDS):
                while copy.log_end_offset < end_offset and not copy.is_offline:
                    offset = copy.log_end_offset
                    read = await log.read(offset, COPY_BYTES, log.log_end_offset)
                    _append(copy, read, offset)
                await copy.flush(end_offset)
        except (KafkaError, LogDirectoryError, OSError, TimeoutError) as error:
            # The copy's own affair, which whoever makes it finds out too.
            logger.info("the copy in %s is not flushed: %s", copy.directory, error)
            log.flushing.companion = None

    def _catch_up(self, log: PartitionLog, copy: PartitionLog) -> bool:
        """Copy the rest without waiting; returns whether that was possible."""
        log.write_staged()
        for _ in range(LAST_READS_MAX):
            if copy.log_end_offset == log.log_end_offset:
                return True
            offset = copy.log_end_offset
            read = log.read_nowait(offset, COPY_BYTES, log.log_end_offset)
            if read is None:
                return False
            _append(copy, read, offset)
        return copy.log_end_offset == log.log_end_offset

    async def _put_in_place(self, future: FutureLog, copy: PartitionLog) -> bool:
        partition = future.partition
        log = partition.log
        # From here the partition has the copy: whoever runs while checkpoints are written sees it.
        partition.log, future.is_in_place = copy, True
        if not await put_in_place(self._logs, log, copy):
            copy.retire()
            return True
        logger.info(
            "%s-%d is now in %s", *partition.topic_partition, self._logs.directory_of(copy).path
        )
        for moved in self.on_moved:
            moved(partition)
        return True


def _vouches_for(log: PartitionLog, copy: PartitionLog) -> bool:
    """Whether all that may count as flushed of a log is flushed of its copy too."""
    flushed = max(log.recovery_point, log.acknowledged_offset)
    return copy.recovery_point >= min(flushed, log.log_end_offset)


def _check(log: PartitionLog, copy: PartitionLog, generation: int) -> None:
    if log.generation != generation or log.log_start_offset > copy.log_end_offset:
        raise _Restart


def _append(copy: PartitionLog, read: LogRead, offset: int) -> None:
    """Append what was read from an offset, unless that was done while it was read."""
    if copy.log_end_offset != offset:
        return
    buffers = read.buffers
    copy.append_as_follower(buffers[0] if len(buffers) == 1 else b"".join(buffers))
    copy.write_staged()
