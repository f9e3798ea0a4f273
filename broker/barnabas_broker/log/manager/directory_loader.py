"""Loading the logs of all directories at start, several at a time.

Not here: how one log is recovered (`partition_log`, `log_loader`), and which logs there are from
then on (`log_manager`).

Source: REC-1 to REC-4, TOP-15, NODE-8. Invariants: a directory counts as loaded only when
every log in it was; a directory that fails while loading goes offline alone; a directory's clean
stop is believed only as a whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.manager.departed_logs import DepartedLogs
from barnabas_broker.log.manager.duplicate_logs import LogEnd, log_end
from barnabas_broker.log.manager.leftover_copies import settle_copies
from barnabas_broker.log.manager.log_directories import LogDirectories
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_broker.log.manager.strays import unsettled_strays
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.properties_files import (
    PARTITION_METADATA_FILE,
    read_topic_id,
    write_topic_id,
)
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from barnabas_broker.config.topic import LogConfig

_logger = logging.getLogger(__name__)


class RecoveryProgress:
    """How far loading has come, for metrics and for whoever watches a start that takes long
    (REC-3).
    """

    __slots__ = ("logs_loaded_count", "logs_remaining_count")

    def __init__(self) -> None:
        self.logs_remaining_count = 0
        self.logs_loaded_count = 0


class _Checkpointed(NamedTuple):
    """What the checkpoint files of a directory say."""

    recovery_points: dict[TopicPartition, int]
    log_start_offsets: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    cleaner_offsets: dict[TopicPartition, int]


class DirectoryLoader:
    """Opens the logs that are on disk and takes them into service one by one."""

    __slots__ = (
        "_checkpointed",
        "_checkpointing",
        "_departed",
        "_directories",
        "_known_topic_id",
        "_remembered_directory",
        "_strays",
        "interrupted_moves",
        "lost",
        "progress",
    )

    def __init__(
        self,
        directories: LogDirectories,
        checkpointing: OffsetCheckpointing,
        departed: DepartedLogs,
        remembered_directory: Callable[[TopicPartition], bytes],
    ) -> None:
        """Make one. `remembered_directory`: the id of the directory that the metadata has for a
        replica here; zero: none is known.
        """
        self._directories = directories
        self._checkpointing = checkpointing
        self._departed = departed
        self._remembered_directory = remembered_directory
        self.progress = RecoveryProgress()
        # The directories to which logs were being copied when the broker stopped; topic ids.
        self.interrupted_moves: dict[TopicPartition, tuple[str, bytes]] = {}
        # Logs that lack what was flushed, or are gone: damaged while no broker ran.
        self.lost: set[TopicPartition] = set()
        self._checkpointed: dict[str, _Checkpointed] = {}
        # What was found and is of another topic of that name: nothing is lost by that.
        self._strays: set[TopicPartition] = set()
        self._known_topic_id: Callable[[str], bytes] = lambda topic: ZERO_UUID

    async def load_all(
        self,
        topic_config: Callable[[str, bytes], LogConfig | None],
        known_topic_id: Callable[[str], bytes],
    ) -> None:
        """Load all directories side by side."""
        directories = self._directories
        self._known_topic_id = known_topic_id
        kept, self.interrupted_moves = await settle_copies(directories)
        plans = {directory.path: self._find(directory, kept) for directory in directories.online()}
        await self._put_duplicates_aside(plans)
        self.progress.logs_remaining_count = sum(map(len, plans.values()))
        async with asyncio.TaskGroup() as group:
            for directory in directories.online():
                group.create_task(
                    self._load_directory(directory, plans[directory.path], topic_config)
                )
        self._find_lost()

    async def load_one(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
    ) -> PartitionLog:
        """Load a log, recover it if the last stop was not clean, and put it into service.

        Raises: OSError, LogDirectoryError.
        """
        directories = self._directories
        known = self._read_checkpoints(directory)
        try:
            log = await self._open(directory, topic_partition, topic_id, config, known)
        except (OSError, LogDirectoryError) as error:
            if not is_out_of_space(error):
                raise
            directory.ballast.give_up()  # what a recovery writes is little
            log = await self._open(directory, topic_partition, topic_id, config, known)
        if log.log_end_offset < known.recovery_points.get(topic_partition, 0):
            self.lost.add(topic_partition)
        directories.add(directory, log)
        return log

    async def _open(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        known: _Checkpointed,
    ) -> PartitionLog:
        """Load a log, recovering it where that is needed. Raises: OSError, LogDirectoryError."""
        directories = self._directories
        return await PartitionLog.load(
            directories.context(directory, topic_partition),
            topic_partition,
            topic_id,
            directory.partition_path(topic_partition),
            config,
            recovery_point=known.recovery_points.get(topic_partition, 0),
            log_start_offset=known.log_start_offsets.get(topic_partition, 0),
            high_watermark=known.high_watermarks.get(topic_partition, 0),
            first_dirty_offset=known.cleaner_offsets.get(topic_partition),
            was_clean=directory.was_clean,
            is_page_cache_lost=directory.was_machine_down,
        )

    def _find(self, directory: LogDirectory, kept: set[str]) -> list[TopicPartition]:
        """Return the partitions to load, and queue what the last run left to be removed.

        But not the directories in `kept`.
        """
        directories = self._directories
        try:
            now_ms = directories.clock.monotonic_ms()
            delay_ms = directories.config.log_segment_delete_delay_ms
            for path in directory.leftover_directories():
                if path in kept:
                    continue
                directories.removals.add(path, now_ms + delay_ms)
            found = [key for key, _ in directory.partition_directories()]
            self._departed.stray_count_by_path[directory.path] = len(directory.stray_names())
            for stray in unsettled_strays(directories.disk, directory.path):
                # A crash kept the checkpoints from forgetting it.
                self._strays.add(stray.topic_partition)
                self._departed.unsettled_strays.setdefault(directory.path, []).append(stray.path)
        except OSError as error:
            directories.take_offline(directory.path, error)
            return []
        return [key for key in found if key not in directory.logs]

    async def _load_directory(
        self,
        directory: LogDirectory,
        partitions: list[TopicPartition],
        topic_config: Callable[[str, bytes], LogConfig | None],
    ) -> None:
        gate = asyncio.Semaphore(self._directories.config.num_recovery_threads_per_data_dir)
        progress = self.progress

        async def load(topic_partition: TopicPartition) -> None:
            async with gate:
                if not directory.is_offline:
                    try:
                        await self._load_or_put_aside(directory, topic_partition, topic_config)
                    except (OSError, LogDirectoryError) as error:
                        self._directories.take_offline(directory.path, error)
                progress.logs_remaining_count -= 1

        async with asyncio.TaskGroup() as group:
            for topic_partition in partitions:
                group.create_task(load(topic_partition))
        if not directory.is_offline:
            directory.is_loaded = True
            await self._lower_checkpoints(directory)

    async def _lower_checkpoints(self, directory: LogDirectory) -> None:
        """Write what is above the end of a log that a crash has cut.

        What comes there now is new: after a kill, the old log start would hide it, the old high
        watermark would take it for committed, and the cleaner for compacted.
        """
        known = self._checkpointed.get(directory.path)
        if known is None:
            return
        logs, checkpointing = directory.logs, self._checkpointing
        if any(
            offset > logs[name].log_start_offset
            for name, offset in known.log_start_offsets.items()
            if name in logs
        ):
            await checkpointing.write_log_start_offsets(directory)
        if any(
            offset > logs[name].log_end_offset
            for name, offset in known.high_watermarks.items()
            if name in logs
        ):
            await checkpointing.write_high_watermarks(directory)
        if any(
            offset > logs[name].log_end_offset
            for name, offset in known.cleaner_offsets.items()
            if name in logs
        ):
            await checkpointing.write_cleaner_offsets(directory)

    async def forget_others(self) -> None:
        """Have the checkpoints of all directories name no logs that are not there."""
        for directory in self._directories.online():
            if directory.is_loaded:
                await self._forget_others(directory)
        self._checkpointed.clear()

    def _find_lost(self) -> None:
        """Note what is missing: flushed once, and now neither here nor in another directory."""
        directories = self._directories
        if len(directories.online()) < len(directories.all):
            return  # it may be there
        for directory in directories.all:
            try:
                known = self._read_checkpoints(directory)
            except OSError as error:
                directories.take_offline(directory.path, error)
                continue
            self.lost.update(
                name
                for name, flushed in known.recovery_points.items()
                if flushed > 0 and name not in directories.logs and name not in self._strays
            )

    async def _forget_others(self, directory: LogDirectory) -> None:
        """Rewrite the checkpoints if they name logs that a crash kept them from forgetting."""
        try:
            known = self._read_checkpoints(directory)
        except OSError as error:
            self._directories.take_offline(directory.path, error)
            return
        named = (
            known.log_start_offsets.keys()
            | known.recovery_points.keys()
            | known.cleaner_offsets.keys()
        )
        if not directory.logs.keys() >= named or self._departed.unsettled_strays.get(
            directory.path
        ):
            await self._departed.forget_others(directory)

    async def _load_or_put_aside(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_config: Callable[[str, bytes], LogConfig | None],
    ) -> None:
        directories = self._directories
        path = directory.partition_path(topic_partition)
        metadata_path = f"{path}/{PARTITION_METADATA_FILE}"
        try:
            topic_id = read_topic_id(directories.disk, metadata_path)
        except CheckpointError as error:
            _logger.warning("%s; the partition counts as one without an id", error)
            topic_id = None
        is_healed = topic_id is None
        if topic_id is None and self._is_remembered_elsewhere(directory, topic_partition):
            # The disk failed when this one was deleted, and it was never flushed.
            reason = "has no topic id, and the replica is in another directory"
            self._departed.put_aside(directory, path, topic_partition, reason)
            self._strays.add(topic_partition)
            return
        if topic_id is None:
            # The machine stopped before the first flush made the id durable, or the partition is
            # older than topic ids: it belongs to the topic of its name.
            topic_id = self._known_topic_id(topic_partition.topic)
        config = topic_config(topic_partition.topic, topic_id)
        if config is None:
            self._departed.put_aside(
                directory, path, topic_partition, "is not assigned to this broker"
            )
            self._strays.add(topic_partition)
            return
        is_healed = is_healed and topic_id != ZERO_UUID
        if is_healed:
            write_topic_id(directories.disk, metadata_path, topic_id, is_durable=False)
        log = await self.load_one(directory, topic_partition, topic_id, config)
        if is_healed:
            log.flushing.note_topic_id()
        self.progress.logs_loaded_count += 1

    def _is_remembered_elsewhere(
        self, directory: LogDirectory, topic_partition: TopicPartition
    ) -> bool:
        """Whether the metadata knows the replica in another directory that is in use."""
        remembered = self._remembered_directory(topic_partition)
        others = (one for one in self._directories.online() if one is not directory)
        return any(one.directory_id == remembered != ZERO_UUID for one in others)

    async def _put_duplicates_aside(self, plans: dict[str, list[TopicPartition]]) -> None:
        """Load of a partition in two directories the replica that the metadata remembers.

        A replica may have been taken away and assigned anew, to another directory, while its old
        one was offline. Where neither is remembered, because the broker died before it had reported
        where the replica is, the newer one is loaded.
        """
        directories = self._directories
        found: dict[TopicPartition, list[LogDirectory]] = {}
        for directory in directories.online():
            for topic_partition in plans[directory.path]:
                found.setdefault(topic_partition, []).append(directory)
        for topic_partition, holders in found.items():
            if len(holders) == 1:
                continue
            remembered = self._remembered_directory(topic_partition)
            others = [one for one in holders if one.directory_id != remembered]
            if len(others) == len(holders):
                others = await self._older(topic_partition, holders)
            for directory in others:
                plans[directory.path].remove(topic_partition)
                path = directory.partition_path(topic_partition)
                try:
                    reason = "is in another directory by now"
                    self._departed.put_aside(directory, path, topic_partition, reason)
                except OSError as error:
                    directories.take_offline(directory.path, error)

    async def _older(
        self, topic_partition: TopicPartition, holders: list[LogDirectory]
    ) -> list[LogDirectory]:
        """All but the directory that has the newest log; says loudly which one that is."""
        directories = self._directories
        ends: dict[LogDirectory, LogEnd] = {}
        known_topic_id = self._known_topic_id(topic_partition.topic)
        for directory in holders:
            path = directory.partition_path(topic_partition)
            try:
                ends[directory] = await directories.disk.run(
                    log_end, directories.disk, path, known_topic_id
                )
            except OSError as error:
                directories.take_offline(directory.path, error)
        if not ends:
            return []
        newest = max(ends, key=lambda one: ends[one])
        _logger.warning(
            "%s-%d is in several log directories, and the metadata remembers none of them: "
            "the newest is used, %s; leader epoch and end of each: %s",
            *topic_partition,
            newest.path,
            ", ".join(f"{one.path} {end.leader_epoch}/{end[2]}" for one, end in ends.items()),
        )
        return [one for one in ends if one is not newest]

    def _read_checkpoints(self, directory: LogDirectory) -> _Checkpointed:
        """Return what the checkpoint files say; a broken one counts as empty. Raises: OSError."""
        known = self._checkpointed.get(directory.path)
        if known is None:
            known = _Checkpointed(
                directory.read_offsets(directory.recovery_points),
                directory.read_offsets(directory.log_start_offsets),
                directory.read_offsets(directory.high_watermarks),
                directory.read_offsets(directory.cleaner_offsets),
            )
            self._checkpointed[directory.path] = known
        return known
