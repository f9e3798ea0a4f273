"""Where a first batch begins when it is planned again, by what the checkpoint keeps of it."""

import json
from typing import Any

import pytest

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.offsets import StreamOffsets, end_json, initial_json, start_of_batch
from barnabas_protocol.ids import TopicPartition


def at(offset: int, topic_id: str = "id-1") -> StreamOffsets:
    return StreamOffsets(
        offsets={TopicPartition("orders", 0): offset}, topic_ids={"orders": topic_id}
    )


def kept(offsets: dict[str, Any]) -> dict[str, Any]:
    """What Spark gives back of them."""
    value: dict[str, Any] = json.loads(json.dumps(offsets))
    return value


def test_a_first_batch_begins_where_it_did() -> None:
    """Though latest, or what retention has left, is another offset after the restart."""
    end = kept(end_json(kept(initial_json(at(5))), at(9)))
    assert start_of_batch(initial_json(at(5)), end) == at(5)
    assert start_of_batch(initial_json(at(12)), end) == at(5)
    assert start_of_batch(initial_json(at(0, "id-2")), end) == at(5)


def test_later_batches_begin_where_the_one_before_ended() -> None:
    """And do not carry the start along."""
    first = kept(end_json(initial_json(at(5)), at(9)))
    second = kept(end_json(first, at(20)))
    assert second == at(20).to_json()
    assert start_of_batch(first, second) == at(9)
    assert start_of_batch(second, end_json(second, at(21))) == at(20)


def test_an_empty_first_batch_is_one_too() -> None:
    """Spark makes it at once where nothing is there; the next batch begins behind it."""
    initial = kept(initial_json(at(5)))
    empty = kept(end_json(initial, at(5)))
    assert start_of_batch(initial_json(at(7)), empty) == at(5)
    second = kept(end_json(empty, at(8)))
    assert start_of_batch(empty, second) == at(5)


def test_with_nothing_new_the_text_is_the_same() -> None:
    """Another text would be a batch of nothing, again and again."""
    initial = kept(initial_json(at(5)))
    first = kept(end_json(initial, at(9)))
    for start in (initial, first, kept(end_json(first, at(20)))):
        same = end_json(start, StreamOffsets.from_json(start))
        assert json.dumps(same) == json.dumps(start)


def test_a_first_batch_without_its_start_is_an_error() -> None:
    """A guess would skip records or read them twice."""
    with pytest.raises(PipelineError, match="where its first batch began"):
        start_of_batch(initial_json(at(5)), at(9).to_json())
    with pytest.raises(PipelineError, match="where its first batch began"):
        start_of_batch(initial_json(at(9)), at(9).to_json())


def test_offsets_of_another_source_are_refused() -> None:
    """As they are in any other batch."""
    with pytest.raises(PipelineError, match="started with another source"):
        start_of_batch({"orders": {"0": 3}}, {"orders": {"0": 5}})
