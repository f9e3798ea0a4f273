"""What a worker reads of one range, on a real broker; Spark has no part in it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_pipelines.datasource import loop_thread
from barnabas_pipelines.datasource.cluster_view import ClusterView, ReadSettings
from barnabas_pipelines.datasource.partition_read import read_range
from barnabas_pipelines.errors import (
    CorruptDataError,
    DataLossError,
    StalledError,
    TopicGoneError,
    UnreachableError,
)
from barnabas_pipelines.offsets import OffsetRange
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import Options, parse_options
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import stamp_crc
from barnabas_protocol.records.record import Record, encode_batch
from tests.client.consumer.raw_topic import raw_topic
from tests.pipelines.spark import records
from tests.pipelines.spark.reading import add_partitions
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

PROPERTIES = {"auto.create.topics.enable": "false"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    with BarnabasProcess(tmp_path_factory.mktemp("broker"), properties=PROPERTIES) as running:
        yield running
        loop_thread.close_all()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    with BarnabasProcess(tmp_path / "broker", properties=PROPERTIES) as running:
        yield running
        loop_thread.close_all()


def options(bootstrap: str, topic: str, **more: object) -> Options:
    given = {"bootstrapServers": bootstrap, "subscribe": topic}
    given |= {name.replace("__", "."): str(value) for name, value in more.items()}
    return parse_options(given, Use.BATCH_READ)


def fill(bootstrap: str, topic: str, count: int, size: int = 100) -> OffsetRange:
    """A new topic of one partition; the range of all its records."""
    records.create_topic(bootstrap, topic, 1, {})
    content = b"x" * (size - 8)
    records.produce(
        bootstrap, topic, [RecordToSend(value=b"%08d" % n + content) for n in range(count)]
    )
    return whole(bootstrap, topic)


def whole(bootstrap: str, topic: str) -> OffsetRange:
    view = ClusterView(options(bootstrap, topic)).log_view()
    end = view.ends.offsets[TopicPartition(topic, 0)]
    return OffsetRange(topic, 0, view.ends.topic_id(topic), 0, end)


def part(wanted: OffsetRange, start: int, end: int) -> OffsetRange:
    return OffsetRange(wanted.topic, wanted.partition, wanted.topic_id, start, end)


def read(wanted: OffsetRange, bootstrap: str, **more: object) -> list[int]:
    """The offsets that come; each value must be that of its offset."""
    found: list[int] = []
    for batch in read_range(wanted, ReadSettings.of(options(bootstrap, wanted.topic, **more))):
        found += batch.column("offset").to_pylist()
        values = batch.column("value").to_pylist()
        assert [int(value[:8]) for value in values] == found[-len(values) :]
    return found


def test_any_range_is_read_exactly(broker: BarnabasProcess) -> None:
    """From within a batch, to within a batch, with small answers and small Arrow batches."""
    everything = fill(broker.bootstrap, "exact", 5000)
    for start, end in ((0, 5000), (1, 4999), (2345, 2346), (4999, 5000), (700, 700)):
        expected = list(range(start, end))
        wanted = part(everything, start, end)
        assert read(wanted, broker.bootstrap) == expected
        small = {"arrowBatchRecords": 333, "kafka__max__partition__fetch__bytes": 20000}
        assert read(wanted, broker.bootstrap, **small) == expected


def test_a_consumer_is_kept_for_the_next_range(broker: BarnabasProcess) -> None:
    """Connecting for each of thousands of tasks would cost more than reading."""
    everything = fill(broker.bootstrap, "kept", 10)
    for _ in range(3):
        read(everything, broker.bootstrap, kafka__client__id="kept-reader")

    async def count() -> int:
        tasks = asyncio.all_tasks()
        return sum("refresher" in task.get_name() for task in tasks)

    before = loop_thread.loop_thread().run(count())
    for _ in range(5):
        read(everything, broker.bootstrap, kafka__client__id="kept-reader")
    assert loop_thread.loop_thread().run(count()) == before


def test_a_read_that_is_given_up_leaves_nothing_behind(broker: BarnabasProcess) -> None:
    """`limit` ends the iterator in the middle; the next read begins where it should."""
    everything = fill(broker.bootstrap, "given-up", 5000)
    settings = ReadSettings.of(options(broker.bootstrap, "given-up", arrowBatchRecords=10))
    reading = read_range(everything, settings)
    assert next(reading).num_rows == 10
    reading.close()  # type: ignore[attr-defined]
    assert read(part(everything, 100, 200), broker.bootstrap) == list(range(100, 200))


def test_two_reads_at_once_have_consumers_of_their_own(broker: BarnabasProcess) -> None:
    """A join reads two topics in one task."""
    everything = fill(broker.bootstrap, "twice", 100)
    settings = ReadSettings.of(options(broker.bootstrap, "twice", arrowBatchRecords=10))
    offsets = [
        (a.column("offset")[0].as_py(), b.column("offset")[0].as_py())
        for a, b in zip(
            read_range(everything, settings),
            read_range(part(everything, 50, 100), settings),
            strict=False,
        )
    ]
    assert offsets == [(0, 50), (10, 60), (20, 70), (30, 80), (40, 90)]


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_broker_that_restarts_in_the_middle_is_waited_for(
    own_broker: BarnabasProcess, is_killed: bool
) -> None:
    """Nothing lost, nothing doubled, no task that fails."""
    everything = fill(own_broker.bootstrap, "restart", 20_000, size=200)
    small = {"arrowBatchRecords": 500, "kafka__max__partition__fetch__bytes": 50_000}
    settings = ReadSettings.of(options(own_broker.bootstrap, "restart", **small))
    found: list[int] = []
    for number, batch in enumerate(read_range(everything, settings)):
        found += batch.column("offset").to_pylist()
        if number == 3:
            if is_killed:
                own_broker.kill()
            else:
                own_broker.stop()
            own_broker.start()
    assert found == list(range(20_000))


def test_a_broker_that_stays_away_is_told_after_the_timeout(own_broker: BarnabasProcess) -> None:
    """Spark repeats the task, and shows the text if that does not help."""
    everything = fill(own_broker.bootstrap, "away", 20_000, size=200)
    small = {"arrowBatchRecords": 500, "kafka__max__partition__fetch__bytes": 50_000}
    given = {**small, "kafkaConsumer__pollTimeoutMs": 2000}
    settings = ReadSettings.of(options(own_broker.bootstrap, "away", **given))
    reading = read_range(everything, settings)
    next(reading)
    own_broker.kill()
    with pytest.raises(StalledError, match=r"nothing has come from .* for 2 s"):
        list(reading)


def test_nobody_at_the_address_is_told(tmp_path: Path) -> None:
    """The first words name the brokers."""
    given = options("127.0.0.1:1", "any", kafka__default__api__timeout__ms=500)
    with pytest.raises(UnreachableError, match=r"^the brokers at 127.0.0.1:1 do not respond"):
        ClusterView(given).log_view()


def test_a_partition_that_is_newer_than_the_consumer_is_read(broker: BarnabasProcess) -> None:
    """The kept consumer knows the topic as it was minutes ago."""
    first = fill(broker.bootstrap, "grown", 10)
    read(first, broker.bootstrap)
    asyncio.run(add_partitions(broker.bootstrap, "grown", 2))
    records.produce(broker.bootstrap, "grown", [RecordToSend(value=b"%08d" % 0, partition=1)])
    assert read(OffsetRange("grown", 1, first.topic_id, 0, 1), broker.bootstrap) == [0]


class TestLoss:
    def test_records_deleted_meanwhile_are_counted(self, broker: BarnabasProcess) -> None:
        """Planned first, then retention came."""
        everything = fill(broker.bootstrap, "cut", 100)
        records.delete_records(broker.bootstrap, {("cut", 0): 40})
        expected = r"^40 records of 1 partitions are gone .* wanted from offset 0, the first there"
        with pytest.raises(DataLossError, match=expected):
            read(everything, broker.bootstrap)
        kept = read(everything, broker.bootstrap, failOnDataLoss="false")
        assert kept == list(range(40, 100))
        assert read(part(everything, 0, 30), broker.bootstrap, failOnDataLoss="false") == []

    def test_a_topic_made_anew_is_not_read_in_place_of_the_old_one(
        self, broker: BarnabasProcess
    ) -> None:
        """Its offsets begin anew, so that the same numbers are other records."""
        old = fill(broker.bootstrap, "anew", 100)
        assert read(old, broker.bootstrap) == list(range(100))
        records.delete_topic(broker.bootstrap, "anew")
        new = fill(broker.bootstrap, "anew", 150)
        reading = read_range(old, ReadSettings.of(options(broker.bootstrap, "anew")))
        with pytest.raises(DataLossError, match="made anew"):
            # The consumer still knows the old topic when it begins.
            next(reading)
        assert read(old, broker.bootstrap, failOnDataLoss="false") == []
        assert read(new, broker.bootstrap) == list(range(150))

    def test_a_topic_that_is_gone_is_told(self, broker: BarnabasProcess) -> None:
        """By its name, and what was to be read of it."""
        old = fill(broker.bootstrap, "gone", 10)
        records.delete_topic(broker.bootstrap, "gone")
        with pytest.raises(TopicGoneError, match="gone is not there any more"):
            read(old, broker.bootstrap, kafkaConsumer__pollTimeoutMs=1000)

    def test_an_end_that_the_log_does_not_have_is_told(self, broker: BarnabasProcess) -> None:
        """The log was cut behind a stream's offset: waiting would not help."""
        everything = fill(broker.bootstrap, "short", 100)
        beyond = part(everything, 0, 150)
        with pytest.raises(DataLossError, match="the log ends at 100 now"):
            read(beyond, broker.bootstrap)
        kept = read(beyond, broker.bootstrap, failOnDataLoss="false")
        assert kept == list(range(100))


def test_a_batch_that_is_stored_broken_is_told_with_its_offset(broker: BarnabasProcess) -> None:
    """What comes before it is handed out; a repetition would find it broken again."""

    async def append_broken() -> None:
        async with raw_topic(broker.bootstrap) as topics:
            await topics.client.wait_for_topic("broken", timeout_ms=10_000)
            record = Record(0, 1000, None, b"%08d" % 10)
            broken = bytearray(encode_batch([record]))
            broken[-1] = 2
            stamp_crc(broken, 0)
            await topics.append_batch(TopicPartition("broken", 0), bytes(broken))

    fill(broker.bootstrap, "broken", 10)
    asyncio.run(append_broken())
    everything = whole(broker.bootstrap, "broken")
    assert everything.end == 11
    found: list[int] = []
    with pytest.raises(CorruptDataError, match=r"broken-0 offsets 0 to 10 cannot be read"):
        for batch in read_range(everything, ReadSettings.of(options(broker.bootstrap, "broken"))):
            found += batch.column("offset").to_pylist()
    assert found == list(range(10))
