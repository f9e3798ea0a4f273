"""One Spark and one broker for all tests of pipelines that need them; starting Spark takes 7 s.

Without pyspark (`make test`) nothing here is collected; `make spark` runs it.
"""

import importlib.util
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_client import RecordMetadata
from tests.pipelines.spark import records
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["*"]

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    # Records have timestamps of the past.
    "log.retention.ms": "-1",
}
SPARK_CONF = {"spark.sql.shuffle.partitions": "2"}
#: Compiled once and quickly: JVMs that live for a minute never earn back what better code costs.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_topic_numbers = itertools.count()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The session of the whole run: two cores, with the connector, quiet."""
    from barnabas_pipelines.jars import fetch_jars
    from barnabas_pipelines.session import session

    fetch_jars()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)
    directory = tmp_path_factory.mktemp("spark")
    conf = {**SPARK_CONF, "spark.sql.warehouse.dir": str(directory / "warehouse")}
    started = session("tests", master="local[2]", with_tables=True, conf=conf, log_level="ERROR")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    """The broker that most tests share, each with topics of its own; it must end cleanly."""
    running = BarnabasProcess(tmp_path_factory.mktemp("broker"), properties=PROPERTIES)
    running.start()
    yield running
    assert running.process is not None
    assert running.process.is_running(), f"the broker died:\n{running.process.log_tail()}"
    assert running.stop() == 0, running.process.log_tail()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    """A broker for one test, which may stop, kill and start it."""
    running = BarnabasProcess(tmp_path / "broker", properties=PROPERTIES)
    running.start()
    yield running
    if running.process is not None and running.process.is_running():
        running.stop()


@pytest.fixture
def new_topic(broker: BarnabasProcess) -> Callable[..., str]:
    """Makes a topic on the shared broker: `new_topic(partitions=3, configs={...})`; its name."""

    def make(
        partitions: int = 1,
        *,
        name: str | None = None,
        configs: dict[str, str | None] | None = None,
    ) -> str:
        chosen = name or f"topic-{os.getpid()}-{next(_topic_numbers)}"
        records.create_topic(broker.bootstrap, chosen, partitions, configs or {})
        return chosen

    return make


@pytest.fixture
def produce(
    broker: BarnabasProcess,
) -> Callable[[str, Iterable[RecordToSend]], list[RecordMetadata]]:
    """Writes records to the shared broker."""
    return lambda topic, some: records.produce(broker.bootstrap, topic, some)
