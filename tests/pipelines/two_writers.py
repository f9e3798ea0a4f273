"""Two writers of one table at once, again and again: nothing is lost and nothing is doubled.

    python -m tests.pipelines.two_writers FIRST COUNT

Odd numbers are snapshots, even ones archives. Each time records are added to a topic, and two
writers of the same table begin in the same instant, or a drawn moment apart. Each must end well or
be refused as a second writer. When both have ended, the job is run once more, and the table is
compared with the topic by `deltalake`, without Spark. A table is written to ten times, then the
next begins.

Exit status: 0 if every time was right, 1 otherwise. It needs what `make spark` needs.
"""

import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from barnabas_pipelines.jars import fetch_jars
from barnabas_pipelines.jobs import archive, snapshot
from barnabas_pipelines.jobs.settings import settings_of
from barnabas_pipelines.session import session
from barnabas_pipelines.tables.table import SecondWriterError
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import archived_rows, expected
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMES_PER_TABLE = 10
_RECORDS = 60
_KEYS = 25
_APART_SECONDS_MAX = 2.0


class Table:
    """A table, its topic, and the job that writes it."""

    def __init__(self, spark: "SparkSession", bootstrap: str, directory: Path, name: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = name
        self.path = directory / name
        self.is_snapshot = name.startswith("snapshot")
        policy = "compact" if self.is_snapshot else "delete"
        configs: dict[str, str | None] = {"cleanup.policy": policy, "retention.ms": "-1"}
        records.create_topic(bootstrap, name, 2, configs)

    def write(self) -> None:
        """Run the job. Raises: SecondWriterError."""
        given: dict[str, Any] = {"bootstrap-servers": self.bootstrap, "via": "python"}
        if self.is_snapshot:
            given |= {"topic": self.topic, "table": str(self.path)}
            settings = settings_of(snapshot.OPTIONS, given)
            snapshot.run(settings, self.spark, RecordedReport("snapshot"))
        else:
            given |= {"topics": self.topic, "path": str(self.path)}
            settings = settings_of(archive.JOB.options, given)
            archive.JOB.run(settings, self.spark, RecordedReport("archive"))

    def add(self, number: int) -> None:
        """Add records; in a snapshot's topic some take their key away."""
        records.produce(
            self.bootstrap,
            self.topic,
            [
                RecordToSend(
                    key=b"key-%d" % (one % _KEYS),
                    value=None if one % 11 == number % 11 else b"%d-%d" % (number, one),
                    partition=one % _KEYS % 2,
                )
                for one in range(_RECORDS)
            ],
        )

    def check(self) -> int:
        """Compare the table with the topic; how many rows it has. Raises: AssertionError."""
        wanted = expected(self.bootstrap, self.topic)
        if not self.is_snapshot:
            found = archived_rows(self.path)
            assert found == wanted, f"{len(found)} rows, not {len(wanted)}"
            return len(found)
        rows = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        pairs = sorted((row["key"], row["value"]) for row in rows)
        latest = {row[3]: row[4] for row in wanted}
        alive = sorted((key, value) for key, value in latest.items() if value is not None)
        assert pairs == alive, f"{len(pairs)} keys, not {len(alive)}"
        return len(pairs)


def race(write: Callable[[], None], apart_seconds: float) -> list[str]:
    """Two writers, the second so much later; how they ended. Raises: what else they raised."""
    barrier = threading.Barrier(2)
    never = threading.Event()
    ends: list[Any] = []

    def run(delay_seconds: float) -> None:
        barrier.wait(60)
        never.wait(delay_seconds)
        try:
            write()
        except SecondWriterError:
            ends.append("refused")
        except BaseException as error:
            ends.append(error)
        else:
            ends.append("written")

    threads = [threading.Thread(target=run, args=(delay,)) for delay in (0.0, apart_seconds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    assert "written" in ends, ends
    return sorted(ends)


def main(first: int, count: int) -> int:
    """Race so often; the exit status."""
    fetch_jars()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    directory = Path(tempfile.mkdtemp(prefix="two-writers-"))
    conf = {"spark.sql.shuffle.partitions": "2", "spark.scheduler.mode": "FAIR"}
    spark = session("two writers", master="local[2]", with_tables=True, conf=conf, log_level="OFF")
    wrong = refused = 0
    tables: dict[str, Table] = {}
    with BarnabasProcess(directory / "broker") as broker:
        for number in range(first, first + count):
            chance = random.Random(number)
            kind = "snapshot" if number % 2 else "archive"
            name = f"{kind}-{number // (2 * _TIMES_PER_TABLE)}"
            table = tables.get(name) or Table(spark, broker.bootstrap, directory, name)
            tables[name] = table
            apart = chance.choice([0.0, chance.uniform(0, _APART_SECONDS_MAX)])
            try:
                table.add(number)
                ends = race(table.write, apart)
                table.write()
                outcome = f"{', '.join(ends)}; {table.check()} rows"
                refused += ends.count("refused")
            except Exception as error:
                wrong += 1
                outcome = f"WRONG {error!r}"[:2000]
            print(f"time {number}: {name}, {apart:.2f} s apart: {outcome}", flush=True)
    print(f"{count} times, {refused} writers refused, {wrong} wrong", flush=True)
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
