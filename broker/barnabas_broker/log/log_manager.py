"""All partition logs of a broker: which exist, in which directory, and their life from load to
close.

Not here: what a log does (`partition_log`), how one is opened (`log_loading`), the work done from
time to time (`log_tasks`), compaction (`cleaner`).

Source: behaviour NODE-1 to NODE-8, REC-3, REC-4, TOP-14 to TOP-16, LOG-11, LOG-14. Invariants: a
topic partition has at most one log here; a log that is in `logs` belongs to a directory that is
online; a directory's failure takes that directory offline and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.cleaner import LogCleaner
from barnabas_broker.log.directory_removal import RemovalQueue, removal_path
from barnabas_broker.log.disk_guard import LOOK_BYTES, DiskGuard
from barnabas_broker.log.disk_room import Reserve, Room
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.layout import is_needed_by_broker
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_identity import NoLogDirectoryError, establish_identity
from barnabas_broker.log.log_loading import LogLoader, RecoveryProgress
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.log_reopening import LogReopening
from barnabas_broker.log.log_tasks import LogTasks
from barnabas_broker.log.offset_checkpointing import OffsetCheckpointing
from barnabas_broker.log.properties_files import PARTITION_METADATA_FILE, write_topic_id
from barnabas_broker.log.strays import put_aside, settle
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID

if TYPE_CHECKING:
    from barnabas_broker.config.parse import BrokerConfig
    from barnabas_broker.config.topic import LogConfig
    from barnabas_broker.env.clock import Clock
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.env.randomness import Random
    from barnabas_broker.log.partition_log import PartitionLog
    from barnabas_broker.log.tail_cache import TailCache
    from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)
# Closing a log waits for its fsync; more than this many at once would only queue in the disk's
# pool.
_CLOSING_AT_ONCE_MAX = 16


class LogManager:
    """The owner of every partition log. Used from the loop only.

    `on_directory_offline` is called once per directory that fails, after its logs were marked
    offline and left `logs`; the callee decides what is to become of a broker with no directory
    left.
    """

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        clock: Clock,
        random: Random,
        tail_cache: TailCache,
    ) -> None:
        self.config = config
        self.disk = disk
        self.clock = clock
        self.random = random
        self.tail_cache = tail_cache
        self.cluster_id = ""
        self.node_id = -1
        self._is_writing = False
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.directories = [LogDirectory(disk, path) for path in config.log_dirs]
        self.on_directory_offline: Callable[[LogDirectory], None] | None = None
        # The id of the directory that the metadata has for a replica here; zero: none is known.
        self.remembered_directory: Callable[[TopicPartition], bytes] = lambda _: ZERO_UUID
        # Whether all replicas of a partition are in sync, as far as is known here.
        self.is_whole: Callable[[TopicPartition], bool] = lambda _: True
        self.recovery = RecoveryProgress()
        self.removals = RemovalQueue(disk)
        self.strays: dict[str, int] = {}  # how many are kept, by log directory
        # Paths, by log directory, of those that its checkpoints may name.
        self.unsettled_strays: dict[str, list[str]] = {}
        # One bound for the indexes of all logs together.
        self.index_cache = IndexCache()
        self.disk_guard = DiskGuard(
            disk,
            clock,
            Reserve(
                percent=config.barnabas_disk_reserve_percent,
                bytes_min=config.barnabas_disk_reserve_bytes_min,
                bytes_max=config.barnabas_disk_reserve_bytes_max,
            ),
            self.directories,
        )
        self.reopening = LogReopening(self)
        tail_cache.look_at_bytes = LOOK_BYTES
        tail_cache.on_look = self._much_was_written
        self.checkpointing = OffsetCheckpointing(self)
        self.cleaner = LogCleaner(self)
        self._loader = LogLoader(self)
        self._tasks = LogTasks(self)
        # The directories to which logs were being copied when the broker stopped; topic ids.
        self.interrupted_moves: dict[TopicPartition, tuple[str, bytes]] = {}
        # Logs that lack what was flushed, or are gone: damaged while no broker ran.
        self.lost: set[TopicPartition] = set()
        # Their checkpoints still name logs that are gone.
        self._with_deletions: set[LogDirectory] = set()
        self._unnoted: set[LogDirectory] = set()  # there was no room to change them
        self._noting = asyncio.Lock()

    # ---------------------------------------------------------------- start

    def open_directories(self) -> None:
        """Lock the directories and settle the cluster id and node id. Does nothing the second time.

        In a thread.
        Raises: IdentityError, LogDirectoryLockedError, CheckpointError, NoLogDirectoryError.
        """
        if self.cluster_id:
            return
        identity = establish_identity(
            self.directories, self.disk, self.random, self.config.node_id, self.config.cluster_id
        )
        self.cluster_id, self.node_id = identity
        for directory in self.directories:
            if directory.error is not None:
                _logger.error("log directory %s is offline: %s", directory.path, directory.error)

    async def begin_writing(self) -> None:
        """Take the clean-shutdown markers away: from here on a crash counts as one.

        To be called when nothing can refuse the start any more, before any log is written to: a
        start that is refused leaves the directories as they are. Where disks are full to the last
        byte, waits for room first (VOL-4). Does nothing the second time.
        """
        if self._is_writing:
            return
        await self.disk_guard.until_there_is_room()
        self._is_writing = True
        for directory in self.online_directories():
            try:
                await self.disk.run(directory.marker.remove)
            except OSError as error:
                self.take_offline(directory.path, error)

    async def load_partition(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        directory: LogDirectory | None = None,
    ) -> PartitionLog:
        """Load or create one log ahead of the others: the metadata log, which says what the rest
        is. It is taken from the given directory only, or else from the one that has it.

        Raises: what `open_directories` and `create` raise, LogDirectoryError.
        """
        await self.disk.run(self.open_directories)
        for candidate in self.online_directories() if directory is None else [directory]:
            if self.disk.is_directory(candidate.partition_path(topic_partition)):
                return await self._loader.load_one(candidate, topic_partition, topic_id, config)
        path = None if directory is None else directory.path
        return self.create(topic_partition, topic_id, config, path)

    async def load(
        self,
        topic_config: Callable[[str, bytes], LogConfig | None],
        known_topic_id: Callable[[str], bytes] = lambda topic: ZERO_UUID,
    ) -> None:
        """Load every log of every directory, recovering those that need it.

        `topic_config` gets a topic's name and the id found on disk (zero if there is none) and
        returns its settings, or None for a partition that is not this broker's: that one is put
        aside (TOP-15). `known_topic_id` says which id a topic has, zero for none: it is for
        partitions whose own record of it was lost with the power (LOG-14).
        Raises: what `open_directories` raises, NoLogDirectoryError if no directory survived.
        """
        await self.disk.run(self.open_directories)
        await self.begin_writing()
        await self.disk_guard.look()  # before anything is served: the disk may be full already
        await self._loader.load_all(topic_config, known_topic_id)
        if any(self.strays.values()):
            _logger.warning(
                "stray partition directories are kept: %s; see `barnabas log strays list`",
                ", ".join(f"{count} in {path}" for path, count in self.strays.items() if count),
            )
        if not self.online_directories():
            raise NoLogDirectoryError("every log directory failed while its logs were loaded")

    async def forget_lost(self) -> None:
        """Take the logs that are gone out of the checkpoints: somebody knows of them by now.

        Until then a broker that is started again finds the same.
        """
        self.lost.clear()
        await self._loader.forget_others()

    def start_tasks(self) -> None:
        """Start retention, flusher, checkpoints, removals and the cleaner. Needs a running loop."""
        self._tasks.start()

    # ---------------------------------------------------------------- the logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition, None if there is none here that can be used."""
        return self.logs.get(topic_partition)

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        directory: str | None = None,
        *,
        is_new: bool = True,
        directory_id: bytes = ZERO_UUID,
    ) -> PartitionLog:
        """Return the log of a partition, made if there is none.

        A new log goes to `directory` or else to the online directory with the fewest partitions; if
        that fails it goes offline and the next is tried (TOP-16). Nothing is synced: the first
        flush does that, for `partition.metadata` too (LOG-14).
        A partition that is not new may have its log where it cannot be seen now, and is not made
        a second time: in the directory that is remembered for it (`directory_id`) or, if none is,
        in any that is offline (LOG-11, NODE-8).
        Raises: KafkaError KAFKA_STORAGE_ERROR (56) if no directory can take it,
        INCONSISTENT_TOPIC_ID (103) if there is a log of another topic id.
        """
        existing = self.logs.get(topic_partition)
        if existing is not None:
            if existing.topic_id == ZERO_UUID:
                # Written by a broker that knew no topic ids: it gets the one of its topic now.
                self._write_topic_id(existing, topic_id)
            if existing.topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"{topic_partition.topic}-{topic_partition.partition} has another topic id",
                )
            return existing
        remembered = self._online_directory(directory_id)
        if not is_new and self._may_be_elsewhere(remembered, directory_id):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, "the log is in a directory that is offline"
            )
        if remembered is not None and directory is None:
            directory = remembered.path
        for candidate in self._placement(directory):
            if self._is_out_of_room_for(candidate, topic_partition):
                continue
            if candidate in self._unnoted and self.checkpointing.may_name(
                candidate, topic_partition
            ):
                continue  # after a crash, the new log would be taken for the one that is gone
            try:
                path = candidate.partition_path(topic_partition)
                is_empty_directory = not self.disk.exists(path)
                disk = candidate.disk_for(topic_partition)
                disk.make_directories(path)
                metadata_path = f"{path}/{PARTITION_METADATA_FILE}"
                write_topic_id(disk, metadata_path, topic_id, is_durable=False)
                log = self._loader.create_log(
                    disk,
                    path,
                    topic_partition,
                    topic_id,
                    config,
                    is_empty_directory=is_empty_directory,
                )
            except (OSError, LogDirectoryError) as error:
                self.take_offline(candidate.path, error)
                continue
            log.flushing.note_topic_id()
            self.add(candidate, log)
            return log
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory can take a new partition")

    def add(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Take a log that was opened into service."""
        log.on_disk_failure = self._on_disk_failure
        log.removal.hand_over = self.removals.segments_due
        directory.logs[log.topic_partition] = log
        self.logs[log.topic_partition] = log
        self._tasks.look_soon()

    async def delete(self, topic_partition: TopicPartition) -> None:
        """Take a log out of service and rename its directory; the files go after a delay (TOP-14).

        The name is free for a new log after `note_deletions`. Does nothing if there is no such log.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            await self.reopening.give_up(log)
            log = self.logs.get(topic_partition)  # another one if it was open again before that
        if log is None:
            return
        directory = self._take_out(log)
        try:
            log.drop_completed_output()
            log.rename_directory(
                log.replaced_path or removal_path(self.random, log.directory, topic_partition)
            )
        except OSError as error:
            self.take_offline(directory.path, error)
            return
        delay_ms = log.config.file_delete_delay_ms
        self.removals.add(log.directory, self.clock.monotonic_ms() + delay_ms, log)

    def put_log_aside(self, log: PartitionLog, reason: str) -> None:
        """Take a log out of service that is not this broker's, and keep it as a stray (TOP-15)."""
        directory = self._take_out(log)
        try:
            log.drop_completed_output()
            self.put_aside(directory, log.directory, log.topic_partition, reason, log)
        except OSError as error:
            self.take_offline(directory.path, error)
        log.release_files()

    def put_aside(
        self,
        directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
        reason: str,
        log: PartitionLog | None = None,
    ) -> None:
        """Rename a partition directory that is not this broker's; it is kept. Raises: OSError.

        `log`: the log that is open there, if there is one.
        """
        if log is not None:
            log_start_offset = log.log_start_offset
        else:
            starts = directory.read_offsets(directory.log_start_offsets)
            log_start_offset = starts.get(topic_partition, 0)
        stray = put_aside(
            self.disk,
            self.random,
            path,
            topic_partition,
            reason=reason,
            now_ms=self.clock.wall_ms(),
            log_start_offset=log_start_offset,
            rename=None if log is None else log.rename_directory,
        )
        _logger.warning("%s %s: kept as %s", path, reason, stray)
        self.unsettled_strays.setdefault(directory.path, []).append(stray)
        self.recovery.logs_stray_count += 1
        self.strays[directory.path] = self.strays.get(directory.path, 0) + 1

    def _take_out(self, log: PartitionLog) -> LogDirectory:
        topic_partition = log.topic_partition
        del self.logs[topic_partition]
        directory = self.directory_of(log)
        directory.logs.pop(topic_partition, None)
        self._tasks.forget(topic_partition)
        log.retire()
        self._with_deletions.add(directory)
        return directory

    async def note_deletions(self) -> None:
        """Take the deleted logs out of the checkpoints, once for many.

        Call it before others of their names are created; again where there was no room for it
        (`has_unnoted_deletions`): until then none of those names is made there. That their
        directories were renamed is safe first: a power cut would bring a log back that is taken for
        the new one of its name, if its own topic id was not on the device yet.
        """
        directories = self._with_deletions | self._unnoted
        self._with_deletions = set()
        for directory in directories:
            try:
                await self.disk.run(self.disk.sync_directory, directory.path)
            except OSError as error:
                self.take_offline(directory.path, error)
            await self.forget_others(directory)

    async def forget_others(self, directory: LogDirectory) -> None:
        """Have checkpoints name no logs that are not there, or remember that they may."""
        strays = self.unsettled_strays.pop(directory.path, [])
        is_noted = await self.checkpointing.forget_others(directory)
        try:
            if is_noted and strays:
                await self.disk.run(settle, self.disk, strays)
        except OSError as error:
            self.take_offline(directory.path, error)
        if is_noted or directory.is_offline:
            self._unnoted.discard(directory)
        else:
            self._unnoted.add(directory)
            self.unsettled_strays.setdefault(directory.path, []).extend(strays)

    @property
    def has_unnoted_deletions(self) -> bool:
        """Whether checkpoints name logs that are gone, as there was no room to change them."""
        return bool(self._unnoted)

    async def note_truncations(self, logs: Sequence[PartitionLog]) -> None:
        """Return when a crash cannot bring back what was cut off the ends of some logs.

        And cannot take what is appended from now on for flushed, as the old recovery points would.
        Where there is no room to write that down, the log stays one that is cut and not noted.
        """
        async with self._noting:  # who comes second relies on what the first one has begun
            generations = {log: log.generation for log in logs}
            directories: dict[LogDirectory, None] = {}
            for log in logs:
                try:
                    if not log.is_offline:
                        directories[self.directory_of(log)] = None
                        await log.settle_cut()
                except OSError as error:
                    if self.logs.get(log.topic_partition) is log:
                        self.take_offline(log.directory, error)
            noted: set[LogDirectory] = set()
            for directory in directories:
                # A cut below the log start has lowered it: the old one would hide what comes now,
                # and the old high watermark would take it for committed.
                checkpointing = self.checkpointing
                if (
                    await checkpointing.write_recovery_points(directory)
                    and await checkpointing.write_log_start_offsets(directory)
                    and await checkpointing.write_high_watermarks(directory)
                ):
                    noted.add(directory)
            for log, generation in generations.items():
                if (
                    log.generation == generation
                    and not log.is_cut_unsettled
                    and self.directory_of(log) in noted
                ):
                    log.is_cut_unnoted = False

    def update_topic_configs(self, configs: Mapping[str, LogConfig]) -> None:
        """Give all open logs of some topics new settings, in force from the next use on (SEG-14).

        One pass: with thousands of logs, one for each topic would hold up everything else.
        """
        for topic_partition, log in self.logs.items():
            config = configs.get(topic_partition.topic)
            if config is not None:
                log.update_config(config)
        self._tasks.look_soon()

    # ---------------------------------------------------------------- directories

    def online_directories(self) -> list[LogDirectory]:
        """Return the directories that can be used."""
        return [directory for directory in self.directories if not directory.is_offline]

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        """Return the directory a log is in."""
        return self._directory_above(log.directory)

    def take_offline(self, path: str, error: Exception) -> None:
        """Stop using the directory that holds `path`, and only that one (LOG-11).

        Its logs answer KAFKA_STORAGE_ERROR from now on and are no longer in `logs`. A disk that is
        merely full stays in use (VOL-4).
        """
        directory = self._directory_above(path)
        if directory.is_loaded and is_out_of_space(error):
            self.reopening.out_of_room(directory)
            return
        if not directory.fail(error):
            return
        _logger.error("log directory %s goes offline: %s", directory.path, error)
        if directory.is_marked_as_kept:
            self._disclaim()
        for topic_partition, log in directory.logs.items():
            log.retire()
            self._tasks.forget(topic_partition)
            if self.logs.get(topic_partition) is log:
                del self.logs[topic_partition]
        if self.on_directory_offline is not None:
            self.on_directory_offline(directory)

    def _disclaim(self) -> None:
        """Have another directory say what one that failed cannot: that not all is kept.

        A broker that has one directory only has nobody to say it.
        """
        for directory in self.online_directories():
            try:
                directory.boot.remove()
            except OSError as error:
                _logger.warning("%s stays: %s", directory.boot.path, error)

    async def note_broker_epoch(self, broker_epoch: int) -> None:
        """Return when each directory says in which boot a broker of this epoch has run on it."""
        for directory in self.online_directories():
            try:
                await self.disk.run(directory.boot.write, broker_epoch)
            except OSError as error:
                self.take_offline(directory.path, error)

    # ---------------------------------------------------------------- stop

    async def close(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write the checkpoints and clean-shutdown markers, unlock.

        A directory that fails gets no marker; the others do (REC-4). While nobody knows of lost
        logs, none does and checkpoints stay as they are: the next start finds them again.
        Idempotent.
        """
        await self._tasks.stop()
        await self.reopening.stop()
        for directory in self.online_directories():
            if directory.is_loaded and not self.lost:
                await self._close_directory(directory, broker_epoch)
        await self.removals.stop()
        self.removals.release()
        for directory in self.directories:
            for log in directory.logs.values():
                log.release_files()
            directory.logs.clear()
            directory.is_loaded = False
            directory.close()
        self.logs.clear()

    async def _close_directory(self, directory: LogDirectory, broker_epoch: int) -> None:
        gate = asyncio.Semaphore(_CLOSING_AT_ONCE_MAX)
        failed: list[PartitionLog] = []

        async def close_one(log: PartitionLog) -> None:
            async with gate:
                try:
                    if log.is_offline:
                        failed.append(log)  # it found no room, and is recovered by the next start
                    await log.close()
                except (OSError, LogDirectoryError) as error:
                    failed.append(log)
                    self.take_offline(directory.path, error)
                except KafkaError:
                    _logger.debug("%s is out of service already", log.directory)
                except Exception:
                    # A bug with one log keeps no other from being closed; but then nobody says
                    # that the directory was left clean.
                    _logger.exception("%s could not be closed", log.directory)
                    failed.append(log)

        async with asyncio.TaskGroup() as group:
            for log in list(directory.logs.values()):
                group.create_task(close_one(log))
        await self.reopening.stop()
        await self.checkpointing.write_all(directory)
        if not failed:
            await self._write_marker(directory, broker_epoch)

    async def _write_marker(self, directory: LogDirectory, broker_epoch: int) -> None:
        """Say that the directory was left clean, unless something in it failed on the way."""
        if directory.is_offline:
            return
        if any(other.is_marked_as_kept for other in self.directories):
            broker_epoch = -1  # the logs here are whole, but not all that the broker had
        try:
            await self.disk.run(directory.marker.write, broker_epoch)
        except OSError as error:
            self.take_offline(directory.path, error)

    # ---------------------------------------------------------------- helpers

    def _on_disk_failure(self, failure: LogDirectoryError) -> None:
        """Hear of a failure in the background of a log, where nobody waits for the error."""
        self.take_offline(failure.path, failure)

    def _much_was_written(self) -> None:
        self.tail_cache.look_at_bytes = self.tail_cache.appended_bytes + LOOK_BYTES
        self.disk_guard.look_soon()

    def _write_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        try:
            path = f"{log.directory}/{PARTITION_METADATA_FILE}"
            write_topic_id(self.disk, path, topic_id, is_durable=False)
        except OSError as error:
            self.take_offline(log.directory, error)
            raise log.storage_error() from error
        log.topic_id = topic_id
        log.flushing.note_topic_id()

    def _directory_above(self, path: str) -> LogDirectory:
        for directory in self.directories:
            if path == directory.path or path.startswith(directory.path.rstrip("/") + "/"):
                return directory
        raise ValueError(f"{path} is in no log directory")

    def _online_directory(self, directory_id: bytes) -> LogDirectory | None:
        for directory in self.online_directories():
            if directory.directory_id == directory_id != ZERO_UUID:
                return directory
        return None

    def _may_be_elsewhere(self, remembered: LogDirectory | None, directory_id: bytes) -> bool:
        if directory_id != ZERO_UUID:
            return remembered is None
        return any(directory.is_offline for directory in self.directories)

    def _is_out_of_room_for(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        """Whether nothing of a client's begins there: what is left is for the broker itself."""
        return not is_needed_by_broker(topic_partition.topic) and (
            self.disk_guard.room(directory) is Room.CRITICAL
        )

    def _placement(self, path: str | None) -> list[LogDirectory]:
        """Return the directories to try for a new log, the best first."""
        online = self.online_directories()
        if path is not None:
            return [directory for directory in online if directory.path == path.rstrip("/")]
        room = self.disk_guard.room
        return sorted(online, key=lambda directory: (room(directory), len(directory.logs)))
