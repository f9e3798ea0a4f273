"""Durations as `share.auto.offset.reset` has them."""

import pytest

from barnabas_broker.share.offset_reset import duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0S", 0),
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt15m", 900_000),
        ("PT0.001S", 1),
        ("P7D", 604_800_000),
        ("PT1.0019S", 1_001),
        ("1H", 0),
        ("", 0),
    ],
)
def test_durations_are_read_as_iso_8601_has_them(text: str, expected: int) -> None:
    """SHR-4."""
    assert duration_ms(text) == expected
