"""Logs whose last write found no room: out of service for a moment, then opened again in place.

A write that finds no room may leave a part of itself behind the log's end, and has already changed
what is kept in memory: producers, leader epochs, offsets. So the log goes out of service, and is
recovered from its files as after a crash, from its recovery point, while the broker runs. Nothing
that was acknowledged is lost: it was written before. Until there is room for what the recovery
itself writes, it is tried again every second. What the files do not say the new log takes over from
the old one: what is not on the device yet, and settings that have changed meanwhile.

Not here: what else stops where there is no room (`disk_guard`); disks that fail
(`log_directories`).
Source: VOL-4, `docs/decisions/0016-a-full-disk-is-a-state.md`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from barnabas_broker.log.manager.log_directories import LogDirectories
    from barnabas_broker.log.manager.log_directory import LogDirectory
    from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing

_logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0


class LogReopening:
    """The logs of a broker that are to come back."""

    __slots__ = ("_checkpointing", "_directories", "_tasks", "on_closed", "on_reopened")

    def __init__(self, directories: LogDirectories, checkpointing: OffsetCheckpointing) -> None:
        self._directories = directories
        self._checkpointing = checkpointing
        self._tasks: dict[PartitionLog, asyncio.Task[None]] = {}
        # Whoever serves the logs: with one that is out of service, and with it and its successor.
        self.on_closed: Callable[[PartitionLog], None] = lambda log: None
        self.on_reopened: Callable[[PartitionLog, PartitionLog], None] = lambda old, new: None

    def out_of_room(self, directory: LogDirectory) -> None:
        """Act on a write of a directory that found no room."""
        self._directories.disk_guard.write_refused(directory)
        for log in list(directory.logs.values()):
            if log.is_offline and log not in self._tasks:
                _logger.warning("%s found no room to write: it is opened again", log.directory)
                self.on_closed(log)
                if not self._let_go(directory, log):
                    return
                self._tasks[log] = asyncio.create_task(self._reopen(directory, log))

    def _let_go(self, directory: LogDirectory, log: PartitionLog) -> bool:
        """Let nothing touch a log's files behind the back of its recovery.

        Compaction's output would be put in service there and taken back here, with the segments
        that it stands for gone. Returns false if the directory fails by it.
        """
        log.local.removal.cancel()
        try:
            log.local.drop_completed_output()
        except OSError as error:
            fault = OSError(errno.EIO, f"compaction's output stays: {error}", log.directory)
            self._directories.take_offline(directory.path, fault)
            return False
        return True

    async def give_up(self, log: PartitionLog) -> None:
        """Return when nothing works on the files of a log, which is about to be deleted."""
        task = self._tasks.get(log)
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def stop(self) -> None:
        """Open none any more; the next start recovers them."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_wanted(self, directory: LogDirectory, log: PartitionLog) -> bool:
        """Whether the log is still one of the directory's, and that in use."""
        return not directory.is_offline and directory.logs.get(log.topic_partition) is log

    async def _reopen(self, directory: LogDirectory, log: PartitionLog) -> None:
        directories = self._directories
        try:
            # Their threads may still write the same files.
            await log.flushing.ended()
            await self._checkpointing.epochs_flushed(directory)
            while self._is_wanted(directory, log):
                try:
                    new = await self._load(directory, log)
                except (OSError, LogDirectoryError) as error:
                    if not self._is_wanted(directory, log):
                        return
                    if not is_out_of_space(error):
                        directories.take_offline(directory.path, error)
                        return
                    directories.disk_guard.write_refused(directory)
                    await asyncio.sleep(AGAIN_SECONDS)
                    continue
                if not self._is_wanted(directory, log):
                    new.retire()
                    return
                if new.log_end_offset < log.log_end_offset and not log.is_cut_unsettled:
                    lost = f"it ended at {log.log_end_offset}, and now at {new.log_end_offset}"
                    directories.take_offline(log.directory, OSError(errno.EIO, lost, log.directory))
                    return
                _take_over(log, new)
                directories.add(directory, new)
                _logger.info("%s is open again, at %d", new.directory, new.log_end_offset)
                self.on_reopened(log, new)
        except Exception:
            _logger.exception("%s could not be opened again", log.directory)
        finally:
            self._tasks.pop(log, None)

    async def _load(self, directory: LogDirectory, log: PartitionLog) -> PartitionLog:
        return await PartitionLog.load(
            self._directories.context(directory, log.topic_partition),
            log.topic_partition,
            log.topic_id,
            log.directory,
            log.config,
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            first_dirty_offset=log.first_dirty_offset,
            was_clean=False,
        )


def _take_over(old: PartitionLog, new: PartitionLog) -> None:
    """Have the new log know what the files do not say."""
    new.update_config(old.config)
    new.is_cut_unnoted = old.is_cut_unnoted  # and settled by opening it again
    if old.flushing.is_topic_id_unsynced:
        new.flushing.note_topic_id()
    unsynced = old.flushing.unsynced_bases
    for segment in new.segments.values():
        if segment.base_offset in unsynced:
            new.flushing.note_unsynced(segment)
