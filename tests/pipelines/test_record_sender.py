"""Rows from a plain thread to a broker: order, counts, what is kept and what is given up."""

import asyncio
from collections.abc import Iterator

import pytest

from barnabas_client import Consumer, ConsumerRecord, TopicPartition
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.producer import Producer
from barnabas_pipelines.datasource import loop_thread
from barnabas_pipelines.datasource.record_sender import RecordSender, record_sender
from barnabas_pipelines.errors import ColumnsError, DeliveryError, UnreachableError
from tests.support.barnabas_process import BarnabasProcess

pa = pytest.importorskip("pyarrow")

TOPIC = "orders"
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    properties = {"auto.create.topics.enable": "false"}
    with BarnabasProcess(tmp_path_factory.mktemp("broker"), properties=properties) as running:
        yield running


@pytest.fixture
def topic(broker: BarnabasProcess) -> Iterator[str]:
    async def change(*, is_wanted: bool) -> None:
        async with Admin(broker.bootstrap) as admin:
            new = NewTopic(name=TOPIC, partition_count=PARTITIONS, replication_factor=1)
            if is_wanted:
                (await admin.topics.create([new])).unwrap()
            else:
                (await admin.topics.delete([TOPIC])).unwrap()

    asyncio.run(change(is_wanted=True))
    yield TOPIC
    loop_thread.close_all()
    asyncio.run(change(is_wanted=False))


def read(broker: BarnabasProcess) -> dict[int, list[ConsumerRecord]]:
    """All records by partition."""

    async def consume() -> dict[int, list[ConsumerRecord]]:
        found: dict[int, list[ConsumerRecord]] = {number: [] for number in range(PARTITIONS)}
        async with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
            places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            consumer.assign(places)
            left = sum((await consumer.end_offsets(places)).values())
            while left:
                for record in await consumer.poll():
                    found[record.partition].append(record)
                    left -= 1
        return found

    return asyncio.run(asyncio.wait_for(consume(), 30))


def settings(broker: BarnabasProcess, **more: object) -> dict[str, object]:
    return {"bootstrap_servers": broker.bootstrap, **more}


def test_batches_that_wait_for_room_are_not_overtaken(broker: BarnabasProcess, topic: str) -> None:
    """Two batches are under way; the first one waits while its rows find no room in the buffer."""
    batch_count, row_count = 8, 3_000
    with record_sender(settings(broker, buffer_memory=60_000, batch_size=8_000), topic) as sender:
        for index in range(batch_count):
            numbers = range(index * row_count, (index + 1) * row_count)
            values = [b"%08d" % number for number in numbers]
            keys = [b"%d" % (number % 10) for number in numbers]
            sender.send(pa.RecordBatch.from_pydict({"key": keys, "value": values}))
        assert sender.finish() == batch_count * row_count
    by_partition = {
        number: [record.value for record in records] for number, records in read(broker).items()
    }
    assert all(values and values == sorted(values) for values in by_partition.values())
    assert sum(map(len, by_partition.values())) == batch_count * row_count


def test_a_producer_is_kept_for_the_next_task_unless_it_failed(
    broker: BarnabasProcess, topic: str
) -> None:
    """Connecting anew for every micro-batch costs more than a small one takes."""
    row = pa.RecordBatch.from_pydict({"value": ["v"]})
    seen: list[Producer] = []

    def write(topic: str | None) -> int:
        with record_sender(settings(broker, max_block_ms=500), topic) as sender:
            seen.append(producer_of(sender))
            sender.send(row)
            return sender.finish()

    assert [write(topic), write(topic)] == [1, 1]
    with pytest.raises(DeliveryError, match=r"is-not-there.*does not exist"):
        write("is-not-there")
    assert write(topic) == 1
    assert seen[0] is seen[1] is seen[2]
    assert seen[3] is not seen[2]


def producer_of(sender: RecordSender) -> Producer:
    return sender._producer


def test_rows_of_a_batch_that_cannot_be_written_fail_the_task(
    broker: BarnabasProcess, topic: str
) -> None:
    """The row before them is on its way, and that it may arrive is said by the sink's promise."""
    bad = pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": [topic, None]})
    with (
        pytest.raises(ColumnsError, match="null topic"),
        record_sender(settings(broker), None) as s,
    ):
        s.send(bad)
        s.finish()


def test_an_error_of_the_caller_gives_up_what_is_under_way(
    broker: BarnabasProcess, topic: str
) -> None:
    """Spark has ended the task: what waits for room must not keep the worker from the next one."""
    rows = pa.RecordBatch.from_pydict({"value": ["v" * 100] * 10_000})
    with (
        pytest.raises(RuntimeError, match="cancelled"),
        record_sender(settings(broker, buffer_memory=50_000, batch_size=5_000), topic) as sender,
    ):
        sender.send(rows)
        sender.send(rows)
        raise RuntimeError("cancelled")
    with record_sender(settings(broker), topic) as sender:
        sender.send(rows)
        assert sender.finish() == 10_000


def test_brokers_that_do_not_answer_are_named() -> None:
    """The address is what is wrong most often."""
    nobody = {
        "bootstrap_servers": "127.0.0.1:1",
        "default_api_timeout_ms": 300,
        "request_timeout_ms": 300,
    }
    with (
        pytest.raises(UnreachableError, match=r"no broker of 127\.0\.0\.1:1 responds"),
        record_sender(nobody, TOPIC),
    ):
        pass
    loop_thread.close_all()
