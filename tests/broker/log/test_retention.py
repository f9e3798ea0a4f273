"""Which segments retention takes: the pure decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.log.retention import (
    RetainedSegment,
    RetentionLimits,
    plan_retention,
    retention_warning,
)
from tests.broker.log.log_fixtures import LogFixture, config


def segments(*timestamps: int, size: int = 100) -> list[RetainedSegment]:
    """Segments of ten offsets each; the last one is active."""
    return [
        RetainedSegment(number * 10, number * 10 + 10, size, timestamp)
        for number, timestamp in enumerate(timestamps)
    ]


def limits(**overrides: object) -> RetentionLimits:
    plain = RetentionLimits(True, -1, -1, 0, 10**9)
    return plain._replace(**overrides)  # type: ignore[arg-type]


def test_time_takes_the_oldest_until_one_is_young_enough():
    """SEG-10: now - largest timestamp > retention.ms, stopping at the first kept one."""
    plan = plan_retention(segments(100, 200, 900, 100), limits(retention_ms=500), 1000)
    assert (plan.by_time_count, plan.total_count) == (2, 2)
    assert plan_retention(segments(500), limits(retention_ms=500), 1000).total_count == 0
    assert plan_retention(segments(499), limits(retention_ms=500), 1000).total_count == 1


def test_a_future_timestamp_blocks_and_is_reported():
    """SEG-10."""
    plan = plan_retention(segments(100, 5000, 100), limits(retention_ms=500), 1000)
    assert (plan.total_count, plan.has_future_timestamp) == (1, True)


def test_size_takes_while_what_is_left_stays_above_the_limit():
    """SEG-10: while total - segment >= retention.bytes."""
    for retention_bytes, expected in ((400, 0), (399, 0), (300, 1), (101, 2), (100, 3), (0, 4)):
        plan = plan_retention(segments(1, 1, 1, 1), limits(retention_bytes=retention_bytes), 1)
        assert plan.by_size_count == expected


def test_the_start_offset_takes_segments_that_are_wholly_below_it():
    """SEG-10: next base <= log start; also for compact-only logs; never the active segment."""
    for start, expected in ((9, 0), (10, 1), (29, 2), (40, 3)):
        plan = plan_retention(
            segments(1, 1, 1, 1),
            limits(deletes=False, retention_ms=0, retention_bytes=0, log_start_offset=start),
            10**6,
        )
        assert (plan.by_start_offset_count, plan.total_count) == (expected, expected)


def test_nothing_at_or_above_the_high_watermark_goes():
    """SEG-11."""
    for high_watermark, expected in ((0, 0), (19, 1), (20, 2), (40, 4)):
        plan = plan_retention(
            segments(1, 1, 1, 1), limits(retention_ms=0, high_watermark=high_watermark), 1000
        )
        assert plan.total_count == expected


def test_an_empty_active_segment_stays():
    """SEG-11: a non-empty one whose time came goes too (after rolling)."""
    found = segments(1, 1)
    found.append(RetainedSegment(20, 20, 0, 1))
    assert plan_retention(found, limits(retention_ms=0), 1000).total_count == 2


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 50)), min_size=1, max_size=12),
    st.integers(-1, 2000),
    st.integers(-1, 400),
    st.integers(0, 130),
    st.integers(0, 130),
)
def test_reasons_add_up_and_leave_what_each_limit_protects(
    facts, retention_ms, retention_bytes, start, high_watermark
):
    """SEG-10, SEG-11: for any log, what is deleted is a prefix below the high watermark."""
    found = [
        RetainedSegment(number * 10, number * 10 + 10, size, timestamp)
        for number, (timestamp, size) in enumerate(facts)
    ]
    plan = plan_retention(
        found, RetentionLimits(True, retention_ms, retention_bytes, start, high_watermark), 2000
    )
    assert all(segment.end_offset <= high_watermark for segment in found[: plan.total_count])
    if plan.by_size_count:
        left = found[plan.by_time_count + plan.by_size_count :]
        assert sum(segment.size_bytes for segment in left) >= retention_bytes
    if retention_ms >= 0 and plan.by_time_count < len(found):
        first = found[plan.by_time_count]
        assert (
            first.end_offset > high_watermark or 2000 - first.largest_timestamp_ms <= retention_ms
        )


def test_a_retention_shorter_than_allowed_timestamps_is_warned_of() -> None:
    """LOG-7: by either bound; equal is long enough, and without a limit nothing is compared."""

    def warning(**overrides: str) -> str:
        keys = {name.replace("_", "."): value for name, value in overrides.items()}
        return retention_warning(config({"retention.ms": "7200000", **keys})) or ""

    before = {"message_timestamp_before_max_ms": "7200001"}
    assert warning() == ""
    assert "less than message.timestamp.before.max.ms=7200001" in warning(**before)
    assert "less than message.timestamp.after.max.ms=3600000" in warning(retention_ms="3599999")
    assert warning(message_timestamp_before_max_ms="7200000", retention_ms="7200000") == ""
    assert warning(retention_ms="3600000") == ""
    # No age ends these, and a broker's clock is never behind.
    assert warning(**before, retention_ms="-1") == ""
    assert warning(**before, cleanup_policy="compact") == ""
    assert warning(**before, cleanup_policy="compact,delete") != ""
    assert warning(**before, message_timestamp_type="LogAppendTime") == ""


def test_a_log_warns_of_its_retention_when_settings_come(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """LOG-7: with the first settings and with others, not again with the same."""
    short = {"retention.ms": "7200000", "message.timestamp.before.max.ms": "7200001"}
    fixture = LogFixture(config(short))
    (first,) = caplog.messages
    assert first.startswith("topic topic: retention.ms=7200000 is less than ")
    fixture.log.update_config(config({**short, "segment.bytes": "2000000"}))
    assert len(caplog.messages) == 1
    fixture.log.update_config(config())
    assert len(caplog.messages) == 1
    fixture.log.update_config(config(short))
    assert caplog.messages == [first, first]
