"""The log directories of a broker, and the logs that are in service in them.

What the parts of the log manager share: each gets this and nothing of the manager. Not here: one
directory's files (`log_directory`), loading, deletion and what is done from time to time.

Source: NODE-8, LOG-11, VOL-4. Invariants: a topic partition has at most one log here; a
log that is in `logs` belongs to a directory that is online; a directory's failure takes that
directory offline and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.local_log import LogContext
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.manager.directory_removal import RemovalQueue
from barnabas_broker.log.manager.disk_guard import LOOK_BYTES, DiskGuard
from barnabas_broker.log.manager.disk_room import Reserve
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)


class LogDirectories:
    """All log directories, and the logs in them. Used from the loop only."""

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
        # One bound for the indexes of all logs together.
        self.index_cache = IndexCache()
        self.all = [LogDirectory(disk, path) for path in config.log_dirs]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.removals = RemovalQueue(disk)
        self.disk_guard = DiskGuard(
            disk,
            clock,
            Reserve(
                percent=config.barnabas_disk_reserve_percent,
                bytes_min=config.barnabas_disk_reserve_bytes_min,
                bytes_max=config.barnabas_disk_reserve_bytes_max,
            ),
            self.all,
        )
        tail_cache.look_at_bytes = LOOK_BYTES
        tail_cache.on_look = self._much_was_written
        # Called when a log came into service, when one left, when a write of a directory found no
        # room, and when a directory went offline, after its logs left `logs`.
        self.on_added: Callable[[PartitionLog], None] = lambda _: None
        self.on_left: Callable[[TopicPartition], None] = lambda _: None
        self.on_out_of_room: Callable[[LogDirectory], None] = lambda _: None
        self.on_offline: Callable[[LogDirectory], None] = lambda _: None

    def context(self, directory: LogDirectory, topic_partition: TopicPartition) -> LogContext:
        """What the log of a partition shares with the others of a directory."""
        return LogContext(
            disk=directory.disk_for(topic_partition),
            clock=self.clock,
            random=self.random,
            tail_cache=self.tail_cache,
            index_cache=self.index_cache,
            flush_times=directory.flush_times,
        )

    def online(self) -> list[LogDirectory]:
        """Return the directories that can be used."""
        return [directory for directory in self.all if not directory.is_offline]

    def of(self, log: PartitionLog) -> LogDirectory:
        """Return the directory a log is in."""
        return self.above(log.directory)

    def above(self, path: str) -> LogDirectory:
        """Return the directory that a path is in. Raises: ValueError."""
        for directory in self.all:
            if path == directory.path or path.startswith(directory.path.rstrip("/") + "/"):
                return directory
        raise ValueError(f"{path} is in no log directory")

    def is_in_service(self, log: PartitionLog) -> bool:
        """Whether a log is the one of its partition that is in use."""
        return self.logs.get(log.topic_partition) is log

    def add(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Take a log that was opened into service."""
        log.local.enter_service(self._on_disk_failure, self.removals.segments_due)
        directory.logs[log.topic_partition] = log
        self.logs[log.topic_partition] = log
        self.on_added(log)

    def take_out(self, log: PartitionLog) -> LogDirectory:
        """Take a log out of service; returns the directory it is in."""
        del self.logs[log.topic_partition]
        directory = self.of(log)
        directory.logs.pop(log.topic_partition, None)
        self.on_left(log.topic_partition)
        log.retire()
        return directory

    def take_offline(self, path: str, error: Exception) -> None:
        """Stop using the directory that holds `path`, and only that one (LOG-11).

        Its logs raise KAFKA_STORAGE_ERROR from now on and are no longer in `logs`. A disk that is
        merely full stays in use (VOL-4).
        """
        directory = self.above(path)
        if directory.is_loaded and is_out_of_space(error):
            self.on_out_of_room(directory)
            return
        if not directory.fail(error):
            return
        _logger.error("log directory %s goes offline: %s", directory.path, error)
        if directory.is_marked_as_kept:
            self._remove_boot_markers()
        for topic_partition, log in directory.logs.items():
            log.retire()
            self.on_left(topic_partition)
            if self.logs.get(topic_partition) is log:
                del self.logs[topic_partition]
        self.on_offline(directory)

    def _remove_boot_markers(self) -> None:
        """Remove the boot markers of the other directories, as that of a failed one stays.

        Else the next start would take what the failed directory has lost for kept.
        """
        for directory in self.online():
            try:
                directory.boot.remove()
            except OSError as error:
                _logger.warning("%s stays: %s", directory.boot.path, error)

    def _on_disk_failure(self, failure: LogDirectoryError) -> None:
        """Take a directory offline after a failure in the background, where nobody waits for it."""
        self.take_offline(failure.path, failure)

    def _much_was_written(self) -> None:
        self.tail_cache.look_at_bytes = self.tail_cache.appended_bytes + LOOK_BYTES
        self.disk_guard.look_soon()
