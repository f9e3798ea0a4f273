"""Rounds in which a job's driver and a broker are killed at random moments, while records come.

A driver is a real `python -m barnabas_pipelines.jobs.NAME`, killed with all of its session:
Python, JVM and workers. Moments are drawn from a seed and tied to what can be seen of the job: a
file in its checkpoint, a line that it printed; a random small delay follows. `BARNABAS_ROUNDS` says
how many rounds there are, `BARNABAS_SEED` repeats the draws of a run.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barnabas_client import Consumer, ConsumerRecord, Producer, TopicPartition
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.errors import BarnabasError
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("BARNABAS_ROUNDS", "2"))
SEED = int(os.environ.get("BARNABAS_SEED") or random.SystemRandom().randrange(1_000_000))
TOPIC = "numbers"
PARTITIONS = 4
GROUPS = 7
#: Event times are counted, not measured: 20 records a second.
FIRST_TIMESTAMP_MS = 1_790_000_000_000
STEP_MS = 50

#: How often something happens in a run before somebody is killed, at most.
TIMES_MAX = 4

_BURST = 25
_BURST_SECONDS = 0.06
_DEADLINE_SECONDS = 240
_LOOK_SECONDS = 0.004


def ways(usual: str) -> list[str]:
    """By which way records are read: both where rounds are asked for, else one to save time."""
    return ["connector", "python"] if "BARNABAS_ROUNDS" in os.environ else [usual]


def timestamp_of(number: int) -> int:
    """The event time of a record."""
    return FIRST_TIMESTAMP_MS + number * STEP_MS


def value_of(number: int) -> bytes:
    """The value of a record."""
    return json.dumps({"group": f"g{number % GROUPS}", "n": number}).encode()


class NumberedProducer(threading.Thread):
    """Sends numbered records until it is told to stop; knows which of them were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="numbered-producer", daemon=True)
        self._servers = bootstrap
        self._is_over = threading.Event()
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.unknown: dict[int, str] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """End after the burst that is under way."""
        self._is_over.set()
        self.join(_DEADLINE_SECONDS)
        assert not self.is_alive(), "the producer does not end"
        if self.error is not None:
            raise self.error

    async def _send(self) -> None:
        number = 0
        async with Producer(self._servers, acks="all") as producer:
            while not self._is_over.is_set():
                numbers = range(number, number + _BURST)
                deliveries = [
                    producer.send(
                        TOPIC,
                        value_of(one),
                        key=b"g%d" % (one % GROUPS),
                        partition=one % PARTITIONS,
                        timestamp_ms=timestamp_of(one),
                        headers=[("n", b"%d" % one), ("n", None)],
                    )
                    for one in numbers
                ]
                number += _BURST
                await producer.drain()
                for one, delivery in zip(numbers, deliveries, strict=True):
                    try:
                        found = await delivery
                    except BarnabasError as error:
                        self.unknown[one] = str(error)
                    else:
                        self.acknowledged[one] = (found.partition, found.offset)
                await asyncio.sleep(_BURST_SECONDS)


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
            found = _session_members(self.process.pid)
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


def _session_members(session: int) -> list[int]:
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

    def finish(self, arguments: Sequence[str]) -> str:
        """Let the job read the rest and end by itself; what it said."""
        driver = self._start(["--trigger", "available-now", *arguments])
        code = driver.wait()
        assert code == 0, driver.output()
        return driver.output()

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


async def make_topics(cluster: BarnabasCluster, *more: NewTopic) -> None:
    """The topic of numbers, and others, on three brokers."""
    async with Admin(cluster.bootstrap) as admin:
        await cluster.until_formed(admin)
        numbers = NewTopic(
            name=TOPIC,
            partition_count=PARTITIONS,
            replication_factor=3,
            configs={"retention.ms": "-1"},
        )
        await cluster.create_topics(admin, numbers, *more)


def read_topic(
    bootstrap: str, topic: str, partition_count: int = PARTITIONS
) -> list[ConsumerRecord]:
    """All records, by partition and offset."""

    async def read() -> list[ConsumerRecord]:
        async with Consumer(bootstrap) as consumer:
            partitions = [TopicPartition(topic, one) for one in range(partition_count)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(partitions)
            ends = await consumer.end_offsets(partitions)
            records: list[ConsumerRecord] = []
            while True:
                positions = {each: await consumer.position(each) for each in partitions}
                if all(positions[each] >= end for each, end in ends.items()):
                    return sorted(records, key=lambda one: (one.partition, one.offset))
                records += await consumer.poll()

    return asyncio.run(asyncio.wait_for(read(), _DEADLINE_SECONDS))


def check_topic(
    records: Sequence[ConsumerRecord],
    acknowledged: Mapping[int, tuple[int, int]],
    unknown: Mapping[int, str],
) -> None:
    """What was acknowledged is in the topic once, where the producer was told."""
    places: dict[int, tuple[int, int]] = {}
    for record in records:
        number = json.loads(record.value)["n"]
        assert number not in places, f"{number} is in the topic twice"
        places[number] = (record.partition, record.offset)
    lost = {number: place for number, place in acknowledged.items() if places.get(number) != place}
    assert not lost, f"acknowledged and lost: {lost}"
    foreign = places.keys() - acknowledged.keys() - unknown.keys()
    assert not foreign, f"never sent: {foreign}"
