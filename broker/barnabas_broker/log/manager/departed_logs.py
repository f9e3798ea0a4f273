"""Logs that left: deleted ones and strays, whose partitions the checkpoints may still name.

Checkpoints name partitions, not topic ids: what they say of a log that is gone would be taken for a
new one of its name. Not here: a stray's own files (`strays`), the removal (`directory_removal`).

Source: TOP-14, TOP-15. Invariant: while a checkpoint of a directory may name a partition
whose log is gone, no log of that name is made there (`may_be_named`).
"""

from __future__ import annotations

import logging

from barnabas_broker.log.manager.directory_removal import removal_path
from barnabas_broker.log.manager.log_directories import LogDirectories
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_broker.log.manager.strays import put_aside, settle
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)


class DepartedLogs:
    """The logs that left a broker's directories."""

    def __init__(self, directories: LogDirectories, checkpointing: OffsetCheckpointing) -> None:
        self._directories = directories
        self._checkpointing = checkpointing
        self.stray_count_by_path: dict[str, int] = {}  # how many are kept, by log directory
        self.put_aside_count = 0  # since the start
        # Paths, by log directory, of those that its checkpoints may name.
        self.unsettled_strays: dict[str, list[str]] = {}
        # Their checkpoints still name logs that are gone; in the order in which that came about.
        self._with_deletions: dict[LogDirectory, None] = {}
        self._unnoted: dict[LogDirectory, None] = {}  # there was no room to change them

    @property
    def has_unnoted_deletions(self) -> bool:
        """Whether checkpoints name logs that are gone, as there was no room to change them."""
        return bool(self._unnoted)

    def may_be_named(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        """Whether a checkpoint may name a log of this name that is gone."""
        return directory in self._unnoted and self._checkpointing.may_name(
            directory, topic_partition
        )

    def delete(self, log: PartitionLog) -> None:
        """Take a log out of service and rename its directory; the files go after a delay (TOP-14).

        The name is free for a new log after `note_deletions`.
        """
        directories = self._directories
        directory = directories.take_out(log)
        self._with_deletions[directory] = None
        try:
            log.local.drop_completed_output()
            log.rename_directory(
                log.replaced_path
                or removal_path(directories.random, log.directory, log.topic_partition)
            )
        except OSError as error:
            directories.take_offline(directory.path, error)
            return
        due_ms = directories.clock.monotonic_ms() + log.config.file_delete_delay_ms
        directories.removals.add(log.directory, due_ms, log)

    def put_log_aside(self, log: PartitionLog, reason: str) -> None:
        """Take a log out of service that is not this broker's, and keep it as a stray (TOP-15)."""
        directory = self._directories.take_out(log)
        self._with_deletions[directory] = None
        try:
            log.local.drop_completed_output()
            self.put_aside(directory, log.directory, log.topic_partition, reason, log)
        except OSError as error:
            self._directories.take_offline(directory.path, error)
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
            self._directories.disk,
            self._directories.random,
            path,
            topic_partition,
            reason=reason,
            now_ms=self._directories.clock.wall_ms(),
            log_start_offset=log_start_offset,
            rename=None if log is None else log.rename_directory,
        )
        _logger.warning("%s %s: kept as %s", path, reason, stray)
        self.unsettled_strays.setdefault(directory.path, []).append(stray)
        self.put_aside_count += 1
        counts = self.stray_count_by_path
        counts[directory.path] = counts.get(directory.path, 0) + 1

    async def note_deletions(self) -> None:
        """Take the deleted logs out of the checkpoints, once for many.

        Call it before others of their names are created; again where there was no room for it
        (`has_unnoted_deletions`): until then none of those names is made there. That their
        directories were renamed is safe first: a power cut would bring a log back that is taken for
        the new one of its name, if its own topic id was not on the device yet.
        """
        directories = self._with_deletions | self._unnoted
        self._with_deletions = {}
        disk = self._directories.disk
        for directory in directories:
            try:
                await disk.run(disk.sync_directory, directory.path)
            except OSError as error:
                self._directories.take_offline(directory.path, error)
            await self.forget_others(directory)

    async def forget_others(self, directory: LogDirectory) -> None:
        """Have checkpoints name no logs that are not there, or remember that they may."""
        strays = self.unsettled_strays.pop(directory.path, [])
        is_noted = await self._checkpointing.forget_others(directory)
        disk = self._directories.disk
        try:
            if is_noted and strays:
                await disk.run(settle, disk, strays)
        except OSError as error:
            self._directories.take_offline(directory.path, error)
        if is_noted or directory.is_offline:
            self._unnoted.pop(directory, None)
        else:
            self._unnoted[directory] = None
            self.unsettled_strays.setdefault(directory.path, []).extend(strays)
