"""Rounds in which a job's driver and a broker are killed at random moments, while records come.

A driver is a real `python -m barnabas_pipelines.jobs.NAME`, killed with all of its session:
Python, JVM and workers. Moments are drawn from a seed and tied to what can be seen of the job: a
file in its checkpoint, a line that it printed; a random small delay follows. `BARNABAS_ROUNDS` says
how many rounds there are, `BARNABAS_SEED` repeats the draws of a run.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barnabas_client.admin import Admin
from barnabas_pipelines.jobs.job import load_job, main
from tests.pipelines.spark.numbered_records import TOPIC
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("BARNABAS_ROUNDS", "1"))
SEED = int(os.environ.get("BARNABAS_SEED") or random.SystemRandom().randrange(1_000_000))
#: How often something happens in a run before somebody is killed, at most.
TIMES_MAX = 4

_DEADLINE_SECONDS = 240
_LOOK_SECONDS = 0.004


def ways(usual: str) -> list[str]:
    """By which way records are read: both where rounds are asked for, else one to save time."""
    return ["connector", "python"] if "BARNABAS_ROUNDS" in os.environ else [usual]


class Driver:
    """A job as a process of its own session."""

    def __init__(self, job: str, arguments: Sequence[str], log_path: Path) -> None:
        self._log_path = log_path
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"barnabas_pipelines.jobs.{job}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_running(self) -> bool:
        return self.process.poll() is None

    def output(self) -> str:
        return self._log_path.read_text(errors="replace")

    def line_count(self) -> int:
        """How many batches it has reported."""
        return self.output().count(": batch ")

    def kill(self) -> int:
        """SIGKILL for every process of the session; returns how many there were."""
        killed: set[int] = set()

        def is_dead() -> bool:
            found = session_members(self.process.pid)
            for pid in found:
                killed.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.poll()
            return not found

        wait_until(is_dead, 30, lambda: f"session {self.process.pid} lives", _LOOK_SECONDS)
        self.process.wait(30)
        return len(killed)

    def wait(self) -> int:
        """Let it end by itself; the exit code."""
        return self.process.wait(_DEADLINE_SECONDS)


def session_members(session: int) -> list[int]:
    """The processes of a session that are alive, zombies left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happens again and again in a running job, and how long after it to strike.

    `count` tells, when asked often enough, how often it has happened since the job was started.
    """

    name: str
    counter: Callable[[Driver], Callable[[], int]]
    delay_seconds_max: float


def new_files(name: str, folder: Path, delay_seconds_max: float, prefix: str = "") -> Moment:
    """The moments at which a folder gets an entry, of a name like this, that it did not have."""

    def counter(_: Driver) -> Callable[[], int]:
        before = _entries(folder, prefix)
        new: set[str] = set()

        def count() -> int:
            new.update(_entries(folder, prefix) - before)
            return len(new)

        return count

    return Moment(name=name, counter=counter, delay_seconds_max=delay_seconds_max)


def new_lines(delay_seconds_max: float) -> Moment:
    """The moments at which the job has reported a batch."""
    return Moment(
        name="line", counter=lambda driver: driver.line_count, delay_seconds_max=delay_seconds_max
    )


def at_once(delay_seconds_max: float) -> Moment:
    """Any moment from the start on."""
    return Moment(
        name="start", counter=lambda _: lambda: TIMES_MAX, delay_seconds_max=delay_seconds_max
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A drawn moment: the so-manieth time that it happens, and the delay behind it."""

    moment: Moment
    times: int
    delay_seconds: float

    def __str__(self) -> str:
        return f"{self.delay_seconds:.2f} s after {self.moment.name} {self.times}"


def draw(moments: Sequence[Moment], chance: random.Random) -> Strike:
    """A strike at some moment."""
    moment = chance.choice(moments)
    return Strike(
        moment=moment,
        times=chance.randint(1, TIMES_MAX),
        delay_seconds=chance.uniform(0, moment.delay_seconds_max),
    )


def _entries(folder: Path, prefix: str) -> set[str]:
    try:
        names = os.listdir(folder)
        return {name for name in names if not name.startswith(".") and name.startswith(prefix)}
    except FileNotFoundError:
        return set()


@dataclass
class Story:
    """What happened, for the report of a run and for a failure."""

    lines: list[str] = field(default_factory=list)
    driver_kills: int = 0
    broker_kills: int = 0
    own_ends: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.lines.append(text)
        print(text, flush=True)


class Rounds:
    """Starts and kills one job, round after round, on a cluster of three brokers."""

    def __init__(
        self,
        cluster: BarnabasCluster,
        job: str,
        arguments: Sequence[str],
        moments: Sequence[Moment],
        directory: Path,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._arguments = list(arguments)
        self._moments = list(moments)
        self._directory = directory
        self._random = random.Random(SEED)
        self._starts = 0
        self.story = Story()

    def run(self, look: Callable[[], None]) -> None:
        """All rounds; `look` is called after each, with nothing running but the brokers."""
        self.story.say(f"{self._job}: seed {SEED}, {ROUNDS} rounds")
        for number in range(ROUNDS):
            self._round(number)
            look()

    def finish(self, arguments: Sequence[str]) -> None:
        """Let the job read the rest and end by itself, in the session of this process."""
        every = [*self._arguments, "--trigger", "available-now", *arguments]
        assert main(load_job(self._job), every) == 0

    def _round(self, number: int) -> None:
        strike, broker_strike = (draw(self._moments, self._random) for _ in range(2))
        node_id = self._random.choice(sorted(self._cluster.brokers))
        driver = self._start(["--trigger", "1s"])
        broker_count = broker_strike.moment.counter(driver)
        count = strike.moment.counter(driver)

        def kill_broker() -> None:
            self._until(driver, broker_count, broker_strike)  # or when the driver is dead
            self._cluster.brokers[node_id].kill()
            self.story.broker_kills += 1

        striker = threading.Thread(target=kill_broker, name="broker-striker")
        striker.start()
        try:
            if not self._until(driver, count, strike):
                self.story.own_ends.append(driver.output()[-2000:])
            killed = driver.kill()
            self.story.driver_kills += bool(killed)
        finally:
            striker.join()
            self._cluster.start()
        self.story.say(
            f"round {number}: driver ({killed} processes) killed {strike}, broker {node_id} "
            f"{broker_strike}; {driver.line_count()} batches reported"
        )
        asyncio.run(self._until_in_sync())

    def _start(self, more: Sequence[str]) -> Driver:
        self._starts += 1
        log_path = self._directory / f"{self._job}-{self._starts}.log"
        return Driver(self._job, [*self._arguments, *more], log_path)

    def _until(self, driver: Driver, count: Callable[[], int], strike: Strike) -> bool:
        """Wait for the moment and the delay behind it; False if the driver ended before."""
        wait_until(
            lambda: count() >= strike.times or not driver.is_running(),
            _DEADLINE_SECONDS,
            driver.output,
            _LOOK_SECONDS,
        )
        due = time.monotonic() + strike.delay_seconds
        wait_until(
            lambda: time.monotonic() >= due or not driver.is_running(),
            _DEADLINE_SECONDS,
            driver.output,
            _LOOK_SECONDS,
        )
        return driver.is_running()

    async def _until_in_sync(self) -> None:
        async with Admin(self._cluster.bootstrap) as admin:
            await self._cluster.until_in_sync(admin, [TOPIC])
