"""Java's consumers and ours share one group and rebalance: nothing is lost, nothing owned twice.

Each Java member is a process (`java/GroupReader.java`) that tells what it is assigned, when, and
what it reads. Both brokers are used whatever `BARNABAS_INTEROP_BROKER` says; the protocol of
KIP-848 is Apache Kafka's alone.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import (
    CLASSIC,
    NEXT,
    Ownership,
    Reader,
    create_topic,
    produce,
)
from tests.support.client_brokers import ClientBrokers
from tests.support.java_tools import compile_java, java_command, maven_jars

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PARTITIONS = 6
DEADLINE_SECONDS = 60
STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientBrokers]:
    running = ClientBrokers(tmp_path_factory.mktemp("group-brokers"))
    yield running
    running.stop()


class Timeline(Ownership):
    """Ownership over processes: what counts is when the listeners were called."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[int, str, str, TopicPartition]] = []

    def take(self, name: str, partitions: Collection[TopicPartition]) -> None:
        self.note(time.time_ns() // 1_000_000, name, "take", partitions)

    def give_up(self, name: str, partitions: Collection[TopicPartition]) -> None:
        self.note(time.time_ns() // 1_000_000, name, "give", partitions)

    def note(
        self, now_ms: int, name: str, what: str, partitions: Collection[TopicPartition]
    ) -> None:
        for partition in partitions:
            self.events.append((now_ms, name, what, partition))
            if what == "take":
                self.owners[partition] = name
            elif self.owners.get(partition) == name:
                del self.owners[partition]

    def check(self) -> None:
        """Every partition was given up before, or in the same millisecond as, it was taken."""
        held: dict[TopicPartition, tuple[int, str]] = {}
        gone: dict[tuple[str, TopicPartition], int] = {}
        # Within a millisecond what was given up comes first.
        for now_ms, name, what, partition in sorted(
            self.events, key=lambda event: (event[0], event[2] == "take")
        ):
            if what == "give":
                gone[name, partition] = now_ms
                if partition in held and held[partition][1] == name:
                    del held[partition]
                continue
            assert partition not in held, f"{partition}: {name} beside {held[partition]}"
            held[partition] = (now_ms, name)


class JavaReader:
    """A Java consumer as a process; the interface of `Reader`."""

    def __init__(
        self, version: str, bootstrap: str, name: str, timeline: Timeline, topic: str, **more: str
    ) -> None:
        jars = maven_jars(
            f"kafka-clients-{version}",
            [f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36"],
        )
        source = Path(__file__).parent / "java" / "GroupReader.java"
        classes = compile_java("group-reader", [source], jars)
        settings = {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self._command = java_command(
            [classes, jars],
            "GroupReader",
            [topic, *(f"{key}={value}" for key, value in settings.items())],
        )
        self._topic = topic
        self._name = name
        self._timeline = timeline
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.values: list[int] = []
        self.calls: list[str] = []

    async def start(self) -> "JavaReader":
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._task = asyncio.create_task(self._listen())
        return self

    async def stop(self) -> None:
        """Leave the group in an orderly way."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._task is not None
        self._process.stdin.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._process.wait()
            await self._task
        assert self._process.returncode == 0

    async def kill(self) -> None:
        assert self._process is not None
        assert self._task is not None
        self._process.kill()
        await self._process.wait()
        await self._task
        now_ms = time.time_ns() // 1_000_000
        mine = [p for p, owner in self._timeline.owners.items() if owner == self._name]
        self._timeline.note(now_ms, self._name, "give", mine)

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            line = raw.decode().rstrip("\n")
            kind, _, rest = line.partition("\t")
            if kind == "record":
                self.values.append(int(rest))
            elif kind in ("assigned", "revoked", "lost"):
                at, _, numbers = rest.partition("\t")
                partitions = [TopicPartition(self._topic, int(n)) for n in numbers.split(",") if n]
                what = "take" if kind == "assigned" else "give"
                self._timeline.note(int(at), self._name, what, partitions)
                self.calls.append(kind)
            else:
                print(f"{self._name}: {line}")


AnyReader = Reader | JavaReader


async def until(condition: Callable[[], Any], describe: Callable[[], object]) -> None:
    """Java takes its time to start and to join."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"still {describe()}") from None


async def share_a_group(
    bootstrap: str,
    ours: Callable[[str, Timeline, str, str], Reader],
    java: Callable[[str, Timeline, str, str], JavaReader],
    *,
    may_repeat: bool = False,
) -> None:
    """Both kinds join and leave in turns while records are written.

    Who leaves has committed, so that nothing is read twice either, unless `may_repeat`.
    """
    topic, group = name("shared"), name("group")
    await create_topic(bootstrap, topic, PARTITIONS)
    timeline = Timeline()
    members: list[AnyReader] = []
    written = 0

    async def write() -> None:
        nonlocal written
        await produce(bootstrap, topic, range(written, written + 60), PARTITIONS)
        written += 60

    async def shared(*counts: int) -> None:
        await until(
            lambda: timeline.counts() == list(counts), lambda: (timeline.owners, timeline.events)
        )

    async def join(member: AnyReader) -> AnyReader:
        members.append(member)
        await member.start()
        return member

    async def all_read() -> None:
        await until(
            lambda: {n for m in members for n in m.values} == set(range(written)),
            lambda: sorted(set(range(written)) - {n for m in members for n in m.values}),
        )

    await write()
    first = await join(ours("ours-1", timeline, topic, group))
    await shared(6)
    java_first = await join(java("java-1", timeline, topic, group))
    await shared(3, 3)
    await write()
    second = await join(ours("ours-2", timeline, topic, group))
    await shared(2, 2, 2)
    await write()
    await all_read()
    await java_first.stop()
    await shared(3, 3)
    await write()
    java_second = await join(java("java-2", timeline, topic, group))
    await shared(2, 2, 2)
    await write()
    await first.stop()
    await second.stop()
    await shared(6)
    await write()
    await all_read()
    third = await join(ours("ours-3", timeline, topic, group))
    await shared(3, 3)
    await java_second.stop()
    await shared(6)
    await write()
    await all_read()
    await third.stop()
    timeline.check()
    readers_by_number: dict[int, list[str]] = {}
    for member, who in zip(
        members, ("ours-1", "java-1", "ours-2", "java-2", "ours-3"), strict=True
    ):
        for number in member.values:
            readers_by_number.setdefault(number, []).append(who)
    assert set(readers_by_number) == set(range(written))
    repeated = {n: readers for n, readers in readers_by_number.items() if len(readers) > 1}
    assert may_repeat or not repeated, (repeated, timeline.events)


def name(stem: str) -> str:
    return f"{stem}-{os.getpid()}-{next(_numbers)}"


def classic_reader(bootstrap: str, strategy: str) -> Callable[[str, Timeline, str, str], Reader]:
    return lambda member, timeline, topic, group: Reader(
        bootstrap,
        member,
        timeline,
        [topic],
        **CLASSIC,
        partition_assignment_strategy=[strategy],
        group_id=group,
    )


def java_reader(
    version: str, bootstrap: str, **settings: str
) -> Callable[[str, Timeline, str, str], JavaReader]:
    return lambda member, timeline, topic, group: JavaReader(
        version, bootstrap, member, timeline, topic, group_id=group, **settings
    )


def run(work: Awaitable[None]) -> None:
    async def body() -> None:
        await work

    asyncio.run(body())


@pytest.mark.parametrize("version", ["4.1.1", "3.4.1"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["barnabas", "apache"])
def test_java_and_ours_share_a_classic_group(
    brokers: ClientBrokers, kind: str, strategy: str, version: str
) -> None:
    """Every record is read exactly once: whoever gives a partition up has committed it."""
    bootstrap = brokers.bootstrap(kind)
    java = java_reader(
        version,
        bootstrap,
        partition_assignment_strategy=f"org.apache.kafka.clients.consumer.{STRATEGIES[strategy]}",
        heartbeat_interval_ms="200",
    )
    run(share_a_group(bootstrap, classic_reader(bootstrap, strategy), java))


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_java_and_ours_share_a_group_that_the_broker_leads(
    brokers: ClientBrokers, protocol: str
) -> None:
    """KIP-848 on both sides."""
    bootstrap = brokers.bootstrap("apache")
    java = java_reader("4.1.1", bootstrap, group_protocol="consumer")
    run(share_a_group(bootstrap, next_reader(bootstrap, protocol), java))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("version", ["4.1.1", "3.4.1"])
def test_a_group_migrates_while_it_runs(
    brokers: ClientBrokers, version: str, strategy: str
) -> None:
    """KIP-848: classic Java members and ours in `auto` make one group; the broker translates."""
    bootstrap = brokers.bootstrap("apache")
    java = java_reader(
        version,
        bootstrap,
        partition_assignment_strategy=f"org.apache.kafka.clients.consumer.{STRATEGIES[strategy]}",
        heartbeat_interval_ms="200",
    )
    # When the last member of the new protocol leaves, the group becomes a classic one again, and
    # a commit that Java sends just then is refused: it reads those records again.
    run(share_a_group(bootstrap, next_reader(bootstrap, "auto"), java, may_repeat=True))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_our_classic_members_work_beside_java_s_new_ones(
    brokers: ClientBrokers, strategy: str
) -> None:
    """The other way round."""
    bootstrap = brokers.bootstrap("apache")
    java = java_reader("4.1.1", bootstrap, group_protocol="consumer")
    run(share_a_group(bootstrap, classic_reader(bootstrap, strategy), java, may_repeat=True))


def next_reader(bootstrap: str, protocol: str) -> Callable[[str, Timeline, str, str], Reader]:
    return lambda member, timeline, topic, group: Reader(
        bootstrap,
        member,
        timeline,
        [topic],
        **{**NEXT, "group_protocol": protocol},
        group_id=group,
    )
