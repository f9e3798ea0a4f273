"""What Spark says of offsets, in events and checkpoints, and what a group can be told of it."""

import json
from collections.abc import Mapping

import pytest

from barnabas_pipelines.offsets import StreamOffsets, offsets_of_checkpoint, offsets_of_sources
from barnabas_protocol.ids import TopicPartition

OWN = json.dumps(
    StreamOffsets(
        offsets={TopicPartition("orders", 0): 7, TopicPartition("orders", 3): 0},
        topic_ids={"orders": "qmRAZ0TmRe6v8JCq0FGZxA"},
    ).to_json()
)
CONNECTOR = '{"orders":{"0":7,"3":0}}'
EXPECTED = {TopicPartition("orders", 0): 7, TopicPartition("orders", 3): 0}


class Files:
    """A checkpoint that is a dictionary."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def names(self, path: str = "") -> tuple[str, ...]:
        return tuple(key.split("/")[1] for key in self.texts if key.startswith(f"{path}/"))

    def read(self, path: str) -> str | None:
        return self.texts.get(path)


@pytest.mark.parametrize("text", [OWN, CONNECTOR])
def test_both_sources_tell_the_same(text: str) -> None:
    """The group looks the same whichever way the topic is read."""
    assert offsets_of_sources([text]) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "None",
        "17",
        '{"logOffset":3}',
        '{"orders":{"0":"7"}}',
        '{"orders":{"0":-1}}',
        '{"orders":{"first":1}}',
        '{"form":2,"topics":{}}',
        "[1]",
        "{}",
    ],
)
def test_other_sources_are_passed_over(text: str | None) -> None:
    """A query may join a topic with files or rates, which have no group."""
    assert offsets_of_sources([text, CONNECTOR]) == EXPECTED


def test_a_partition_that_two_sources_read_is_done_as_far_as_both_are() -> None:
    """A self-join has two sources; never ahead means behind the slower one."""
    ahead = '{"orders":{"0":9},"other":{"0":2}}'
    assert offsets_of_sources([ahead, CONNECTOR]) == {**EXPECTED, TopicPartition("other", 0): 2}


def test_the_checkpoint_counts_as_far_as_it_is_committed() -> None:
    """Batch 10 was planned and not finished; 9 sorts behind 10 as text."""
    texts = {
        "commits/9": "v1\n{}",
        "commits/8": "v1\n{}",
        "commits/.9.crc": "",
        "offsets/9": f'v1\n{{"batchWatermarkMs":0}}\n-\n{CONNECTOR}\n{{"logOffset":3}}',
        "offsets/10": 'v1\n{}\n{"orders":{"0":70}}',
    }
    assert offsets_of_checkpoint(Files(texts)) == EXPECTED


def test_a_checkpoint_without_a_finished_batch_says_nothing() -> None:
    """Nor does one of a form that is not known: a guess could be ahead."""
    assert offsets_of_checkpoint(Files({})) == {}
    assert offsets_of_checkpoint(Files({"offsets/0": f"v1\n{{}}\n{CONNECTOR}"})) == {}
    unknown = {"commits/0": "v1\n{}", "offsets/0": f"v9\n{{}}\n{CONNECTOR}"}
    assert offsets_of_checkpoint(Files(unknown)) == {}
