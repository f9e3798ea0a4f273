"""Rounds of kills over archive, snapshot, aggregate and replay: each record once.

    python -m tests.pipelines.kill_rounds FIRST COUNT [DIRECTORY]

Round N is always the same job with the same fault, drawn from N alone, so that a run can be gone on
with at any number. Each begins with topics of its own on a cluster of three brokers, 4,000 numbered
records, and the job; the fault strikes at a drawn moment while it works. Then the job is run to its
end, and what it wrote is compared with the topic, by readers without Spark.

A job whose driver or executors are killed or frozen is a process of its own. All others, such as
the one that goes on after a kill, run in the one session of this process: starting Spark would take
most of the time of a round. What a session remembers of tables and states is cleared before each.

Exit status: 0 if every round was right, 1 otherwise; what failed stays in DIRECTORY. Each round is
told in a line. It needs what `make spark` needs.
"""

import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from barnabas_client import Producer
from barnabas_client.admin import Admin, NewTopic
from barnabas_pipelines.errors import failure_line
from barnabas_pipelines.jars import fetch_jars
from barnabas_pipelines.jobs.job import load_job
from barnabas_pipelines.session import session
from tests.pipelines.command_line import read_settings
from tests.pipelines.spark.kill_rounds import Driver, session_members
from tests.pipelines.spark.numbered_records import FIRST_TIMESTAMP_MS, PARTITIONS, STEP_MS
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.round_jobs import KEYS, RoundJob, value_of
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 4000
_DEADLINE_SECONDS = 900
_EXECUTOR = "CoarseGrainedExecutorBackend"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: What a job has said when its work begins, so that a fault strikes at work.
_AT_WORK = {
    "archive": ": batch ",
    "snapshot": ": reading ",
    "aggregate": ": batch ",
    "replay": " records are chosen",
}
#: How long after that a fault strikes at most, at the pace of two cores.
_SPREAD_SECONDS = {"archive": 6.0, "snapshot": 4.0, "aggregate": 6.0, "replay": 10.0}

_FAULTS = {
    "driver": ("archive", "snapshot", "aggregate", "replay"),
    "one executor": ("archive", "snapshot", "aggregate", "replay"),
    "all executors": ("archive", "snapshot", "aggregate", "replay"),
    "broker": ("archive", "snapshot", "aggregate", "replay"),
    "second job": ("archive", "snapshot", "aggregate", "replay"),
    "frozen driver": ("archive", "snapshot", "aggregate", "replay"),
    "checkpoint moved": ("archive", "snapshot", "aggregate", "replay"),
    "checkpoint removed": ("aggregate",),
    "checkpoint older": ("archive", "snapshot", "aggregate", "replay"),
    "topic remade": ("archive", "snapshot", "aggregate", "replay"),
}
CASES = [(job, fault) for fault, jobs in _FAULTS.items() for job in jobs]


@cache
def shared_session() -> "SparkSession":
    """The session of this process."""
    fetch_jars()
    conf = {"spark.sql.shuffle.partitions": "2"}
    return session("rounds", master="local[2]", with_tables=True, conf=conf, log_level="OFF")


