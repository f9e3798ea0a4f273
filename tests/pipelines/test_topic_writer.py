"""Rows from the driver: one that was given up cannot write over those of a later run."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas_client import Consumer, TopicPartition
from barnabas_client.admin import Admin, NewTopic
from barnabas_pipelines.datasource import loop_thread
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.storage.file_store import LocalFiles
from tests.support.barnabas_process import BarnabasProcess

pa = pytest.importorskip("pyarrow")
writing = pytest.importorskip("barnabas_pipelines.aggregate.topic_writer")

from barnabas_pipelines.aggregate.writer_epochs import WriterEpochs  # noqa: E402

TOPIC = "totals"
KEYS = [b"%d" % number for number in range(8)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    """A broker with the topic, of two partitions."""

    async def create(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            new = NewTopic(name=TOPIC, partition_count=2, replication_factor=1)
            (await admin.topics.create([new])).unwrap()

    properties = {"auto.create.topics.enable": "false"}
    with BarnabasProcess(tmp_path_factory.mktemp("broker"), properties=properties) as running:
        asyncio.run(create(running.bootstrap))
        yield running
        loop_thread.close_all()


def newest(broker: BarnabasProcess) -> dict[bytes, bytes]:
    """The newest row of each key."""

    async def consume() -> dict[bytes, bytes]:
        found = {}
        async with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
            places = [TopicPartition(TOPIC, number) for number in range(2)]
            consumer.assign(places)
            left = sum((await consumer.end_offsets(places)).values())
            while left:
                for record in await consumer.poll():
                    found[record.key] = record.value
                    left -= 1
        return found

    return asyncio.run(asyncio.wait_for(consume(), 30))


def opened(broker: BarnabasProcess, checkpoint: Path) -> Any:
    epochs = WriterEpochs(LocalFiles(checkpoint), "aggregate")
    settings = {"bootstrap_servers": broker.bootstrap}
    return writing.open_writer(epochs, TOPIC, settings, ClusterFacts(broker.bootstrap, {}))


def rows(value: bytes, keys: list[bytes] = KEYS) -> list[Any]:
    return [pa.RecordBatch.from_pydict({"key": keys, "value": [value] * len(keys)})]


def test_a_run_that_was_given_up_writes_nothing_over_a_later_one(
    broker: BarnabasProcess, tmp_path: Path
) -> None:
    """A driver that was cut off holds rows of batch 4 when its replacement has written batch 5."""
    with opened(broker, tmp_path) as zombie:
        assert zombie.write(rows(b"batch 3 of the first")) == len(KEYS)
        with opened(broker, tmp_path) as later:
            later.write(rows(b"batch 4 of the second"))
            later.write(rows(b"batch 5 of the second"))
            with pytest.raises(writing.OvertakenError, match="another run has begun"):
                zombie.write(rows(b"batch 4 of the first"))
            assert newest(broker) == dict.fromkeys(KEYS, b"batch 5 of the second")
            later.write(rows(b"batch 6 of the second"))
    assert newest(broker) == dict.fromkeys(KEYS, b"batch 6 of the second")


def test_an_older_copy_of_a_checkpoint_is_told_and_writes_nothing_unseen(
    broker: BarnabasProcess, tmp_path: Path
) -> None:
    """Its producer epoch was used before: brokers would take its rows for repeated ones."""
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    with opened(broker, checkpoint) as first:
        first.write(rows(b"first"))
    shutil.copytree(checkpoint, copy)
    with opened(broker, checkpoint) as second:
        second.write(rows(b"second"))
    with (
        opened(broker, copy) as same_epoch,
        pytest.raises(writing.OvertakenError, match="older copy"),
    ):
        same_epoch.write(rows(b"lost"))
    with opened(broker, checkpoint) as third:
        third.write(rows(b"third"))
    shutil.rmtree(copy)
    shutil.copytree(checkpoint, copy)
    for _ in range(2):
        with opened(broker, checkpoint) as later:
            later.write(rows(b"later"))
    with opened(broker, copy) as lower, pytest.raises(writing.OvertakenError, match="older copy"):
        lower.write(rows(b"lower"))
    assert newest(broker) == dict.fromkeys(KEYS, b"later")
    shutil.rmtree(copy / "writers")
    with opened(broker, copy) as anew:
        anew.write(rows(b"anew"))
    assert newest(broker) == dict.fromkeys(KEYS, b"anew")


def test_two_copies_of_a_checkpoint_that_are_used_at_once_do_not_drop_rows_unseen(
    broker: BarnabasProcess, tmp_path: Path
) -> None:
    """Both are the same producer with the same numbers: rows of one look like repeated ones."""
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    with opened(broker, checkpoint):
        pass
    shutil.copytree(checkpoint, copy)
    with opened(broker, checkpoint) as one, opened(broker, copy) as other:
        one.write(rows(b"one"))
        with pytest.raises(writing.OvertakenError, match="older copy"):
            other.write(rows(b"other"))
    assert newest(broker) == dict.fromkeys(KEYS, b"one")
