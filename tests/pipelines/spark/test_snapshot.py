"""`snapshot` through a real broker: the table is what a dictionary says that read the topic."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from barnabas_client.env import SystemClock
from barnabas_pipelines.errors import DataLossError, PipelineError
from barnabas_pipelines.jobs import snapshot
from barnabas_pipelines.jobs.settings import settings_of
from barnabas_pipelines.snapshot.ranges import TombstonesLostError, TopicChangedError
from barnabas_pipelines.tables.marks import TableChangedError
from barnabas_pipelines.tables.table import SecondWriterError, Table
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import ArchiveJob
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NewTopic = Callable[..., str]
Change = tuple[str, str | None]
COMPACTED: dict[str, str | None] = {"cleanup.policy": "compact"}


class ShiftedClock:
    """The machine's clock, so many milliseconds later."""

    def __init__(self, shift_ms: int) -> None:
        self._shift_ms = shift_ms

    def monotonic_ms(self) -> int:
        return SystemClock().monotonic_ms()

    def wall_ms(self) -> int:
        return SystemClock().wall_ms() + self._shift_ms


class Killed(BaseException):
    """The process is gone: nothing catches it."""


class MortalTable:
    """A table whose writer dies at its commit, before it or after it."""

    def __init__(self, table: Table, *, is_after: bool) -> None:
        self._table = table
        self._is_after = is_after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)
        return self._mortal(method) if name in ("append", "overwrite", "merge") else method

    def _mortal(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def commit(*arguments: Any) -> None:
            if self._is_after:
                method(*arguments)
            raise Killed

        return commit


class Job:
    """The job on one topic, and the dictionary that its table must be."""

    def __init__(
        self, spark: "SparkSession", bootstrap: str, directory: Path, topic: str, partitions: int
    ) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.path = directory / "table"
        self.wanted: dict[str, str] = {}
        self.said: list[str] = []

    def run(
        self, *, wrap: Callable[[Table], Any] | None = None, clock: Any = None, **options: Any
    ) -> None:
        """Run it with further options; what it said is in `said`."""
        given = {"bootstrap-servers": self.bootstrap, "topic": self.topic, "table": str(self.path)}
        given |= {name.replace("_", "-"): value for name, value in options.items()}
        settings = settings_of(snapshot.OPTIONS, given)
        snapshot.check(settings)
        report = RecordedReport("snapshot")
        table = snapshot.table_of(settings, self.spark)
        if wrap is not None:
            table = wrap(table)
        try:
            snapshot.take_snapshot(settings, self.spark, report, table, clock or SystemClock())
        finally:
            self.said = report.lines

    def produce(self, *changes: Change, partition: int | None = None) -> None:
        """Write keys and values, each key to its partition, and remember what they mean."""
        sent = [
            RecordToSend(
                key=key.encode(),
                value=None if value is None else value.encode(),
                partition=partition
                if partition is not None
                else sum(key.encode()) % self.partitions,
            )
            for key, value in changes
        ]
        records.produce(self.bootstrap, self.topic, sent)
        for key, value in changes:
            self.wanted.pop(key, None)
            if value is not None:
                self.wanted[key] = value

    def table(self) -> dict[str, str]:
        """What a reader finds now, without Spark; each key once."""
        rows = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        found = {row["key"].decode(): row["value"].decode() for row in rows}
        assert len(found) == len(rows)
        return found

    def version(self) -> int:
        """The newest version of the table."""
        return int(DeltaTable(str(self.path)).version())

    def frame(self) -> Any:
        """The table as Spark reads it."""
        return self.spark.read.format("delta").load(str(self.path))


@pytest.fixture
def job(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic) -> Job:
    """A job on a new compacted topic of the shared broker."""
    topic = new_topic(partitions=3, configs=COMPACTED)
    return Job(spark, broker.bootstrap, tmp_path, topic, 3)


@pytest.mark.parametrize("via", ["connector", "python"])
def test_each_run_brings_the_table_up_to_date(job: Job, via: str) -> None:
    """Replaced, added, deleted, deleted and made again: in one run or in several."""
    job.run(via=via)
    assert job.table() == {}, "an empty topic is an empty table"
    job.produce(*((f"key-{number}", "first") for number in range(20)))
    job.run(via=via)
    assert job.table() == job.wanted
    job.produce(("key-1", None), ("key-2", "second"), ("key-3", None), ("key-3", ""), ("new", "1"))
    job.run(via=via)
    assert job.table() == job.wanted
    assert "version 2: 20 rows, 5 records read, 1 keys deleted" in job.said[-1], job.said
    job.run(via=via)
    assert "nothing new" in job.said[-1]
    assert job.table() == job.wanted
    job.run(via=via, rebuild=True)
    assert job.table() == job.wanted


def test_killed_anywhere_the_table_is_whole_and_goes_on(job: Job) -> None:
    """Before and after its one commit; every run meets what the dead one has left."""
    job.produce(*((f"key-{number}", "first") for number in range(10)))
    job.run()
    for number, is_after in enumerate((False, True)):
        before = dict(job.wanted)
        job.produce((f"key-{number}", None if number % 3 else f"at {number}"))
        with pytest.raises(Killed):
            job.run(wrap=lambda table, after=is_after: MortalTable(table, is_after=after))
        assert job.table() == (job.wanted if is_after else before)
    job.run()
    assert job.table() == job.wanted


def test_of_two_runs_at_once_one_is_refused(job: Job) -> None:
    """The second comes in when the first has read; the table is that of the second, whole."""
    job.produce(*((f"key-{number}", "first") for number in range(10)))
    job.run()

    class Overtaken:
        """A table that another run commits to before this one does."""

        def __init__(self, table: Table) -> None:
            self._table = table

        def __getattr__(self, name: str) -> Any:
            return getattr(self._table, name)

        def merge(self, *arguments: Any) -> None:
            job.run()
            self._table.merge(*arguments)

    job.produce(("key-1", None), ("key-2", "second"))
    with pytest.raises(SecondWriterError, match="another job has written"):
        job.run(wrap=Overtaken)
    assert job.table() == job.wanted
    job.run()
    assert "nothing new" in job.said[-1]


def test_a_topic_that_was_made_again_is_an_error_until_rebuilt(job: Job) -> None:
    """Its offsets mean other records; the table stays as it was until somebody decides."""
    job.produce(("a", "old"), ("b", "old"))
    job.run()
    before = job.table()
    records.delete_topic(job.bootstrap, job.topic)
    with pytest.raises(PipelineError, match=job.topic):
        job.run()
    records.create_topic(job.bootstrap, job.topic, 3, COMPACTED)
    job.wanted.clear()
    job.produce(("a", "new"), ("c", "new"), ("d", "new"), ("e", "new"))
    with pytest.raises(TopicChangedError, match="--rebuild"):
        job.run()
    assert job.table() == before
    job.run(rebuild=True)
    assert job.table() == job.wanted


@pytest.mark.parametrize("rebuild", [False, True])
def test_an_archive_is_not_written_over(job: Job, rebuild: bool) -> None:
    """A slip in --table must not put latest values in place of all records, not by --rebuild."""
    job.produce(("a", "1"), ("a", "2"))
    archived = ArchiveJob(job.spark, job.bootstrap, job.path)
    archived.run(job.topic)
    with pytest.raises(TableChangedError, match="the job archive made it"):
        job.run(rebuild=rebuild)
    assert len(archived.rows()) == 2
    assert job.version() == 0


def test_lost_offsets_are_an_error_until_rebuilt(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic
) -> None:
    """Retention passed the last version: nobody knows what became of the keys in between."""
    topic = new_topic(partitions=3, configs={"cleanup.policy": "compact,delete"})
    job = Job(spark, broker.bootstrap, tmp_path, topic, 3)
    job.produce(("a", "1"), ("d", "1"))
    job.run()
    job.produce(("a", "2"), ("a", "3"), ("a", "4"))
    partition = sum(b"a") % 3
    records.delete_records(job.bootstrap, {(job.topic, partition): 4})
    with pytest.raises(DataLossError, match=rf"partition {partition}.*offsets are gone"):
        job.run()
    assert job.table() == {"a": "1", "d": "1"}
    job.run(rebuild=True)
    assert job.table()["a"] == "4"


def test_a_run_that_comes_after_the_tombstones_is_an_error(job: Job) -> None:
    """Compaction may have removed the trace of a deletion; a table would keep the key for ever."""
    job.produce(("a", "1"))
    job.run()
    day = ShiftedClock(86_400_000)
    with pytest.raises(TombstonesLostError, match=r"delete\.retention\.ms"):
        job.run(clock=day)
    job.run(clock=day, rebuild=True)
    assert job.table() == {"a": "1"}


def test_runs_without_news_keep_the_table_fit_to_go_on(job: Job) -> None:
    """A quiet topic is complete up to now, not up to its last record."""
    job.produce(("a", "1"))
    job.run()
    for hours in (20, 40):
        job.run(clock=ShiftedClock(hours * 3_600_000))
    assert "nothing new" in job.said[-1]


def test_json_fields_are_decoded_anew_when_they_change(job: Job) -> None:
    """The bytes are kept: another schema needs no reading of the topic."""
    job.produce(("a", '{"name": "Ann", "age": 3}'), ("b", '{"age": "four"}'))
    with pytest.raises(PipelineError, match=r"undecodable record: partition \d, offset \d"):
        job.run(value_format="json", fields="age INT")
    job.run(value_format="json", fields="age INT", undecodable="keep", key_format="text")
    read = job.frame()
    rows = {row.key_text: row for row in read.collect()}
    assert rows["a"].fields.age == 3
    assert rows["b"].fields is None
    assert "type" in rows["b"].undecodable_reason
    assert "1 rows undecodable" in job.said[-1]
    job.run(value_format="json", fields="name STRING, age STRING")
    read = job.frame()
    fields = {bytes(row.key): row.fields.asDict() for row in read.collect()}
    assert fields == {
        b"a": {"name": "Ann", "age": "3"},
        b"b": {"name": None, "age": "four"},
    }
    assert job.table() == job.wanted


def test_headers_are_kept_where_they_are_wanted(job: Job) -> None:
    """They are part of the record; adding them later needs the topic again."""
    sent = RecordToSend(key=b"a", value=b"1", headers=[("trace", b"x"), ("none", None)])
    records.produce(job.bootstrap, job.topic, [sent])
    job.run(include_headers=True)
    job.produce(("b", "2"))
    job.run(include_headers=True)
    rows = job.frame().collect()
    headers = {bytes(row.key): row.headers for row in rows}
    assert [tuple(one) for one in headers[b"a"]] == [("trace", bytearray(b"x")), ("none", None)]
    with pytest.raises(PipelineError, match="--rebuild"):
        job.run()


def test_a_key_that_moved_is_counted_and_its_newest_record_wins(job: Job) -> None:
    """Partitions were added: what is read later was written later."""
    job.produce(("a", "before"), partition=0)
    job.run()
    job.produce(("a", "after"), partition=2)
    job.run()
    assert job.table() == {"a": "after"}
    assert "1 keys found in more than one partition" in job.said[-1]
    job.produce(("a", None), partition=1)
    job.run()
    assert job.table() == {}


def test_records_without_a_key_fail_or_are_counted(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic
) -> None:
    """Compacted topics take none, but a topic may have become compacted later."""
    job = Job(spark, broker.bootstrap, tmp_path, new_topic(partitions=1), 1)
    records.produce(job.bootstrap, job.topic, [RecordToSend(value=b"x")])
    job.produce(("a", "1"))
    with pytest.raises(PipelineError, match=r"record without a key: .*partition 0, offset 0"):
        job.run()
    job.run(keyless="count-and-skip")
    assert job.table() == {"a": "1"}
    assert "1 records without a key left out" in job.said[-1]