class SharedSessionJob:
    """A job in the session of this process, in a thread of its own."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self._job = load_job(name)
        self._settings = read_settings(self._job.options, arguments, lambda _: "")
        self._report = RecordedReport(name)
        self.code: int | None = None
        self._spark = shared_session()
        jvm: Any = self._spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._job.check(self._settings)
            self._job.run(self._settings, self._spark, self._report)
        except Exception as error:
            self._report.failed(failure_line(error))
            self.code = 1
        else:
            self.code = 0

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def output(self) -> str:
        return "\n".join(self._report.lines)

    def end(self) -> int:
        """The exit code that a process would have had."""
        assert self.code is not None, "it was never heard of again"
        return self.code


class ProcessJob(Driver):
    """A job as a process of its own."""

    def end(self) -> int:
        """The exit code; whatever is left of its session is killed."""
        self.kill()
        code = self.process.returncode
        assert code in (0, 1), f"exit code {code}: {self.output()}"
        return int(code)


RunningJob = ProcessJob | SharedSessionJob


class Round:
    """One job, one fault."""

    def __init__(self, number: int, cluster: BarnabasCluster, directory: Path) -> None:
        self.job_name, self.fault = CASES[number % len(CASES)]
        self._random = random.Random(number)
        self._cluster = cluster
        self._folder = directory / f"round-{number}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._drivers: list[ProcessJob] = []
        self.job = RoundJob(
            name=self.job_name,
            bootstrap=cluster.bootstrap,
            topic=f"round-{number}-{os.getpid()}",
            folder=self._folder,
            via=self._random.choice(["connector", "python"]),
            archive=directory / "replayed-archive",
        )
        self.struck = "too late"

    def run(self) -> str:
        """Run the round; what was written. Raises: AssertionError, TimeoutError."""
        self._make_topic(self.job.topic, generation=0)
        if self.job_name == "replay":
            self._make_archive()
            self._make_topic(self.job.target, generation=None)
        {
            "driver": self._kill_driver,
            "one executor": lambda: self._kill_executors(one=True),
            "all executors": lambda: self._kill_executors(one=False),
            "broker": self._kill_broker,
            "second job": self._start_second,
            "frozen driver": self._freeze_driver,
            "checkpoint moved": self._move,
            "checkpoint removed": self._remove,
            "checkpoint older": self._put_back,
            "topic remade": self._remake,
        }[self.fault]()
        self._finish()
        return self.job.check(is_whole=True)

    def end(self) -> None:
        """Kill what still runs of the round."""
        for driver in self._drivers:
            driver.kill()

    def clean(self) -> None:
        """Remove what the round has left on disks."""
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- faults --------------------------------------------------------------------------------

    def _kill_driver(self) -> None:
        driver = self._start()
        self._strike(driver, driver.kill)

    def _kill_executors(self, *, one: bool) -> None:
        driver = self._start(master="local-cluster[2,1,640]")

        def kill() -> int:
            found = _executors(driver.process.pid)
            for pid in found[:1] if one else found:
                os.kill(pid, signal.SIGKILL)
            return len(found)

        self._strike(driver, kill)
        self._end(driver)

    def _kill_broker(self) -> None:
        driver = self._start_shared()
        node_id = self._random.choice(sorted(self._cluster.brokers))

        def kill() -> int:
            self._cluster.brokers[node_id].kill()
            return node_id

        try:
            self._strike(driver, kill)
        finally:
            self._cluster.start()
        self._end(driver)

    def _start_second(self) -> None:
        first = self._start()
        seconds: list[RunningJob] = []

        def start() -> int:
            seconds.append(self._start_shared())
            return 1

        self._strike(first, start)
        codes = [self._end(one) for one in (first, *seconds)]
        self.struck += f", exit codes {codes}"

    def _freeze_driver(self) -> None:
        """A driver that is cut off until another one has done its work, and then goes on."""
        driver = self._start()

        def freeze() -> int:
            members = session_members(driver.process.pid)
            for pid in members:
                os.kill(pid, signal.SIGSTOP)
            return len(members)

        self._strike(driver, freeze)
        if driver.is_running():
            self._finish()
            self.job.check(is_whole=True)
            for pid in session_members(driver.process.pid):
                os.kill(pid, signal.SIGCONT)
        self.struck += f", exit code {self._end(driver)}"
        self.job.check(is_whole=True)

    def _move(self) -> None:
        self._kill_driver()
        before = self.job.place
        self.job.attempt += 1
        if before.exists():
            before.rename(self.job.place)

    def _remove(self) -> None:
        self._kill_driver()
        shutil.rmtree(self.job.place, ignore_errors=True)

    def _put_back(self) -> None:
        """A copy of what the job had remembered, after it has gone on."""
        self._kill_driver()
        copy = self._folder / "copy"
        if self.job.place.exists():
            shutil.copytree(self.job.place, copy)
        self._finish()
        self.job.check(is_whole=True)
        shutil.rmtree(self.job.place)
        if copy.exists():
            copy.rename(self.job.place)
        if self.job_name == "aggregate":
            driver = self._start_shared()
            if self._end(driver) and "is an older copy" in driver.output():
                shutil.rmtree(self.job.place / "writers")

    def _remake(self) -> None:
        """The topic that is read, or for a replay the one that is written, made anew at work."""
        job = self.job
        driver = self._start_shared()
        topic = job.target if self.job_name == "replay" else job.topic
        generation = None if self.job_name == "replay" else 1

        def remake() -> int:
            asyncio.run(_delete(job.bootstrap, topic))
            self._make_topic(topic, generation=generation)
            return 1

        self._strike(driver, remake)
        code = self._end(driver)
        output = driver.output()
        assert code == 1 or self.struck == "too late" or "done" in output, output
        # A snapshot that had written no table yet knows nothing of the topic that it read.
        remembers = self.job_name != "snapshot" or DeltaTable.is_deltatable(str(job.place))
        again = self._start_shared()
        code = self._end(again)
        output = again.output()
        if not remembers:
            assert code == 0, output
            job.check(is_whole=True)
        elif self.struck != "too late":
            assert code == 1, f"the job went on with a topic made anew: {output}"
            assert "made a" in output or "deleted" in output or "lost" in output, output
        # From now on with another place, as the message says.
        job.attempt += 1
        if self.job_name == "aggregate":
            asyncio.run(_delete(job.bootstrap, job.target))

    # ---- steps ---------------------------------------------------------------------------------

    def _strike(self, driver: RunningJob, fault: Callable[[], int]) -> None:
        """Carry out the fault at a drawn moment while the job works."""
        marker = _AT_WORK[self.job_name]
        times = self._random.randint(0, 2) if self.job_name in ("archive", "aggregate") else 1
        delay = self._random.uniform(0, _SPREAD_SECONDS[self.job_name])
        wait_until(
            lambda: driver.output().count(marker) >= times or not driver.is_running(),
            _DEADLINE_SECONDS,
            driver.output,
            0.02,
        )
        due = time.monotonic() + delay
        wait_until(
            lambda: time.monotonic() >= due or not driver.is_running(),
            _DEADLINE_SECONDS,
            driver.output,
            0.02,
        )
        if driver.is_running():
            self.struck = f"{delay:.1f} s after {marker.strip(' :')!r} {times} ({fault()})"

    def _start_shared(self) -> SharedSessionJob:
        return SharedSessionJob(self.job_name, self.job.arguments())

    def _start(self, master: str = "local[2]") -> ProcessJob:
        log_path = self._folder / f"{len(self._drivers) + 1}.log"
        arguments = [*self.job.arguments(), "--master", master]
        if master != "local[2]":
            arguments += ["--conf", "spark.executor.memory=512m"]
        self._drivers.append(ProcessJob(self.job_name, arguments, log_path))
        return self._drivers[-1]

    def _end(self, driver: RunningJob) -> int:
        """Let the job end; its exit code."""
        try:
            wait_until(lambda: not driver.is_running(), _DEADLINE_SECONDS, driver.output)
        finally:
            if isinstance(driver, ProcessJob):
                driver.kill()
        return driver.end()

    def _finish(self) -> None:
        driver = self._start_shared()
        assert self._end(driver) == 0, driver.output()

    def _make_topic(self, name: str, generation: int | None) -> None:
        """A topic with its records; without any if there is no generation."""

        async def make() -> None:
            async with Admin(self.job.bootstrap) as admin:
                configs: dict[str, str | None] = {"retention.ms": "-1"}
                if self.job_name == "snapshot":
                    configs["cleanup.policy"] = "compact"
                new = NewTopic(
                    name=name, partition_count=PARTITIONS, replication_factor=3, configs=configs
                )
                await self._cluster.create_topics(admin, new)
            if generation is not None:
                await _produce(self.job.bootstrap, name, generation)

        asyncio.run(asyncio.wait_for(make(), 120))

    def _make_archive(self) -> None:
        if self.job.archive.exists():
            return
        beside = self.job.archive.with_name("archive-in-the-making")
        shutil.rmtree(beside, ignore_errors=True)
        arguments = ["--topics", self.job.topic, "--path", str(beside), "--via", "python"]
        arguments += ["--bootstrap-servers", self.job.bootstrap]
        driver = SharedSessionJob("archive", arguments)
        assert self._end(driver) == 0, driver.output()
        beside.rename(self.job.archive)


async def _produce(bootstrap: str, topic: str, generation: int) -> None:
    async with Producer(bootstrap, acks="all", linger_ms=20) as producer:
        sent = []
        for number in range(RECORDS):
            sent.append(
                producer.send(
                    topic,
                    value_of(number, generation),
                    key=b"k%d" % (number % KEYS),
                    partition=number % KEYS % PARTITIONS,
                    timestamp_ms=FIRST_TIMESTAMP_MS + number * STEP_MS,
                )
            )
            await producer.drain()
        await asyncio.gather(*sent)


async def _delete(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        (await admin.topics.delete([topic])).unwrap()

        async def is_gone() -> bool:
            return topic not in {one.name for one in await admin.topics.list()}

        async with asyncio.timeout(60):
            while not await is_gone():
                await asyncio.sleep(0.1)


def _executors(session: int) -> list[int]:
    found = []
    for pid in session_members(session):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if _EXECUTOR.encode() in command:
            found.append(pid)
    return sorted(found)


def main(arguments: list[str]) -> int:
    """Run the rounds; the exit status."""
    first, count = int(arguments[0]), int(arguments[1])
    given = arguments[2] if len(arguments) > 2 else tempfile.mkdtemp(prefix="kill-rounds-")
    directory = Path(given).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", _JAVA_OPTIONS)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_WORKER_DIR", str(directory / "work"))
    # Whoever ends it ends its brokers and jobs, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wrong = struck = 0
    with BarnabasCluster(directory / f"brokers-{os.getpid()}") as cluster:
        for number in range(first, first + count):
            began = time.monotonic()
            one = Round(number, cluster, directory)
            try:
                outcome = one.run()
            except Exception:
                wrong += 1
                outcome = f"WRONG\n{traceback.format_exc()}"
            else:
                one.clean()
            finally:
                one.end()
            struck += one.struck != "too late"
            print(
                f"round {number}: {one.job_name} via {one.job.via}, {one.fault}, struck "
                f"{one.struck}: {outcome}, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    print(f"{count} rounds, {struck} struck in time, {wrong} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
