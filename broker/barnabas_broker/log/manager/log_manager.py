"""All partition logs of a broker: which exist, in which directory, and their life from load to
close.

Not here: what a log does (`partition_log`), how one is opened (`directory_loader`) or leaves
(`departed_logs`), the directories (`log_directories`), the work done from time to time
(`log_tasks`), compaction (`log_cleaner`).

Source: NODE-1 to NODE-8, REC-3, REC-4, TOP-14 to TOP-16, LOG-11, LOG-14.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.cleaner.log_cleaner import LogCleaner
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.layout import is_needed_by_broker
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.manager.departed_logs import DepartedLogs
from barnabas_broker.log.manager.directory_loader import DirectoryLoader, RecoveryProgress
from barnabas_broker.log.manager.directory_removal import RemovalQueue
from barnabas_broker.log.manager.disk_guard import DiskGuard
from barnabas_broker.log.manager.disk_room import Room
from barnabas_broker.log.manager.log_directories import LogDirectories
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_identity import NoLogDirectoryError, establish_identity
from barnabas_broker.log.manager.log_reopening import LogReopening
from barnabas_broker.log.manager.log_tasks import LogTasks
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.properties_files import PARTITION_METADATA_FILE, write_topic_id
from barnabas_broker.log.tail_cache import TailCache
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

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
        self.on_directory_offline: Callable[[LogDirectory], None] | None = None
        # The id of the directory that the metadata has for a replica here; zero: none is known.
        self.remembered_directory: Callable[[TopicPartition], bytes] = lambda _: ZERO_UUID
        # Whether all replicas of a partition are in sync, as far as is known here.
        self.is_whole: Callable[[TopicPartition], bool] = lambda _: True
        self._directories = LogDirectories(config, disk, clock, random, tail_cache)
        self.checkpointing = OffsetCheckpointing(self._directories)
        self._departed = DepartedLogs(self._directories, self.checkpointing)
        self.reopening = LogReopening(self._directories, self.checkpointing)
        self.cleaner = LogCleaner(
            self._directories, self.checkpointing, lambda name: self.is_whole(name)
        )
        self.tasks = LogTasks(self._directories, self.checkpointing, self.cleaner)
        self._loader = DirectoryLoader(
            self._directories,
            self.checkpointing,
            self._departed,
            lambda name: self.remembered_directory(name),
        )
        self._directories.on_added = self.tasks.log_added
        self._directories.on_left = self.tasks.forget
        self._directories.on_out_of_room = self.reopening.out_of_room
        self._directories.on_offline = self._directory_went_offline
        self._noting = asyncio.Lock()

    # ---------------------------------------------------------------- what there is

    @property
    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """The logs in service."""
        return self._directories.logs

    @property
    def directories(self) -> list[LogDirectory]:
        """All log directories."""
        return self._directories.all

    def online_directories(self) -> list[LogDirectory]:
        """Return the directories that can be used."""
        return self._directories.online()

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        """Return the directory a log is in."""
        return self._directories.of(log)

    @property
    def index_cache(self) -> IndexCache:
        """The bound for the indexes of all logs together."""
        return self._directories.index_cache

    @property
    def disk_guard(self) -> DiskGuard:
        """Watches the free space of the disks."""
        return self._directories.disk_guard

    @property
    def removals(self) -> RemovalQueue:
        """The directories that wait for their removal."""
        return self._directories.removals

    @property
    def recovery(self) -> RecoveryProgress:
        """How far loading has come."""
        return self._loader.progress

    @property
    def interrupted_moves(self) -> dict[TopicPartition, tuple[str, bytes]]:
        """The directories to which logs were being copied when the broker stopped; topic ids."""
        return self._loader.interrupted_moves

    @property
    def lost(self) -> set[TopicPartition]:
        """Logs that lack what was flushed, or are gone: damaged while no broker ran."""
        return self._loader.lost

    @property
    def strays(self) -> dict[str, int]:
        """How many strays are kept, by log directory."""
        return self._departed.stray_count_by_path

    @property
    def put_aside_count(self) -> int:
        """How many partition directories were put aside since the start."""
        return self._departed.put_aside_count

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition, None if there is none here that can be used."""
        return self._directories.logs.get(topic_partition)

    def add(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Take a log that was opened into service."""
        self._directories.add(directory, log)

    def take_offline(self, path: str, error: Exception) -> None:
        """Stop using the directory that holds `path`, and only that one (LOG-11)."""
        self._directories.take_offline(path, error)

    def _directory_went_offline(self, directory: LogDirectory) -> None:
        if self.on_directory_offline is not None:
            self.on_directory_offline(directory)

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
        self.tasks.start()

    # ---------------------------------------------------------------- the logs

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
            if self._departed.may_be_named(candidate, topic_partition):
                continue  # after a crash, the new log would be taken for the one that is gone
            try:
                path = candidate.partition_path(topic_partition)
                context = self._directories.context(candidate, topic_partition)
                is_empty_directory = context.disk.make_directory(path)
                metadata_path = f"{path}/{PARTITION_METADATA_FILE}"
                write_topic_id(context.disk, metadata_path, topic_id, is_durable=False)
                log = PartitionLog.create(
                    context,
                    topic_partition,
                    topic_id,
                    path,
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

    async def delete(self, topic_partition: TopicPartition) -> None:
        """Take a log out of service and rename its directory; the files go after a delay (TOP-14).

        The name is free for a new log after `note_deletions`. Does nothing if there is no such log.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            await self.reopening.give_up(log)
            log = self.logs.get(topic_partition)  # another one if it was open again before that
        if log is not None:
            self._departed.delete(log)

    def put_log_aside(self, log: PartitionLog, reason: str) -> None:
        """Take a log out of service that is not this broker's, and keep it as a stray (TOP-15)."""
        self._departed.put_log_aside(log, reason)

    async def note_deletions(self) -> None:
        """Take the deleted logs out of the checkpoints, once for many.

        Call it before others of their names are created; again where there was no room for it
        (`has_unnoted_deletions`): until then none of those names is made there.
        """
        await self._departed.note_deletions()

    @property
    def has_unnoted_deletions(self) -> bool:
        """Whether checkpoints name logs that are gone, as there was no room to change them."""
        return self._departed.has_unnoted_deletions

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
                # the old high watermark would take it for committed, the cleaner for compacted.
                checkpointing = self.checkpointing
                if (
                    await checkpointing.write_recovery_points(directory)
                    and await checkpointing.write_log_start_offsets(directory)
                    and await checkpointing.write_high_watermarks(directory)
                    and await checkpointing.write_cleaner_offsets(directory)
                ):
                    noted.add(directory)
            for log, generation in generations.items():
                if (
                    log.generation == generation
                    and not log.is_cut_unsettled
                    and self.directory_of(log) in noted
                ):
                    log.is_cut_unnoted = False

    async def note_log_starts(self, logs: Iterable[PartitionLog]) -> None:
        """Return when no crash can bring back what is below the starts of some logs.

        Not of those in directories that fail, or that have no room to write that down.
        """
        present = [log for log in logs if self.logs.get(log.topic_partition) is log]
        for directory in dict.fromkeys(map(self.directory_of, present)):
            await self.checkpointing.write_log_start_offsets(directory)

    def update_config(self, config: BrokerConfig) -> None:
        """Use other settings of the broker from now on: those of cleaning and of producers."""
        self.config = self._directories.config = config

    def update_topic_configs(self, configs: Mapping[str, LogConfig]) -> None:
        """Give all open logs of some topics new settings, in force from the next use on (SEG-14).

        One pass: with thousands of logs, one for each topic would hold up everything else.
        """
        for topic_partition, log in self.logs.items():
            config = configs.get(topic_partition.topic)
            if config is not None:
                log.update_config(config)
        self.tasks.look_soon()

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
        await self.tasks.stop()
        await self.reopening.stop()
        for directory in self.online_directories():
            if directory.is_loaded and not self.lost:
                await self._close_directory(directory, broker_epoch)
        await self.removals.stop()
        self.removals.release()
        for directory in self.directories:
            for log in directory.logs.values():
                # Of a directory that is not loaded yet, or of a log that could not be closed.
                await log.flushing.ended()
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
                    # A bug with one log keeps no other from being closed, but the directory gets
                    # no marker then.
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
        """Write the clean-shutdown marker, unless something in the directory failed on the way."""
        if directory.is_offline:
            return
        if any(other.is_marked_as_kept for other in self.directories):
            broker_epoch = -1  # the logs here are whole, but not all that the broker had
        try:
            await self.disk.run(directory.marker.write, broker_epoch)
        except OSError as error:
            self.take_offline(directory.path, error)

    # ---------------------------------------------------------------- helpers

    def _write_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        try:
            path = f"{log.directory}/{PARTITION_METADATA_FILE}"
            write_topic_id(self.disk, path, topic_id, is_durable=False)
        except OSError as error:
            self.take_offline(log.directory, error)
            raise log.storage_error() from error
        log.topic_id = topic_id
        log.flushing.note_topic_id()

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
