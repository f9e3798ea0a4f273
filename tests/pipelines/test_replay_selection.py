"""Which records a replay takes."""

from typing import Any

import pytest

from barnabas_pipelines.replay.selection import (
    Selection,
    moment_text,
    parse_moment_ms,
    parse_offsets,
    parse_partitions,
)
from barnabas_pipelines.tables.local import FileFacts

FILE = FileFacts(topic="orders", record_count=150, first_ms=1000, last_ms=2000)


@pytest.mark.parametrize(
    ("chosen", "may_have"),
    [
        ({}, True),
        ({"topic": "others"}, False),
        ({"from_ms": 2000}, True),
        ({"from_ms": 2001}, False),
        ({"to_ms": 1001}, True),
        ({"to_ms": 1000}, False),
    ],
)
def test_files_that_can_have_nothing_are_not_counted(
    chosen: dict[str, Any], may_have: bool
) -> None:
    """Ends are exclusive; one record at the edge is enough."""
    assert Selection(**{"topic": "orders", **chosen}).may_have(FILE) is may_have


def test_a_file_without_statistics_may_have_anything() -> None:
    """Delta's are of some columns only, and can be switched off."""
    unknown = FileFacts(topic="orders", record_count=1, first_ms=None, last_ms=None)
    assert Selection(topic="orders", from_ms=5, to_ms=6).may_have(unknown)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:01", 1000),
        ("1700000000000", 1_700_000_000_000),
    ],
)
def test_moments_are_in_utc_unless_they_say_otherwise(text: str, moment_ms: int) -> None:
    """A job gives the same wherever it runs."""
    assert parse_moment_ms(text) == moment_ms


@pytest.mark.parametrize("text", ["yesterday", "", "12", "2026-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    """Saying how one is written."""
    with pytest.raises(ValueError, match="such as 2026-11-22"):
        parse_moment_ms(text)


def test_moments_are_shown_as_they_can_be_given() -> None:
    """Also those that no calendar has."""
    assert moment_text(1500) == "1970-01-01T00:00:01.500Z"
    assert parse_moment_ms(moment_text(1_700_000_000_123)) == 1_700_000_000_123
    assert moment_text(10**18) == "1000000000000000000 ms"


def test_partitions_are_numbers_and_ranges() -> None:
    """Both ends included."""
    assert parse_partitions("0, 2,5-7") == {0, 2, 5, 6, 7}
    for text in ("", "a", "3-1", "1,", "-1"):
        with pytest.raises(ValueError, match="0,2,5-7"):
            parse_partitions(text)


def test_offsets_are_ranges_of_partitions() -> None:
    """Written with both ends included, as people count; open to the right."""
    assert parse_offsets("0:100-199, 1:50-") == {0: (100, 200), 1: (50, None)}
    for text in ("", "0", "0:5", "0:9-3", "0:1-2,0:5-6", "x:1-2"):
        with pytest.raises(ValueError, match="0:100-199"):
            parse_offsets(text)


def test_a_choice_is_told_in_words_and_as_data() -> None:
    """For plans, and to notice that a checkpoint is of another one."""
    chosen = Selection(
        topic="orders",
        from_ms=0,
        to_ms=1000,
        partitions=frozenset({2, 0}),
        offsets={0: (1, 2), 2: (5, None)},
    )
    assert chosen.text() == (
        "topic orders; from 1970-01-01T00:00:00.000Z; to before 1970-01-01T00:00:01.000Z; "
        "partitions 0, 2; offsets 1 to 1 of partition 0; offsets 5 to the end of partition 2"
    )
    assert chosen.to_json() == {
        "topic": "orders",
        "from_ms": 0,
        "to_ms": 1000,
        "partitions": [0, 2],
        "offsets": {"0": [1, 2], "2": [5, None]},
    }
