"""Durations as people and other programs write them."""

import pytest

from barnabas_protocol.settings.durations import (
    duration_text,
    exact_duration_text,
    parse_duration_ms,
    parse_iso_duration_ms,
)


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
def test_iso_durations_are_read(text: str, duration_ms: int) -> None:
    """KIP-1106 names `java.time.Duration.parse`."""
    assert parse_iso_duration_ms(text) == duration_ms
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("-PT-1H", 3_600_000),
        ("+PT1H", 3_600_000),
        ("P1DT-1H", 82_800_000),
        ("PT1,5S", 1_500),
        ("PT1.S", 1_000),
        ("PT2M-0.5S", 119_500),
        ("PT9223372036854775807S", 9_223_372_036_854_775_807_000),
    ],
)
def test_numbers_have_signs_as_in_java(text: str, duration_ms: int) -> None:
    """KIP-1106: what a broker takes, Java takes, too."""
    assert parse_iso_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1H",
        "P1Y",
        "P1M",
        "P1W",
        "PT-1H",
        "-PT1H",
        "PT1",
        "P1H",
        "pt-0.5s",
        "PT.5S",
        "PT1.1234567891S",
        "PT1M1H",
        "PT9223372036854775808S",
        "P" + "9" * 5000 + "D",
    ],
)
def test_what_is_no_iso_duration_is_refused(text: str) -> None:
    """Years and months have no length, and the past has no future."""
    with pytest.raises(ValueError, match="PT1H"):
        parse_iso_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("1.5h", 5_400_000),
        ("5 min", 300_000),
        (" 1h 30m ", 5_400_000),
    ],
)
def test_durations_in_units_are_read(text: str, duration_ms: int) -> None:
    """As command lines and options have them."""
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "h", "5", "1h30", "1 year", "PT", "P1Y", "-1h", "1h-"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    """A bare number has no unit: whether one is assumed is the caller's affair."""
    with pytest.raises(ValueError, match="1h30m"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (9, "9 ms"),
        (1000, "1 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_000, "1 min 30 s"),
        (93_784_000, "1 d 2 h"),
        (86_400_000, "1 d"),
        (86_460_000, "1 d"),
    ],
)
def test_durations_are_shown_in_their_two_largest_units(duration_ms: int, text: str) -> None:
    """Nobody reads the minutes of a day."""
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize("duration_ms", [0, 1, 999, 1000, 90_000, 3_600_000, 86_400_000, 90_001])
def test_exact_texts_are_read_back(duration_ms: int) -> None:
    """What a plan shows can be pasted."""
    assert parse_duration_ms(exact_duration_text(duration_ms)) == duration_ms
