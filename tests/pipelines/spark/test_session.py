"""What a session is configured with, and what is said where it cannot be had."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from barnabas_pipelines import session
from barnabas_pipelines.jars import find_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_WITHOUT_JARS = """
from barnabas_pipelines import session
from barnabas_pipelines.jars import JarsMissingError
conf = {"spark.sql.session.timeZone": "Europe/Prague"}
spark = session("plain", master="local[1]", with_connector=False, conf=conf, log_level="OFF")
print(spark.conf.get("spark.sql.session.timeZone"))
print(spark.dataSource is not None)
try:
    session("again")
except JarsMissingError as error:
    print(error)
spark.stop()
"""

_SUBMITTED = """
from barnabas_pipelines import session
spark = session("job", conf={"spark.sql.shuffle.partitions": "3"}, log_level="OFF")
print(spark.conf.get("spark.sql.session.timeZone"))
print(spark.conf.get("spark.sql.shuffle.partitions"))
print(spark.sparkContext.master)
spark.stop()
"""


def test_times_are_in_utc_and_nothing_listens_for_others(spark: "SparkSession") -> None:
    """Rows mean the same on every machine; a laptop's session opens no port to its network."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    context = spark.sparkContext
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"
    assert context.pythonExec == sys.executable


def test_both_sources_are_known(spark: "SparkSession") -> None:
    """The connector by its jars, ours by being registered; none reads without being told what."""
    for name in ("kafka", "barnabas"):
        with pytest.raises(Exception, match=r"subscribe|bootstrap"):
            spark.read.format(name).load().collect()


def test_a_session_changes_nothing_that_another_thread_goes_through(spark: "SparkSession") -> None:
    """Two jobs in one process: one sent a task while the other asked for the session."""
    environment = iter(spark.sparkContext.environment)
    next(environment)
    before = dict(spark.sparkContext.environment)
    session("another")
    assert spark.sparkContext.environment == before
    assert list(environment) == list(before)[1:]


def test_a_second_call_gives_the_running_session(spark: "SparkSession") -> None:
    """A job that is called from a notebook uses the notebook's."""
    again = session("other", conf={"spark.sql.shuffle.partitions": "2"}, log_level="ERROR")
    assert again.sparkContext is spark.sparkContext


def test_without_jars_there_is_a_session_and_a_clear_word_about_the_connector() -> None:
    """The jars of a running JVM cannot be added to; conf wins over what the session says."""
    command = [sys.executable, "-c", _WITHOUT_JARS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    zone, has_sources, said = done.stdout.splitlines()
    assert (zone, has_sources) == ("Europe/Prague", "True")
    assert "was started without the Kafka connector" in said
    assert "--jars" in said
    assert 'via="python"' in said


def test_a_job_of_spark_submit_keeps_what_the_command_line_says(tmp_path: Path) -> None:
    """Settings on the command line win over what the session chooses, not over `conf`."""
    script = tmp_path / "job.py"
    script.write_text(_SUBMITTED)
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", "spark.sql.session.timeZone=Asia/Tokyo"]
    command += ["--jars", ",".join(map(str, find_jars())), str(script)]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["Asia/Tokyo", "3", "local[1]"]
