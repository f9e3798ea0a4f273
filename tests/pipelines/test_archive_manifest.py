"""What a batch says of itself, and what follows from it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from barnabas_pipelines.archive.checkpoint import batch_ends, offsets_in
from barnabas_pipelines.archive.continuation import continuation
from barnabas_pipelines.archive.manifest import (
    BatchRange,
    Manifest,
    Totals,
    advanced,
    ends_of,
    parse_manifest,
)
from barnabas_pipelines.archive.reading import path_complaint, summary
from tests.pipelines.memory_files import MemoryFiles

RANGES = (
    BatchRange(topic="orders", partition=0, start=5, end=9, record_count=4),
    BatchRange(topic="orders", partition=11, start=0, end=3, record_count=2),
)
MANIFEST = Manifest(
    number=3,
    spark_batch_id=17,
    topic_ids={"orders": "abc", "old": None},
    ranges=RANGES,
    ends={"orders": {0: 9, 11: 3}},
    first_timestamp_ms=-1,
    last_timestamp_ms=1_700_000_000_000,
    files={"dt=2026-11-22/part-0.parquet": 1234, "dt=2026-11-23/part-0.parquet": 10},
    totals=Totals(batch_count=4, file_count=9, record_count=100, byte_count=99_999),
)


@dataclass(frozen=True)
class Log:
    """A topic as the cluster tells it."""

    name: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]


def test_what_is_written_is_read_back() -> None:
    """Numbers of partitions are texts in JSON."""
    assert parse_manifest(MANIFEST.to_json()) == MANIFEST


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"version": 2}', MANIFEST.to_json()[:-20], '{"version": 1, "ends": 1}'],
)
def test_what_is_no_manifest_is_refused(text: str) -> None:
    """A crash may cut a file short; a newer program may write another form."""
    with pytest.raises(ValueError):
        parse_manifest(text)


def test_counts_are_of_the_batch() -> None:
    """And those of an archive are sums."""
    assert (MANIFEST.record_count, MANIFEST.byte_count) == (6, 1244)
    assert summary([MANIFEST, MANIFEST]) == Totals(
        batch_count=2, file_count=4, record_count=12, byte_count=2488
    )


def test_ends_only_go_forward() -> None:
    """An empty portion of a partition does not take anything back."""
    assert ends_of(RANGES) == {"orders": {0: 9, 11: 3}}
    assert advanced({"orders": {0: 12}, "old": {0: 1}}, ends_of(RANGES)) == {
        "orders": {0: 12, 11: 3},
        "old": {0: 1},
    }


@pytest.mark.parametrize(
    ("document", "ends"),
    [
        ({"orders": {"0": 5}}, {"orders": {0: 5}}),
        ({"form": 1, "topics": {"a": {"id": "x", "offsets": {"1": 2}}}}, {"a": {1: 2}}),
        ({"topics": {"0": 5}}, {"topics": {0: 5}}),
        ({}, {}),
        ({"orders": 5}, None),
        ([1], None),
        ("0-10", None),
        ({"form": 1, "topics": {"a": 3}}, None),
    ],
)
def test_offsets_of_both_sources_are_understood(document: Any, ends: Any) -> None:
    """What is neither is not guessed at."""
    assert offsets_in(document) == ends


def test_the_checkpoint_tells_where_a_batch_ends() -> None:
    """If it has the batch, and its form is known."""
    files = MemoryFiles()
    files.write("offsets/3", 'v1\n{"conf": {}}\n{"orders": {"0": 5}}')
    files.write("offsets/4", 'v1\n{"conf": {}}')
    assert batch_ends(files, 3) == {"orders": {0: 5}}
    assert batch_ends(files, 4) is None
    assert batch_ends(files, 5) is None
    assert batch_ends(files, -1) is None


def test_an_archive_goes_on_at_its_ends_and_takes_new_partitions_whole() -> None:
    """JSON of starting offsets has to name every partition."""
    log = Log("orders", {0: 0, 1: 0, 2: 7}, {0: 20, 1: 5, 2: 30})
    found = continuation({"orders": {0: 9, 1: 5}}, [log], -2)
    assert json.dumps(found.starts) == '{"orders": {"0": 9, "1": 5, "2": -2}}'
    assert found.lost == found.contradictions == ()


def test_records_that_are_gone_are_told_with_their_number() -> None:
    """Retention has passed what the archive has."""
    found = continuation({"orders": {0: 9}}, [Log("orders", {0: 12}, {0: 20})], -2)
    assert found.starts == {"orders": {"0": 12}}
    assert found.lost == (
        "orders-0: the archive ends at offset 9, the topic begins at 12, 3 offsets are gone",
    )


def test_a_topic_that_is_shorter_than_its_archive_contradicts_it() -> None:
    """It was made anew, or lost records."""
    found = continuation({"orders": {0: 9}}, [Log("orders", {0: 0}, {0: 4})], -2)
    assert found.contradictions == ("orders-0: the archive ends at offset 9, the topic at 4",)


def test_names_that_spark_takes_for_patterns_are_refused() -> None:
    """It would look for other folders than were written."""
    assert path_complaint("/data/[a]") is not None
    assert path_complaint("s3a://bucket/archive of orders") is None
