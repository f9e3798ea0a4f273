"""Lag, and where a reset of a group's offsets goes."""

import pytest

from barnabas_client.cluster.offset_ranges import (
    OffsetRange,
    ResetTarget,
    lag_behind,
    reset_offset,
)

HELD = OffsetRange(10, 100)


@pytest.mark.parametrize(
    ("committed", "lag", "lost"),
    [(10, 90, 0), (60, 40, 0), (100, 0, 0), (4, 90, 6), (120, 0, 0)],
)
def test_lag_counts_what_is_left_and_deleted_records_are_lost(
    committed: int, lag: int, lost: int
) -> None:
    """An offset above the end was committed before the log was truncated or made anew."""
    assert (HELD.lag(committed), HELD.lost_count(committed)) == (lag, lost)
    assert lag_behind(HELD.end, HELD.position(committed)) == lag


@pytest.mark.parametrize(
    ("target", "committed", "value", "expected"),
    [
        (ResetTarget.EARLIEST, 50, None, (10, 10)),
        (ResetTarget.LATEST, 50, None, (100, 100)),
        (ResetTarget.CURRENT, 50, None, (50, 50)),
        (ResetTarget.CURRENT, None, None, (100, 100)),
        (ResetTarget.OFFSET, None, 42, (42, 42)),
        (ResetTarget.OFFSET, None, 5, (10, 5)),
        (ResetTarget.OFFSET, None, 500, (100, 500)),
        (ResetTarget.SHIFT_BY, 50, -20, (30, 30)),
        (ResetTarget.SHIFT_BY, 50, 200, (100, 250)),
        (ResetTarget.SHIFT_BY, None, 20, (20, 20)),
        (ResetTarget.LOOKED_UP, 50, 77, (77, 77)),
        (ResetTarget.LOOKED_UP, 50, None, (100, 100)),
    ],
)
def test_a_reset_goes_to_an_offset_that_the_partition_holds(
    target: ResetTarget, committed: int | None, value: int | None, expected: tuple[int, int]
) -> None:
    """A consumer that starts elsewhere would reset once more, by its own policy (CON-5)."""
    assert reset_offset(target, HELD, committed=committed, value=value) == expected
