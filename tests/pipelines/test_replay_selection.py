"""Which records a replay takes."""

from typing import Any

import pytest

from barnabas_pipelines.archive.manifest import BatchRange, Manifest, Totals
from barnabas_pipelines.replay.selection import (
    Selection,
    moment_text,
    parse_moment_ms,
    parse_offsets,
    parse_partitions,
)

BATCH = Manifest(
    number=0,
    spark_batch_id=0,
    topic_ids={},
    ranges=(
        BatchRange(topic="orders", partition=0, start=100, end=200, record_count=100),
        BatchRange(topic="orders", partition=3, start=0, end=50, record_count=50),
    ),
    ends={},
    first_timestamp_ms=1000,
    last_timestamp_ms=2000,
    files={},
    totals=Totals(),
)


@pytest.mark.parametrize(
    ("chosen", "may_have"),
    [
        ({}, True),
        ({"topic": "others"}, False),
        ({"from_ms": 2000}, True),
        ({"from_ms": 2001}, False),
        ({"to_ms": 1001}, True),
        ({"to_ms": 1000}, False),
        ({"partitions": frozenset({3})}, True),
        ({"partitions": frozenset({1, 2})}, False),
        ({"offsets": {0: (199, None)}}, True),
        ({"offsets": {0: (200, None)}}, False),
        ({"offsets": {0: (0, 100)}}, False),
        ({"offsets": {0: (0, 101)}}, True),
        ({"offsets": {1: (0, None)}}, False),
        ({"offsets": {3: (0, None)}, "partitions": frozenset({0})}, False),
    ],
)
def test_batches_that_can_have_nothing_are_left_out(chosen: dict[str, Any], may_have: bool) -> None:
    """Ends are exclusive throughout; one record at the edge is enough."""
    assert Selection(**{"topic": "orders", **chosen}).may_have(BATCH) is may_have


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
