"""Which log to compact next, and how much of it. Pure.

Not here: gathering the facts (`log_cleaner`) and the compaction (`compaction`).

Source: REC-6, REC-7, REC-11. Invariants: the active segment, anything at or above the
last stable offset and records younger than `min.compaction.lag.ms` are never part of a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX


class CleanableSegment(NamedTuple):
    """What the choice needs to know of a segment. A timestamp that is not known is -1."""

    base_offset: int
    end_offset: int
    size_bytes: int
    first_timestamp: int
    largest_timestamp: int


class CompactionLimits(NamedTuple):
    """The limits of one log. `first_dirty_offset` None: it was never compacted."""

    first_dirty_offset: int | None
    log_start_offset: int
    last_stable_offset: int
    compaction_lag_min_ms: int
    compaction_lag_max_ms: int


class CompactionPlan(NamedTuple):
    """What a round on one log would do: offsets are [first_dirty, end)."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The share of the compactable part that was never compacted."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def plan_compaction(
    segments: Sequence[CleanableSegment], limits: CompactionLimits, now_ms: int
) -> CompactionPlan:
    """Return what could be compacted of a log whose segments, active one last, are given."""
    first_dirty = limits.first_dirty_offset
    active = segments[-1]
    if first_dirty is None or not limits.log_start_offset <= first_dirty <= active.base_offset:
        # Never compacted, or the checkpoint does not fit the log (any more): start over (REC-11).
        first_dirty = limits.log_start_offset
    end = min(limits.last_stable_offset, active.base_offset)
    oldest_dirty = -1
    for segment in segments:
        if segment is not active and segment.end_offset <= first_dirty:
            continue
        if oldest_dirty < 0 and segment.first_timestamp >= 0:
            oldest_dirty = segment.first_timestamp
        is_too_young = segment.largest_timestamp > now_ms - limits.compaction_lag_min_ms
        if limits.compaction_lag_min_ms > 0 and is_too_young:
            end = min(end, max(segment.base_offset, first_dirty))
            break
    clean = dirty = 0
    for segment in segments[:-1]:
        if segment.base_offset < first_dirty:
            clean += segment.size_bytes
        elif segment.base_offset < end:
            dirty += segment.size_bytes
    is_overdue = 0 <= oldest_dirty < now_ms - limits.compaction_lag_max_ms
    return CompactionPlan(first_dirty, max(end, first_dirty), clean, dirty, is_overdue)


def is_due(plan: CompactionPlan, dirty_ratio_min: float) -> bool:
    """Return whether the log is worth compacting, or must be because it waited too long."""
    if not plan.dirty_bytes or plan.end_offset <= plan.first_dirty_offset:
        return False
    return plan.is_overdue or plan.dirty_ratio > dirty_ratio_min


def group_segments(
    segments: Iterable[CleanableSegment],
    segment_bytes_max: int,
    index_bytes_max: int,
    index_interval_bytes: int,
) -> list[list[CleanableSegment]]:
    """Split closed segments into runs that fit one output segment each (REC-10).

    Sizes are those before compaction, so an output is never larger than a segment may be. A segment
    that is too large by itself forms a run of its own. The bound by index size is the most that the
    bytes can need: one 12-byte time index entry per index interval.
    """
    runs: list[list[CleanableSegment]] = []
    size = 0
    bytes_max = min(segment_bytes_max, index_bytes_max // 12 * index_interval_bytes)
    for segment in segments:
        fits = (
            bool(runs)
            and size + segment.size_bytes <= bytes_max
            and segment.end_offset - 1 - runs[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            runs[-1].append(segment)
            size += segment.size_bytes
        else:
            runs.append([segment])
            size = segment.size_bytes
    return runs
