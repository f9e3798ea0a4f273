"""Points in time as people write them."""

import pytest

from barnabas_client.facts.moments import moment_text, parse_moment_ms

NOW = 1_795_284_278_811


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1h", NOW - 3_600_000),
        ("1h ago", NOW - 3_600_000),
        ("2026-11-21T10:30:00Z", 1_795_257_000_000),
        ("2026-11-21T10:30+02:00", 1_795_249_800_000),
        ("1795257000000", 1_795_257_000_000),
    ],
)
def test_points_in_time(text: str, expected: int) -> None:
    """Issue 4: consume from a timestamp, ISO or relative."""
    assert parse_moment_ms(text, NOW) == expected


def test_what_is_no_point_in_time_is_told_with_examples() -> None:
    with pytest.raises(ValueError, match="no point in time such as"):
        parse_moment_ms("yesterday", NOW)


def test_times_are_shown_in_utc_with_milliseconds() -> None:
    assert moment_text(NOW) == "2026-11-21T18:04:38.811Z"
    assert moment_text(-1) is None
    assert moment_text(2**62) is None
