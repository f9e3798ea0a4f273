"""Which segments of a log have outlived its retention.

The decision is pure (`plan_retention`). Not here: the removal (`partition_log`,
`segment_removal`), and compaction (`log_cleaner`).

Source: LOG-7, SEG-10 to SEG-12. Invariants: segments go oldest first and the first kept one
stops the walk; nothing at or above the high watermark goes; an empty active segment stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas_broker.config.definitions import LONG_MAX
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.recovery.segment_recovery import read_largest_timestamp
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.time_index import NO_TIMESTAMP


class RetainedSegment(NamedTuple):
    """What the decision needs to know of a segment.

    `end_offset` is the next segment's base offset, or the log end offset for the active segment.
    `largest_timestamp_ms` is the file's modification time if no record has a timestamp.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int


class RetentionLimits(NamedTuple):
    """The limits that hold now; -1 for a limit that is off. `deletes` is false for compact-only."""

    deletes: bool
    retention_ms: int
    retention_bytes: int
    log_start_offset: int
    high_watermark: int

    @classmethod
    def of(cls, config: LogConfig, log_start_offset: int, high_watermark: int) -> RetentionLimits:
        """The limits by a topic's settings."""
        return cls(
            "delete" in config.cleanup_policy,
            config.retention_ms,
            config.retention_bytes,
            log_start_offset,
            high_watermark,
        )


class RetentionPlan(NamedTuple):
    """How many of the oldest segments go, by reason, in the order the reasons are applied."""

    by_time_count: int
    by_size_count: int
    by_start_offset_count: int
    has_future_timestamp: bool

    @property
    def total_count(self) -> int:
        """How many of the oldest segments go altogether."""
        return self.by_time_count + self.by_size_count + self.by_start_offset_count


def plan_retention(
    segments: Sequence[RetainedSegment], limits: RetentionLimits, now_ms: int
) -> RetentionPlan:
    """Return which of the segments, given oldest first and the active one last, are to go."""
    candidates = _below_high_watermark(segments, limits.high_watermark)
    time_count = size_count = 0
    has_future = False
    if limits.deletes and limits.retention_ms >= 0:
        while time_count < len(candidates):
            age_ms = now_ms - candidates[time_count].largest_timestamp_ms
            if age_ms <= limits.retention_ms:
                has_future = age_ms < 0
                break
            time_count += 1
    if limits.deletes and limits.retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments[time_count:])
        excess -= limits.retention_bytes
        for segment in candidates[time_count:]:
            excess -= segment.size_bytes
            if excess < 0:
                break
            size_count += 1
    start_count = 0
    for segment in candidates[time_count + size_count :]:
        if segment.end_offset > limits.log_start_offset or segment is segments[-1]:
            break
        start_count += 1
    return RetentionPlan(time_count, size_count, start_count, has_future)


def retention_warning(config: LogConfig) -> str | None:
    """What is to be told of a retention that is shorter than the timestamps allowed (LOG-7).

    A `message.timestamp.before.max.ms` without a limit, its default, would be told of every topic.
    """
    retention_ms = config.retention_ms
    if (
        not config.deletes_old_segments
        or retention_ms < 0
        or config.message_timestamp_type == "LogAppendTime"
    ):
        return None
    before_ms = config.message_timestamp_before_max_ms
    if retention_ms < before_ms < LONG_MAX:
        return (
            f"retention.ms={retention_ms} is less than message.timestamp.before.max.ms={before_ms}:"
            " records that are taken may be deleted at once, and segments may be left often"
        )
    after_ms = config.message_timestamp_after_max_ms
    if retention_ms < after_ms:
        return (
            f"retention.ms={retention_ms} is less than message.timestamp.after.max.ms={after_ms}:"
            " records from a clock that is ahead are kept for longer than that"
        )
    return None


def _below_high_watermark(
    segments: Sequence[RetainedSegment], high_watermark: int
) -> list[RetainedSegment]:
    """Return the oldest segments that may go at all (SEG-11)."""
    candidates: list[RetainedSegment] = []
    for segment in segments:
        is_empty_active = segment is segments[-1] and segment.size_bytes == 0
        if segment.end_offset > high_watermark or is_empty_active:
            break
        candidates.append(segment)
    return candidates


def retained_segments(
    segments: list[Segment], log_end_offset: int, interval_bytes: int
) -> list[RetainedSegment]:
    """What retention needs to know; reads the ends of time indexes. For a thread."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    facts = []
    for segment, end_offset in zip(segments, ends, strict=True):
        largest = read_largest_timestamp(segment, interval_bytes)
        if largest == NO_TIMESTAMP:
            largest = segment.created_ms
            if segment.is_created:
                largest = segment.disk.modified_ms(segment.log_path)
        facts.append(RetainedSegment(segment.base_offset, end_offset, segment.size_bytes, largest))
    return facts
