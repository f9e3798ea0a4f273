"""Durations as `auto_offset_reset` takes them."""

import pytest

from barnabas_client.config.iso_durations import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H", 3_600_000),
        ("P7D", 604_800_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.0015s", 1),
        ("PT90M", 5_400_000),
        ("PT0S", 0),
    ],
)
def test_durations_are_read(text: str, duration_ms: int) -> None:
    """KIP-1106 names `java.time.Duration.parse`."""
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1H", "P1Y", "P1M", "PT-1H", "-PT1H", "PT1", "P1H"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Years and months have no length, and the past has no future."""
    with pytest.raises(ValueError, match="PT1H"):
        parse_duration_ms(text)
