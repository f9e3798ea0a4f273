"""Removes the files of segments that left their log, so that reads under way can finish.

The files are renamed to `.deleted` at once and removed after `file.delete.delay.ms`. Which segments
go is not decided here. Source: SEG-12. Invariant: a start removes what a crash left under
a `.deleted` name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from barnabas_broker.env.disk import Disk
from barnabas_broker.log.layout import DELETED_FILE_SUFFIX, SEGMENT_SUFFIXES
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.segment import Segment

_logger = logging.getLogger(__name__)


class SegmentRemoval:
    """The segments of one log that left it, until their files are gone."""

    __slots__ = ("_disk", "_due_now", "_index_cache", "_pending", "hand_over")

    def __init__(self, disk: Disk, index_cache: IndexCache) -> None:
        self._disk = disk
        self._index_cache = index_cache
        self._due_now: list[Segment] = []
        # Has somebody call `remove_due`; without one, files are removed where they are due.
        self.hand_over: Callable[[SegmentRemoval], None] | None = None
        self._pending: dict[Segment, asyncio.TimerHandle] = {}

    def remove(self, segments: Sequence[Segment], delay_ms: int) -> None:
        """Rename the files of segments that are no longer in the map, remove them after the delay.

        Without a running loop they are removed at once. Raises: OSError.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        for segment in segments:
            self._index_cache.forget(segment)
            with segment.renaming():
                for suffix in reversed(SEGMENT_SUFFIXES):
                    path = segment.path(suffix)
                    if self._disk.exists(path):
                        self._disk.rename(path, path + DELETED_FILE_SUFFIX)
                # An open file follows its name; one that is opened later must find the new one.
                segment.name_suffix += DELETED_FILE_SUFFIX
            if loop is None:
                self._remove_files(segment)
            else:
                self._pending[segment] = loop.call_later(delay_ms / 1000, self._due, segment)

    def waiting(self) -> list[Segment]:
        """The segments whose files wait for their removal."""
        return list(self._pending)

    def cancel(self) -> None:
        """Close the files of what waits; the next start removes it."""
        pending, self._pending = self._pending, {}
        self._due_now.clear()
        for segment, handle in pending.items():
            handle.cancel()
            segment.close()

    def _due(self, segment: Segment) -> None:
        if self.hand_over is not None:
            self._due_now.append(segment)
            self.hand_over(self)
            return
        del self._pending[segment]
        try:
            self._remove_files(segment)
        except OSError as error:
            # The files are out of use; the next start tries again.
            _logger.warning("%s could not be removed: %s", segment.log_path, error)

    async def remove_due(self) -> None:
        """Remove the files that are due, in a thread: a large one takes a while."""
        while self._due_now:
            segment = self._due_now.pop(0)
            segment.close()
            try:
                await self._disk.run(self._remove_files, segment)
            except OSError as error:
                _logger.warning("%s could not be removed: %s", segment.log_path, error)
            self._pending.pop(segment, None)

    def _remove_files(self, segment: Segment) -> None:
        segment.close()
        for suffix in reversed(SEGMENT_SUFFIXES):
            path = segment.path(suffix)
            if self._disk.exists(path):
                self._disk.remove(path)
