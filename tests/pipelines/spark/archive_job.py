"""`archive` on the shared broker, for tests: records in, a table out, read without Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from barnabas_client import ConsumerRecord
from barnabas_pipelines.jobs import archive
from barnabas_pipelines.jobs.settings import settings_of
from tests.pipelines.spark import records
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON_MS = 1_767_268_800_000
"""2026-01-01 12:00 UTC."""
DAY_MS = 86_400_000
KEPT = {"retention.ms": "-1"}

Archived = tuple[
    str, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int
]


class ArchiveJob:
    """The job on one topic and folder; `run` runs it until all that is there has been read."""

    def __init__(self, spark: "SparkSession", bootstrap: str, path: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.path = path
        self.said: list[str] = []

    def run(self, *topics: str, **options: Any) -> None:
        """Run it with further options; what it said is in `said`."""
        given = {
            "bootstrap-servers": self.bootstrap,
            "topics": topics,
            "path": str(self.path),
            **options,
        }
        settings = settings_of(archive.JOB.options, given)
        archive.JOB.check(settings)
        archive.JOB.plan(settings)
        report = RecordedReport("archive")
        try:
            archive.JOB.run(settings, self.spark, report)
        finally:
            self.said = report.lines

    def table(self, version: int | None = None) -> DeltaTable:
        """The table, by a reader that knows nothing of Spark."""
        return DeltaTable(str(self.path), version=version)

    def files(self) -> list[Path]:
        """The data files of the newest version."""
        return [self.path / found for found in sorted(self.table().to_pyarrow_dataset().files)]

    def days(self) -> set[str]:
        """The days by which the table is partitioned."""
        return {found["dt"] for found in self.table().partitions()}

    def rows(self) -> list[Archived]:
        """All rows, by topic, partition and offset."""
        return archived_rows(self.path)


def archived_rows(path: Path) -> list[Archived]:
    """All rows of an archive, by topic, partition and offset, read without Spark."""
    columns = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((_row(one) for one in columns), key=lambda row: row[:3])


def _row(columns: dict[str, Any]) -> Archived:
    headers = tuple((one["key"], one["value"]) for one in columns["headers"] or ())
    return (
        columns["topic"],
        columns["partition"],
        columns["offset"],
        columns["key"],
        columns["value"],
        headers,
        round(columns["timestamp"].timestamp() * 1000),
    )


def expected(bootstrap: str, topic: str) -> list[Archived]:
    """What the topic has, as rows of an archive."""
    return [as_row(record) for record in records.consume(bootstrap, topic)]


def as_row(record: ConsumerRecord) -> Archived:
    """A record as an archive has it."""
    return (
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp_ms,
    )


def awkward_records(count: int, partition_count: int) -> list[RecordToSend]:
    """Keys, values and headers that are null, empty, doubled or no text; over three days."""
    keys = (b"key-%d", None, b"", b"\x00\xff%d")
    values = (b"value-%d", b"", None, bytes(range(256)))
    headers: tuple[list[tuple[str, bytes | None]], ...] = (
        [],
        [("a", b"1"), ("a", b"2"), ("a", None)],
        [("", b""), ("ü", b"\xff\x00")],
    )
    found = []
    for number in range(count):
        key, value = keys[number % 4], values[number // 4 % 4]
        found.append(
            RecordToSend(
                key=key % number if key and b"%d" in key else key,
                value=value % number if value and b"%d" in value and len(value) < 20 else value,
                partition=number % partition_count,
                timestamp_ms=NOON_MS + number * 7 + number % 3 * DAY_MS,
                headers=headers[number % 3],
            )
        )
    return found
