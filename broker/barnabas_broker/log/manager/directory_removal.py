"""Partition directories that are no longer served, from their renaming to their removal.

A deleted partition's directory is renamed at once, so that its name is free and a
restart knows what it is, and its files are removed after a delay, so that reads under way can
finish.

Not here: single segments of a living log (`partition_log`); strays, which are kept (`strays`).
Source: TOP-14, SEG-9. Invariant: a directory in the queue has a marked name; one that
survives a crash is found by that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.log import layout

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.env.randomness import Random
    from barnabas_broker.log.partition_log import PartitionLog
    from barnabas_broker.log.segment_removal import SegmentRemoval
    from barnabas_protocol.ids import TopicPartition


class PendingRemoval(NamedTuple):
    """A renamed directory, when it is due (monotonic) and the log that still reads from it."""

    due_ms: int
    path: str
    log: PartitionLog | None


def removal_path(
    random: Random, path: str, topic_partition: TopicPartition, *, is_copy: bool = False
) -> str:
    """A new `-delete` name for a partition directory, beside its present one.

    A copy that nobody needs gets a name of its own: `-delete` is for a log that a complete copy may
    replace.

    The renaming is not made durable: a crash that undoes it leaves a directory whose topic id the
    metadata no longer has, which the next start treats as stray.
    """
    parent = path.rpartition("/")[0]
    name_of = layout.discarded_directory_name if is_copy else layout.deleted_directory_name
    return f"{parent}/{name_of(topic_partition, random.uuid().hex())}"


class RemovalQueue:
    """The directories that wait for their removal, and the logs that have segments to remove."""

    __slots__ = ("_disk", "_pending", "_segments", "_worker")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._pending: list[PendingRemoval] = []
        self._segments: dict[SegmentRemoval, None] = {}
        self._worker: asyncio.Task[None] | None = None

    def segments_due(self, removal: SegmentRemoval) -> None:
        """Have a log remove its segments that are due: one thread for the logs of all."""
        self._segments[removal] = None
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._remove_segments())

    async def _remove_segments(self) -> None:
        while self._segments:
            removal = next(iter(self._segments))
            del self._segments[removal]
            await removal.remove_due()

    async def stop(self) -> None:
        """Return when no thread removes anything any more; the next start removes the rest."""
        worker, self._worker = self._worker, None
        self._segments.clear()
        if worker is not None:
            worker.cancel()
            await asyncio.wait((worker,))

    @property
    def paths(self) -> list[str]:
        """The directories that wait."""
        return [removal.path for removal in self._pending]

    def add(self, path: str, due_ms: int, log: PartitionLog | None = None) -> None:
        """Remove `path` once the clock has reached `due_ms`; `log` is closed just before."""
        self._pending.append(PendingRemoval(due_ms, path, log))

    async def remove_due(
        self, now_ms: int, is_stopping: Callable[[], bool] = lambda: False
    ) -> list[tuple[str, OSError]]:
        """Remove what is due and return the directories that could not be, which are given up.

        They keep their marked names, so the next start tries again, as it does with what is left
        when `is_stopping` turns true.
        """
        failed: list[tuple[str, OSError]] = []
        for removal in [removal for removal in self._pending if removal.due_ms <= now_ms]:
            if is_stopping():
                break
            self._pending.remove(removal)
            if removal.log is not None:
                # On the loop: the log's timers and the shared index cache are the loop's.
                removal.log.release_files()
            try:
                await self._disk.run(self._disk.remove_tree, removal.path)
            except OSError as error:
                failed.append((removal.path, error))
        return failed

    def release(self) -> None:
        """Close the logs of the directories that wait: the broker stops, the next start removes
        them.
        """
        for removal in self._pending:
            if removal.log is not None:
                removal.log.release_files()
        self._pending.clear()
