"""Writing snapshots of the metadata while the log grows, and trimming the log behind them.

One at a time and beside everything else: an image never changes while it is written.
Invariant: no snapshot ends behind what is flushed of the log.
Not here: the format (`snapshot`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.metadata import snapshot
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import ImageLog
from barnabas_broker.metadata.snapshot import SnapshotName

logger = logging.getLogger(__name__)


class SnapshotGenerator:
    """Decides when a snapshot is due, and has it written."""

    __slots__ = ("_clock", "_disk", "_interval_bytes", "_log", "_task")

    def __init__(self, log: ImageLog, disk: Disk, clock: Clock, interval_bytes: int) -> None:
        self._log = log
        self._disk = disk
        self._clock = clock
        self._interval_bytes = interval_bytes
        self._task: asyncio.Task[None] | None = None

    def start_if_due(self, trim: Callable[[SnapshotName], None]) -> None:
        """Write one if the log has grown enough; `trim` is told where the log may then begin."""
        log = self._log
        is_writing = self._task is not None and not self._task.done()
        if log.bytes_since_snapshot < self._interval_bytes or is_writing or not log.has_committed:
            return
        log.bytes_since_snapshot = 0
        if log.committed_image.has_unknown:
            logger.error(
                "no snapshot of the metadata is made: it has records that only a newer release"
                " knows, and they would be lost"
            )
            return
        self._task = asyncio.create_task(self._write(log.committed_image, trim))

    async def close(self) -> None:
        """Write none any more; one that is being written is complete or not there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self, image: MetadataImage, trim: Callable[[SnapshotName], None]) -> None:
        """Write the image; a failure is logged: the log still has everything."""
        directory = self._log.directory
        try:
            # What is committed is on the disks of a majority, which may be others. After a power
            # cut the log must not end before the snapshot, or this node could not start.
            await self._log.flush(image.offset + 1)
            start = await self._disk.run(
                snapshot.write, self._disk, directory, image, self._clock.wall_ms()
            )
            names = await self._disk.run(snapshot.list_snapshots, self._disk, directory)
        except (OSError, LogDirectoryError) as error:
            logger.error("no snapshot of the metadata at %d: %s", image.offset, error)
            return
        for name in names:
            if name.end_offset == start:
                trim(name)
