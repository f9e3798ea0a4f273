"""Spark reads what transactions have committed, by either way: batch, stream, and archive (TXN-6).

One topic has transactions that were committed, one that was aborted, and one that is open, with
records in front of it, in it and behind it on other partitions.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_client import Producer
from barnabas_pipelines.jobs import aggregate, quality
from barnabas_pipelines.jobs.settings import settings_of
from barnabas_pipelines.schema import ddl
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import ArchiveJob
from tests.pipelines.spark.reading import WAYS, read, rows
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.support.barnabas_process import BarnabasProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]
PARTITIONS = 2
COMMITTED = {"kafka__isolation__level": "read_committed"}


class Transactions:
    """A transactional producer whose transactions a test leaves open as long as it wants."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._runner = asyncio.Runner()
        self._producer = Producer(bootstrap, transactional_id=f"{topic}-writer")
        self._run(self._producer.start())
        self._run(self._producer.init_transactions())

    def begin(self, *values: str) -> None:
        """Open a transaction with these records on each partition, all of them acknowledged."""
        self._run(self._fill(values))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.close())
        self._runner.close()

    async def _fill(self, values: tuple[str, ...]) -> None:
        await self._producer.begin_transaction()
        for value in values:
            for partition in range(PARTITIONS):
                self._producer.send(self._topic, value, partition=partition)
        await self._producer.flush()

    def _run(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            await work

        self._runner.run(done())


@pytest.fixture(name="topic")
def a_topic(new_topic: NewTopic) -> str:
    return new_topic(partitions=PARTITIONS)


@pytest.fixture(name="open_transaction")
def an_open_transaction(broker: BarnabasProcess, topic: str) -> Any:
    """Committed, aborted, committed, and then one that is open."""
    writer = Transactions(broker.bootstrap, topic)
    for value, end in (("a", writer.commit), ("b", writer.abort), ("c", writer.commit)):
        writer.begin(f"{value}1", f"{value}2")
        end()
    writer.begin("d1", "d2")
    yield writer
    writer.close()


def each(*values: str) -> list[tuple[int, str]]:
    """These values on each partition."""
    return [(partition, value) for partition in range(PARTITIONS) for value in values]


def told(frame: "DataFrame") -> list[tuple[int, str]]:
    """Partition and value of all rows, in order."""
    return [(row.partition, bytes(row.value).decode()) for row in rows(frame)]


def written(spark: "SparkSession", folder: Path) -> list[tuple[int, str]]:
    """What a stream has put into its table, which has no file and so no schema at first."""
    schema = ddl(include_headers=False)
    return told(spark.read.schema(schema).parquet(str(folder / "table")))


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_has_what_was_committed(
    spark: "SparkSession",
    broker: BarnabasProcess,
    topic: str,
    open_transaction: Transactions,
    way: str,
) -> None:
    everything = each("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2")
    assert told(read(spark, way, broker.bootstrap, topic)) == everything
    committed = read(spark, way, broker.bootstrap, topic, **COMMITTED)
    assert told(committed) == each("a1", "a2", "c1", "c2")
    open_transaction.commit()
    later = read(spark, way, broker.bootstrap, topic, **COMMITTED)
    assert told(later) == each("a1", "a2", "c1", "c2", "d1", "d2")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_committed", [True, False])
def test_streams_that_end_by_themselves_go_on_behind_an_open_transaction(
    spark: "SparkSession",
    broker: BarnabasProcess,
    topic: str,
    open_transaction: Transactions,
    tmp_path: Path,
    way: str,
    is_committed: bool,
) -> None:
    """`AvailableNow` twice with one checkpoint: what was open is read when it has ended."""
    run_available_now(spark, broker.bootstrap, topic, tmp_path, way)
    assert written(spark, tmp_path) == each("a1", "a2", "c1", "c2")
    (open_transaction.commit if is_committed else open_transaction.abort)()
    open_transaction.begin("e1")
    open_transaction.commit()
    run_available_now(spark, broker.bootstrap, topic, tmp_path, way)
    last = ("d1", "d2", "e1") if is_committed else ("e1",)
    assert written(spark, tmp_path) == each("a1", "a2", "c1", "c2", *last)


def run_available_now(
    spark: "SparkSession", bootstrap: str, topic: str, folder: Path, way: str
) -> None:
    query = start(spark, bootstrap, topic, folder, way, availableNow=True)
    assert query.awaitTermination(90), "the query has not ended"


def start(
    spark: "SparkSession", bootstrap: str, topic: str, folder: Path, way: str, **trigger: Any
) -> Any:
    reader = spark.readStream.format(way).option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    reader = reader.option("kafka.isolation.level", "read_committed")
    writer = reader.load().writeStream.format("parquet").option("path", str(folder / "table"))
    return writer.option("checkpointLocation", str(folder / "log")).trigger(**trigger).start()


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_runs_reads_a_transaction_when_it_ends(
    spark: "SparkSession",
    broker: BarnabasProcess,
    topic: str,
    open_transaction: Transactions,
    tmp_path: Path,
    way: str,
) -> None:
    query = start(spark, broker.bootstrap, topic, tmp_path, way, processingTime="200 milliseconds")

    def has(*values: str) -> bool:
        assert query.exception() is None
        is_begun = (tmp_path / "table" / "_spark_metadata").exists()
        return is_begun and written(spark, tmp_path) == each(*values)

    try:
        wait_until(lambda: has("a1", "a2", "c1", "c2"), 60, lambda: str(query.lastProgress))
        open_transaction.commit()
        wait_until(
            lambda: has("a1", "a2", "c1", "c2", "d1", "d2"), 60, lambda: str(query.lastProgress)
        )
    finally:
        query.stop()


@pytest.mark.parametrize("via", ["connector", "python"])
def test_an_archive_has_what_was_committed(
    spark: "SparkSession",
    broker: BarnabasProcess,
    topic: str,
    open_transaction: Transactions,
    tmp_path: Path,
    via: str,
) -> None:
    """Without being asked to; the offsets of aborted records and of markers are no gaps."""
    job = ArchiveJob(spark, broker.bootstrap, tmp_path / "archive")
    options = {"via": via, "verify": True}
    job.run(topic, **options)
    assert [(row[1], row[4]) for row in job.rows()] == archived("a1", "a2", "c1", "c2")
    open_transaction.abort()
    open_transaction.begin("e1")
    open_transaction.commit()
    job.run(topic, **options)
    assert [(row[1], row[4]) for row in job.rows()] == archived("a1", "a2", "c1", "c2", "e1")


def test_an_archive_of_all_there_is_has_to_be_asked_for(
    spark: "SparkSession",
    broker: BarnabasProcess,
    topic: str,
    open_transaction: Transactions,
    tmp_path: Path,
) -> None:
    """By the source's own option, as other jobs."""
    job = ArchiveJob(spark, broker.bootstrap, tmp_path / "archive")
    job.run(topic, verify=True, **{"source-option": {"kafka.isolation.level": "read_uncommitted"}})
    everything = archived("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2")
    assert [(row[1], row[4]) for row in job.rows()] == everything


@pytest.mark.parametrize("via", ["connector", "python"])
def test_records_that_were_aborted_are_neither_counted_nor_judged(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path, via: str
) -> None:
    """A replay that was killed has aborted some, and sends them again."""
    topic = new_topic(partitions=PARTITIONS, configs={"retention.ms": "-1"})
    writer = Transactions(broker.bootstrap, topic)
    for end in (writer.abort, writer.commit):
        writer.begin("1", "2")
        end()
    writer.close()
    given = {
        "bootstrap-servers": broker.bootstrap,
        "topic": topic,
        "via": via,
        "value-format": "number",
    }
    totals = {
        "target": f"{topic}-totals",
        "create-target": True,
        "checkpoint": str(tmp_path / "aggregate"),
        "measures": "count, sum(value)",
        "state-partitions": 2,
    }
    report = RecordedReport("aggregate")
    aggregate.JOB.run(settings_of(aggregate.JOB.options, given | totals), spark, report)
    rows = [
        json.loads(one.value or b"") for one in records.consume(broker.bootstrap, totals["target"])
    ]
    assert sum(row["count"] for row in rows) == 4
    judged = {"checkpoint": str(tmp_path / "quality"), "report": str(tmp_path / "quality.json")}
    report = RecordedReport("quality")
    quality.JOB.run(settings_of(quality.JOB.options, given | judged), spark, report)
    assert json.loads((tmp_path / "quality.json").read_text())["records"] == 4


def archived(*values: str) -> list[tuple[int, bytes]]:
    return [(partition, value.encode()) for partition, value in each(*values)]
