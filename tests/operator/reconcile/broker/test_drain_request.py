"""The note on a pod since when it is asked to leave its node."""

from datetime import UTC, datetime, timedelta

import pytest

from barnabas_operator.reconcile.broker.drain_request import (
    DrainRequest,
    asked,
    has_to_be_noted,
    read_request,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def row(since: float, last: float) -> DrainRequest:
    """A row of evictions, in minutes after noon."""
    return DrainRequest(since=after(since), last=after(last))


def test_a_note_is_read_as_it_was_written() -> None:
    """Another replica, or the next operator, goes on with the same row."""
    request = row(0, 7)
    assert request.text == "2026-01-31T12:00:00Z/2026-01-31T12:07:00Z"
    assert read_request(request.text) == request


@pytest.mark.parametrize("text", ["", "yes", "2026-01-31T12:00:00Z", "2026-01-31/2026-02-01"])
def test_what_is_no_note_counts_as_none(text: str) -> None:
    """Somebody may have written anything there; it must not open the gate."""
    assert read_request(text) is None


@pytest.mark.parametrize(
    ("found", "minute", "since"),
    [
        (None, 0, 0),
        (row(0, 0), 5, 0),
        (row(0, 50), 60, 0),
        # Nobody has asked for more than a quarter of an hour: whoever does now has just begun.
        (row(0, 0), 16, 16),
        (row(0, 40), 24 * 60, 24 * 60),
        # Written by a clock that is ahead.
        (row(1, 1), 0, 1),
        (row(60, 60), 0, 0),
    ],
)
def test_a_row_goes_on_while_somebody_asks(
    found: DrainRequest | None, minute: float, since: float
) -> None:
    """The patience of yesterday's drain is not used up today."""
    request = asked(found, after(minute))
    assert request.since == after(since)
    assert request.last >= after(minute)


def test_a_row_that_goes_on_is_written_once_a_minute() -> None:
    """operator.md 3.9: kubectl asks twelve times a minute, which must not be twelve writes."""
    assert has_to_be_noted(None, NOON)
    assert not has_to_be_noted(row(0, 0), after(0.9))
    assert has_to_be_noted(row(0, 0), after(1))
    assert has_to_be_noted(row(0, 0), after(16))
    assert not row(0, 0).is_over(after(15))
    assert row(0, 0).is_over(after(15.1))
