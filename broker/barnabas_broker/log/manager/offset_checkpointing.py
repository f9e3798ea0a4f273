"""Writing the offset checkpoints of the log directories from what the logs know.

Recovery points, log start offsets, high watermarks and where compaction goes on, each in one file
per directory, each written only if it changed. Not here: the file format (`checkpoints`), and when
to write (`log_tasks`).

Source: SEG-9, REP-5. Invariants: leader epochs reach the disk before the recovery point
that relies on them; a recovery point in the file is never above what is flushed; writes of one
directory's files do not overlap.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas_broker.log.checkpoints import OffsetCheckpoint
from barnabas_broker.log.manager.log_directories import LogDirectories
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_broker.env.disk import DiskDirectory
    from barnabas_broker.log.leader_epochs import LeaderEpochs
    from barnabas_broker.log.partition_log import PartitionLog


_FOLDERS_MAX = 64


class OffsetCheckpointing:
    """The checkpoint files of all directories, with what was last written to each."""

    __slots__ = ("_directories", "_last_written", "_locks")

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories
        self._last_written: dict[str, dict[TopicPartition, int]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def write_recovery_points(self, directory: LogDirectory) -> bool:
        """Write up to where each log is flushed; returns whether the file says so."""
        return await self._write(
            directory,
            directory.recovery_points,
            lambda log: log.recovery_point,
            epochs_first=True,
        )

    async def write_log_start_offsets(self, directory: LogDirectory) -> bool:
        """Write where each log starts; returns whether the file says so."""
        return await self._write(
            directory, directory.log_start_offsets, lambda log: log.log_start_offset
        )

    async def write_high_watermarks(self, directory: LogDirectory) -> bool:
        """Write each log's high watermark (REP-5); returns whether the file says so."""
        return await self._write(
            directory, directory.high_watermarks, lambda log: log.high_watermark
        )

    async def write_cleaner_offsets(self, directory: LogDirectory) -> bool:
        """Write where compaction goes on in each log; returns whether the file says so."""
        path = directory.cleaner_offsets.path
        if not any(log.first_dirty_offset is not None for log in directory.logs.values()) and (
            not self._directories.disk.exists(path)
        ):
            self._last_written[path] = {}  # as nearly everywhere: nothing was ever compacted
            return True
        return await self._write(
            directory, directory.cleaner_offsets, lambda log: log.first_dirty_offset
        )

    async def forget_others(self, directory: LogDirectory) -> bool:
        """Keep only what there is a log of in the files; returns whether that is so.

        They name partitions, not topic ids: a new topic of a deleted one's name would be taken for
        it after a crash, lose what lies below the old one's log start offset, and take what its
        followers lack for committed.
        """
        return await self.write_all(directory)

    async def epochs_flushed(self, directory: LogDirectory) -> None:
        """Return when no thread writes leader epochs of logs of a directory."""
        async with self._locks.setdefault(directory.path, asyncio.Lock()):
            return

    def may_name(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        """Whether one of those files names a partition, as far as is known."""
        files = (
            directory.recovery_points,
            directory.log_start_offsets,
            directory.high_watermarks,
            directory.cleaner_offsets,
        )
        for checkpoint in files:
            written = self._last_written.get(checkpoint.path)
            if written is None or topic_partition in written:
                return True
        return False

    async def write_all(self, directory: LogDirectory) -> bool:
        """Write all of them; returns whether they are so."""
        is_flushed_noted = await self.write_recovery_points(directory)
        is_start_noted = await self.write_log_start_offsets(directory)
        is_cleaner_noted = await self.write_cleaner_offsets(directory)
        return (
            await self.write_high_watermarks(directory)
            and is_start_noted
            and is_flushed_noted
            and is_cleaner_noted
        )

    async def _write(
        self,
        directory: LogDirectory,
        checkpoint: OffsetCheckpoint,
        offset_of: Callable[[PartitionLog], int | None],
        *,
        epochs_first: bool = False,
    ) -> bool:
        """Write one file; a failing disk takes the directory offline. Returns whether it is so.

        A directory that is not fully loaded keeps its files: they know more than the logs do.
        """
        # Collected under the lock: what is written last is what was known last.
        async with self._locks.setdefault(checkpoint.path, asyncio.Lock()):
            offsets = {
                key: offset
                for key, log in directory.logs.items()
                if (offset := offset_of(log)) is not None
            }
            if directory.is_offline or not directory.is_loaded:
                return False
            if self._last_written.get(checkpoint.path) == offsets:
                return True
            try:
                if epochs_first:
                    async with self._locks.setdefault(directory.path, asyncio.Lock()):
                        await self._flush_epochs(directory)
                await self._directories.disk.run(checkpoint.write, offsets)
            except OSError as error:
                self._directories.take_offline(directory.path, error)
                return False
            self._last_written[checkpoint.path] = offsets
            return True

    async def _flush_epochs(self, directory: LogDirectory) -> None:
        """Put leader epochs of flushed records on the device. Raises: OSError.

        The thread gets open folders, a bounded number at once: by its path it might find that of
        another log by now.
        """
        dirty = [
            log
            for log in directory.logs.values()
            if log.leader_epochs.is_dirty_below(log.recovery_point)
        ]
        for first in range(0, len(dirty), _FOLDERS_MAX):
            opened = [
                (log.leader_epochs, log.disk.open_directory(log.directory))
                for log in dirty[first : first + _FOLDERS_MAX]
                if directory.logs.get(log.topic_partition) is log
            ]
            await self._directories.disk.run(_flush_each, opened)


def _flush_each(dirty: list[tuple[LeaderEpochs, DiskDirectory]]) -> None:
    for epochs, folder in dirty:
        # The directory may have been removed meanwhile, because the partition was deleted.
        with contextlib.suppress(FileNotFoundError):
            epochs.flush(folder)
        folder.close()
