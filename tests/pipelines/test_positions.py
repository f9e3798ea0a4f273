"""What `startingOffsets`, `endingOffsets` and their sisters mean in every partition."""

import json
from collections.abc import Mapping

import pytest

from barnabas_pipelines.datasource.positions import ending_offsets, starting_offsets
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.offsets import LogView, StreamOffsets
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import Options, parse_options
from barnabas_protocol.ids import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = LogView(starts={P0: 10, P1: 0}, ends=StreamOffsets(offsets={P0: 50, P1: 8}))


class Times:
    """Record n of a partition has timestamp n; the last ones are at 50 and 8."""

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        ends = NOW.ends.offsets
        return {one: at if at < ends[one] else None for one, at in timestamps_ms.items()}


def options(use: Use = Use.BATCH_READ, /, **more: object) -> Options:
    texts = {
        name: json.dumps({"t": value}) if isinstance(value, dict) else str(value)
        for name, value in more.items()
    }
    return parse_options({"bootstrapServers": "broker:1", "subscribe": "t", **texts}, use)


def start(**more: object) -> tuple[int, int]:
    found = starting_offsets(options(**more), NOW, Times())
    return found.offsets[P0], found.offsets[P1]


def end(**more: object) -> tuple[int, int]:
    found = ending_offsets(options(**more), NOW, Times())
    return found.offsets[P0], found.offsets[P1]


def test_offsets_by_word_and_by_number() -> None:
    """-2 is the first there is, -1 the end."""
    assert start() == (10, 0)
    assert start(startingOffsets={"0": -2, "1": 3}) == (10, 3)
    assert end() == (50, 8)
    assert end(endingOffsets={"0": 20, "1": -1}) == (20, 8)
    latest = options(Use.STREAM_READ)
    assert starting_offsets(latest, NOW, Times()).offsets == {P0: 50, P1: 8}


def test_timestamps_go_before_offsets_and_one_for_all_before_those_by_partition() -> None:
    """The connector's order."""
    by_partition = {"startingOffsetsByTimestamp": {"0": 20, "1": 5}}
    assert start(startingOffsets={"0": 1, "1": 1}, **by_partition) == (20, 5)
    assert start(startingTimestamp=7, **by_partition) == (7, 7)
    assert end(endingTimestamp=7, endingOffsetsByTimestamp={"0": 20, "1": 5}) == (7, 7)


def test_a_time_behind_all_records_is_an_error_or_the_end() -> None:
    """At the beginning, as the option says; at the end, there is simply no more."""
    with pytest.raises(OptionsError, match=r"no record of t-1 is at or behind timestamp 9"):
        start(startingTimestamp=9)
    assert start(startingTimestamp=9, startingOffsetsByTimestampStrategy="latest") == (9, 8)
    assert end(endingTimestamp=9) == (9, 8)


@pytest.mark.parametrize(
    ("named", "text"), [({"0": 5}, "leaves out t-1"), ({"0": 5, "1": 5, "2": 5}, "names t-2")]
)
@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_every_partition_has_to_be_named(option: str, named: dict[str, int], text: str) -> None:
    """What is left out would be read from somewhere that nobody chose."""
    with pytest.raises(OptionsError, match=text):
        start(**{option: named})
