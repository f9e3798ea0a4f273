"""What the benchmarks of pipelines share: two brokers, one Spark, turns, and who used how much CPU.

Apache Kafka and Barnabas both run, with the same records, while Spark reads or writes one of
them; the other one is idle. Each way takes its turn in every round, so that a busy minute of the
machine hits all of them. A first round warms up Spark's compiler and the brokers' caches; it does
not count.

CPU of Spark is that of this process and of all it has started (the JVM and its Python workers) but
for the brokers, whose own CPU is told apart.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from barnabas_client import Producer
from barnabas_client.admin import Admin, NewTopic
from barnabas_pipelines.jars import fetch_jars
from barnabas_pipelines.session import session
from benchmarks.quiet import OthersLoad, wait_until_idle
from benchmarks.report import RESULTS, machine
from tests.support.apache_kafka import DEFAULT_VERSION, ApacheKafka
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Broker = ApacheKafka | BarnabasProcess
BASELINE = "connector, Apache Kafka"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SEND_COUNT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of those that are compared."""

    name: str
    via: str
    broker: Broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Medians of one way at one question; the rate is that of the time behind the start."""

    question: str
    way: str
    records_per_second: float
    start_seconds: float
    spark_cpu_seconds: float
    broker_cpu_seconds: float
    others_share: float


class SparkTrial:
    """Both brokers and Spark, running."""

    def __init__(self, spark: SparkSession, ways: Sequence[Way], options: argparse.Namespace):
        self.spark = spark
        self.ways = ways
        self.options = options
        self.figures: list[Figures] = []

    @property
    def brokers(self) -> list[Broker]:
        """Each once."""
        return list({way.broker.name: way.broker for way in self.ways}.values())

    def compare(self, question: str, record_count: int, run: Callable[[Way], float]) -> None:
        """Let every way do the same in turns, and keep the medians.

        `run` returns the seconds that were not spent on records: processes that started, plans.
        """
        runs: dict[str, list[tuple[float, ...]]] = {way.name: [] for way in self.ways}
        for number in range(self.options.repeat + 1):
            for way in self.ways:
                wait_until_idle(self.options.patience)
                measured = self._measure(way, run)
                if number:
                    runs[way.name].append(measured)
        for way in self.ways:
            seconds, start, spark_cpu, broker_cpu, others = zip(*runs[way.name], strict=True)
            found = Figures(
                question=question,
                way=way.name,
                records_per_second=record_count / median(seconds),
                start_seconds=median(start),
                spark_cpu_seconds=median(spark_cpu),
                broker_cpu_seconds=median(broker_cpu),
                others_share=max(others),
            )
            self.figures.append(found)
            print(row(found, self._baseline(question)), flush=True)

    def _measure(self, way: Way, run: Callable[[Way], float]) -> tuple[float, ...]:
        others = OthersLoad()
        idle = sum(broker.cpu_seconds() for broker in self.brokers)
        spark_cpu, broker_cpu = self._spark_cpu_seconds(), way.broker.cpu_seconds()
        began = time.monotonic()
        start = run(way)
        seconds = time.monotonic() - began - start
        spark_cpu = self._spark_cpu_seconds() - spark_cpu
        broker_cpu = way.broker.cpu_seconds() - broker_cpu
        all_brokers = sum(broker.cpu_seconds() for broker in self.brokers) - idle
        return seconds, start, spark_cpu, broker_cpu, others.share(spark_cpu + all_brokers)

    def _spark_cpu_seconds(self) -> float:
        return cpu_seconds_of_tree(os.getpid(), {broker.pid for broker in self.brokers})

    def _baseline(self, question: str) -> Figures | None:
        of_question = (each for each in self.figures if each.question == question)
        return next((each for each in of_question if each.way == BASELINE), None)

    def table(self) -> str:
        """All figures as a Markdown table."""
        lines = [row(each, self._baseline(each.question)) for each in self.figures]
        head = ("Question", "Way", "Records/s", "Ratio", "Start [s]", "Spark CPU [s]", "Ratio")
        marks = ["---", "---", *["---:"] * 7]
        return "\n".join([line([*head, "Broker CPU [s]", "Others"]), line(marks), *lines])


def row(found: Figures, baseline: Figures | None) -> str:
    """A line of the table."""
    base = baseline or found
    return line(
        [
            found.question,
            found.way,
            f"{found.records_per_second:,.0f}",
            f"{found.records_per_second / base.records_per_second:.2f}",
            f"{found.start_seconds:.2f}",
            f"{found.spark_cpu_seconds:.2f}",
            f"{found.spark_cpu_seconds / base.spark_cpu_seconds:.2f}",
            f"{found.broker_cpu_seconds:.2f}",
            f"{found.others_share:.0%}",
        ]
    )


def line(cells: Sequence[str]) -> str:
    """Cells as Markdown."""
    return f"| {' | '.join(cells)} |"


def cpu_seconds_of_tree(root: int, without: set[int]) -> float:
    """User and system time of a process and all that it started, also of those that have ended.

    Processes in `without` do not count.
    """
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rsplit(") ", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        if process not in without:
            total += ticks.get(process, 0)
            waiting += parents.get(process, [])
    return total / _TICKS_PER_SECOND


def load(broker: Broker, topic: str, partition_count: int, value: bytes, record_count: int) -> None:
    """A topic with so many records, evenly spread, in batches of a default producer."""

    async def fill() -> None:
        async with Admin(broker.bootstrap) as admin:
            new = NewTopic(name=topic, partition_count=partition_count, replication_factor=1)
            (await admin.topics.create([new])).unwrap()
        async with Producer(broker.bootstrap) as producer:
            share, more = divmod(record_count, partition_count)
            sent = []
            for partition in range(partition_count):
                left = share + (partition < more)
                while left:
                    values = [value] * min(left, _SEND_COUNT)
                    sent.append(await producer.send_many(topic, values, partition=partition))
                    left -= len(values)
            for each in sent:
                await each

    asyncio.run(fill())


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all have."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--records", type=int, default=1_000_000)
    found.add_argument("--sizes", type=_numbers, default=[100, 1024], help="bytes of a value")
    found.add_argument("--partitions", type=_numbers, default=[1, 4, 12])
    found.add_argument("--repeat", type=int, default=3, help="rounds that count")
    found.add_argument("--patience", type=float, default=10.0, help="seconds to wait for idleness")
    found.add_argument("--directory", type=Path, help="where the brokers' data goes for the time")
    return found


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


@contextlib.contextmanager
def spark_trial(name: str, options: argparse.Namespace) -> Iterator[SparkTrial]:
    """Everything running; at the end the table is printed and kept in results/NAME.json."""
    # A stop from outside unwinds as Ctrl-C does: brokers are stopped and data is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    fetch_jars()
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="barnabas-bench-", dir=options.directory)
        root = Path(stack.enter_context(folder))
        apache, barnabas = ApacheKafka(root / "apache"), BarnabasProcess(root / "barnabas")
        for broker in (apache, barnabas):
            stack.callback(_end, broker)
            broker.start()
        ways = [
            Way(name=BASELINE, via="connector", broker=apache),
            Way(name="connector, Barnabas", via="connector", broker=barnabas),
            Way(name="python, Barnabas", via="python", broker=barnabas),
        ]
        conf = {"spark.sql.warehouse.dir": str(root / "warehouse")}
        spark = session(name, master="local[2]", conf=conf, log_level="ERROR")
        stack.callback(spark.stop)
        trial = SparkTrial(spark, ways, options)
        try:
            yield trial
        finally:
            # Also what there is when it is ended early.
            if trial.figures:
                _keep(name, trial)


def _end(broker: Broker) -> None:
    if broker.process is not None and broker.process.is_running():
        broker.stop()


def _keep(name: str, trial: SparkTrial) -> None:
    facts: Mapping[str, Any] = machine()
    print(f"\n{trial.table()}\n")
    document = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": facts,
        "apache_kafka": DEFAULT_VERSION,
        "records": trial.options.records,
        "repeat": trial.options.repeat,
        "figures": [asdict(each) for each in trial.figures],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(
        f"{facts['cores']} cores ({facts['processor']}), commit {facts['commit']}; kept in {path}"
    )
