"""Jobs as programs: by `spark-submit`, and stopped by a signal."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines.jars import fetch_jars
from barnabas_pipelines.jobs import archive
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import KEPT, ArchiveJob, awkward_records, expected
from tests.pipelines.spark.kill_rounds import Driver
from tests.support.barnabas_process import BarnabasProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def spark_submit(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a job's file the way a cluster does."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations
    home = Path(spec.submodule_search_locations[0])
    return subprocess.run(
        [str(home / "bin" / "spark-submit"), "--master", "local[2]", *arguments],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(name="job")
def a_job(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path) -> ArchiveJob:
    """An archive, to be read; the processes here have sessions of their own."""
    return ArchiveJob(spark, broker.bootstrap, tmp_path / "archive")


def arguments_of(job: ArchiveJob, topic: str) -> list[str]:
    """What every run here is given."""
    return ["--bootstrap-servers", job.bootstrap, "--topics", topic, "--path", str(job.path)]


def test_spark_submit_runs_a_job_by_the_path_of_its_module(
    job: ArchiveJob, new_topic: Callable[..., str]
) -> None:
    """Jars and master are then spark-submit's, and the job takes the session that it gets."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(20, 2))
    jars = ",".join(map(str, fetch_jars()))
    assert archive.__file__ is not None
    done = spark_submit("--jars", jars, archive.__file__, *arguments_of(job, topic))
    assert done.returncode == 0, done.stderr
    assert "archive: done: 20 records archived" in done.stdout  # spark-submit's doing
    assert job.rows() == expected(job.bootstrap, topic)


def test_sigterm_ends_a_job_in_order(job: ArchiveJob, new_topic: Callable[..., str]) -> None:
    """Kubernetes sends it; the next run goes on."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(20, 2))
    more = ["--trigger", "1s", "--master", "local[2]"]
    driver = Driver("archive", [*arguments_of(job, topic), *more], job.path.with_name("log"))
    try:
        wait_until(lambda: driver.line_count() > 0, 300, driver.output)
        driver.process.terminate()
        assert driver.wait() == 1, driver.output()
    finally:
        driver.kill()
    # Threads of Spark may log something behind it, about what was going on.
    told = [line for line in driver.output().splitlines() if line.startswith("archive: ")]
    assert told[-1] == "archive: stopped; the next run goes on from where this one was"
    records.produce(job.bootstrap, topic, awkward_records(20, 2))
    job.run(topic)
    assert job.rows() == expected(job.bootstrap, topic)
