"""A job's query: each of its batches is reported, however far Spark is behind with telling."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines.jobs import quality, streaming
from barnabas_pipelines.jobs.progress_bar import BatchProgress
from barnabas_pipelines.jobs.settings import settings_of
from tests.pipelines.spark.recorded_report import RecordedReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class SlowReport(RecordedReport):
    """Takes a second for each batch, as a listener does that has to wait for a processor."""

    def batch(self, progress: BatchProgress) -> None:
        threading.Event().wait(1)
        super().batch(progress)


def test_batches_are_reported_although_their_events_come_long_after_the_end(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine 16 of 20 batches were reported: the last ones were not waited for."""
    monkeypatch.setattr(streaming, "_EVENT_WAIT_SECONDS_MAX", 5)
    count = 8
    folder = tmp_path / "records"
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.txt").write_text("one\ntwo\n")

    def read(batch: "DataFrame", _: int) -> None:
        batch.collect()

    frame = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    writer = frame.writeStream.foreachBatch(read)
    checkpoint = str(tmp_path / "checkpoint")
    given = {"bootstrap-servers": "nobody:1", "topic": "t", "checkpoint": checkpoint}
    settings = settings_of(quality.JOB.options, given)
    report = SlowReport("slow")
    streaming.run_query(writer, settings, spark, report, name="slow")
    reported = [line for line in report.lines if ": batch " in line]
    assert len(reported) == count, report.lines
