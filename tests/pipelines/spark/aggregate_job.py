"""`aggregate` on one topic, for tests: records in, the compacted view of the target out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas_pipelines.jobs import aggregate
from barnabas_pipelines.jobs.settings import settings_of
from tests.pipelines.spark import records
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON_MS = 1_767_268_800_000
"""2026-01-01 12:00 UTC."""


class AggregateJob:
    """The job on one topic; `run` runs it until all that is there has been read.

    Its records are older than brokers keep them by default: the topic needs retention.ms=-1.
    """

    def __init__(self, spark: "SparkSession", bootstrap: str, directory: Path, topic: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.target = f"{self.topic}-totals"
        self.checkpoint = directory / "checkpoint"
        self.said: list[str] = []

    def run(self, **options: Any) -> None:
        """Run it with further options; what it said is in `said`."""
        settings = settings_of(aggregate.JOB.options, self.given(**options))
        aggregate.JOB.check(settings)
        report = RecordedReport("aggregate")
        try:
            aggregate.JOB.run(settings, self.spark, report)
        finally:
            self.said = report.lines

    def given(self, **options: Any) -> dict[str, Any]:
        """All options by name."""
        return {
            "bootstrap-servers": self.bootstrap,
            "topic": self.topic,
            "target": self.target,
            "create-target": True,
            "checkpoint": str(self.checkpoint),
            "group-by": "user",
            "measures": "count, sum(amount), p50(amount)",
            "state-partitions": 2,
        } | {name.replace("_", "-"): value for name, value in options.items()}

    def produce(self, *rows: tuple[float, Any]) -> None:
        """Write JSON values (or bytes), each so many seconds after noon."""
        records.produce(
            self.bootstrap,
            self.topic,
            [
                RecordToSend(
                    key=b"key-%d" % number,
                    value=value if isinstance(value, bytes) else json.dumps(value).encode(),
                    partition=number % 2,
                    timestamp_ms=NOON_MS + int(seconds * 1000),
                    headers=[("trace", b"%d" % number)],
                )
                for number, (seconds, value) in enumerate(rows)
            ],
        )

    def view(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """The newest row per key, as compaction leaves it, by time of day and user."""
        newest: dict[bytes, bytes] = {}
        for record in records.consume(self.bootstrap, self.target):
            assert record.key is not None and record.value is not None
            newest[record.key] = record.value
        rows = {}
        for key, value in newest.items():
            row = json.loads(value)
            assert json.loads(key) == {name: row[name] for name in ("window_start", "user")}
            rows[row["window_start"][11:19], row["user"]] = row
        return rows

    def counts(self) -> dict[tuple[str, str | None], tuple[int, float | None]]:
        """Count and sum of each row of the view."""
        return {key: (row["count"], row["sum_amount"]) for key, row in self.view().items()}
