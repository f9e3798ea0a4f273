"""Java's consumers and ours share one group and rebalance: nothing is lost, nothing owned twice.

Both brokers are used whatever `BARNABAS_INTEROP_BROKER` says.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client.consumer.group.readers import (
    CLASSIC,
    NEXT,
    Reader,
    create_topic,
    produce,
)
from tests.interop.java_readers import DEADLINE_SECONDS, JavaProcess, JavaReader, Timeline
from tests.support.client_brokers import ClientBrokers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PARTITIONS = 6
KINDS = ("barnabas", "apache")
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


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One loop for all tests: the Java processes, which outlive a test, belong to it."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def java(runner: asyncio.Runner) -> Iterator[dict[str, JavaProcess]]:
    """The Java processes by version, started when they are first needed."""
    processes = {version: JavaProcess(version) for version in ("4.1.1", "3.4.1")}
    yield processes
    for process in processes.values():
        runner.run(process.stop())


AnyReader = Reader | JavaReader
Processes = dict[str, JavaProcess]
MakeReader = Callable[[str, Timeline, str, str], Reader]
MakeJavaReader = Callable[[str, Timeline, str, str], JavaReader]


async def until(condition: Callable[[], Any], describe: Callable[[], object]) -> None:
    """Java takes its time to start and to join."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"still {describe()}") from None


class SharedGroup:
    """A group of both kinds of members on a topic of its own, and the numbers written to it."""

    def __init__(self, bootstrap: str, make_ours: MakeReader, make_java: MakeJavaReader) -> None:
        self._bootstrap = bootstrap
        self._make_ours = make_ours
        self._make_java = make_java
        self._topic = name("shared")
        self._group = name("group")
        self.timeline = Timeline()
        self.members: dict[str, AnyReader] = {}
        self.written = 0

    async def write(self) -> None:
        """Write some more records; the first time the topic is created."""
        if not self.written:
            await create_topic(self._bootstrap, self._topic, PARTITIONS)
        numbers = range(self.written, self.written + 60)
        await produce(self._bootstrap, self._topic, numbers, PARTITIONS)
        self.written += 60

    async def join(self, who: str) -> AnyReader:
        make = self._make_java if who.startswith("java") else self._make_ours
        member = self.members[who] = make(who, self.timeline, self._topic, self._group)
        await member.start()
        return member

    async def is_shared(self, *counts: int) -> None:
        """Wait until the partitions are dealt out like this."""
        await until(
            lambda: self.timeline.counts() == list(counts),
            lambda: (self.timeline.owners, self.timeline.events),
        )

    async def is_read(self) -> None:
        """Wait until every record has been read by somebody."""
        await until(
            lambda: set(self.readers_by_number()) == set(range(self.written)),
            lambda: sorted(set(range(self.written)) - set(self.readers_by_number())),
        )

    def readers_by_number(self) -> dict[int, list[str]]:
        readers: dict[int, list[str]] = {}
        for who, member in self.members.items():
            for number in member.values:
                readers.setdefault(number, []).append(who)
        return readers

    async def stop(self) -> None:
        await asyncio.gather(*(member.stop() for member in self.members.values()))


async def share_a_group(
    bootstrap: str, make_ours: MakeReader, make_java: MakeJavaReader, *, may_repeat: bool = False
) -> None:
    """Both kinds join and leave in turns while records are written.

    Who leaves has committed, so that nothing is read twice either, unless `may_repeat`.
    """
    group = SharedGroup(bootstrap, make_ours, make_java)
    try:
        await group.write()
        first = await group.join("ours-1")
        await group.is_shared(6)
        java_first = await group.join("java-1")
        await group.is_shared(3, 3)
        await group.write()
        second = await group.join("ours-2")
        await group.is_shared(2, 2, 2)
        await group.write()
        await group.is_read()
        await java_first.stop()
        await group.is_shared(3, 3)
        await group.write()
        java_second = await group.join("java-2")
        await group.is_shared(2, 2, 2)
        await group.write()
        await first.stop()
        await second.stop()
        await group.is_shared(6)
        await group.write()
        await group.is_read()
        await group.join("ours-3")
        await group.is_shared(3, 3)
        await java_second.stop()
        await group.is_shared(6)
        await group.write()
        await group.is_read()
    finally:
        # All of them, so that a failure leaves nobody behind for the tests that follow.
        await group.stop()
    group.timeline.check()
    readers_by_number = group.readers_by_number()
    assert set(readers_by_number) == set(range(group.written))
    repeated = {n: readers for n, readers in readers_by_number.items() if len(readers) > 1}
    assert may_repeat or not repeated, (repeated, group.timeline.events)


def name(stem: str) -> str:
    return f"{stem}-{os.getpid()}-{next(_numbers)}"


def classic_reader(bootstrap: str, strategy: str) -> MakeReader:
    return lambda member, timeline, topic, group: Reader(
        bootstrap,
        member,
        timeline,
        [topic],
        **CLASSIC,
        partition_assignment_strategy=[strategy],
        group_id=group,
    )


def next_reader(bootstrap: str, protocol: str) -> MakeReader:
    return lambda member, timeline, topic, group: Reader(
        bootstrap,
        member,
        timeline,
        [topic],
        **{**NEXT, "group_protocol": protocol},
        group_id=group,
    )


def java_reader(process: JavaProcess, bootstrap: str, **settings: str) -> MakeJavaReader:
    return lambda member, timeline, topic, group: JavaReader(
        process, bootstrap, member, timeline, topic, group_id=group, **settings
    )


def classic_java_reader(
    process: JavaProcess, bootstrap: str, strategy: str, **settings: str
) -> MakeJavaReader:
    return java_reader(
        process,
        bootstrap,
        partition_assignment_strategy=f"org.apache.kafka.clients.consumer.{STRATEGIES[strategy]}",
        heartbeat_interval_ms="200",
        **settings,
    )


@pytest.mark.parametrize("version", ["4.1.1", "3.4.1"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["barnabas", "apache"])
def test_java_and_ours_share_a_classic_group(
    runner: asyncio.Runner,
    brokers: ClientBrokers,
    java: Processes,
    kind: str,
    strategy: str,
    version: str,
) -> None:
    """Every record is read exactly once: whoever gives a partition up has committed it."""
    bootstrap = brokers.bootstrap(kind)
    make_java = classic_java_reader(java[version], bootstrap, strategy)
    runner.run(share_a_group(bootstrap, classic_reader(bootstrap, strategy), make_java))


@pytest.mark.parametrize("kind", ["barnabas", "apache"])
def test_what_a_killed_java_member_had_comes_to_ours(
    runner: asyncio.Runner, brokers: ClientBrokers, kind: str
) -> None:
    """GRP-16: kill -9 of its process; when its session is over nothing has been lost."""
    bootstrap = brokers.bootstrap(kind)
    process = JavaProcess("4.1.1")
    make_java = classic_java_reader(process, bootstrap, "range", session_timeout_ms="2000")

    async def body() -> None:
        group = SharedGroup(bootstrap, classic_reader(bootstrap, "range"), make_java)
        try:
            await group.write()
            await group.join("ours-1")
            await group.is_shared(6)
            dies = await group.join("java-1")
            await group.is_shared(3, 3)
            await group.write()
            await group.is_read()
            assert isinstance(dies, JavaReader)
            await process.kill()
            dies.died()
            await group.write()
            await group.is_shared(6)
            await group.write()
            await group.is_read()
        finally:
            await group.stop()
            await process.stop()
        group.timeline.check()

    runner.run(body())


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
@pytest.mark.parametrize("kind", KINDS)
def test_java_and_ours_share_a_group_that_the_broker_leads(
    runner: asyncio.Runner, brokers: ClientBrokers, java: Processes, kind: str, protocol: str
) -> None:
    """KIP-848 on both sides."""
    bootstrap = brokers.bootstrap(kind)
    make_java = java_reader(java["4.1.1"], bootstrap, group_protocol="consumer")
    runner.run(share_a_group(bootstrap, next_reader(bootstrap, protocol), make_java))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("version", ["4.1.1", "3.4.1"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_migrates_while_it_runs(
    runner: asyncio.Runner,
    brokers: ClientBrokers,
    java: Processes,
    kind: str,
    version: str,
    strategy: str,
) -> None:
    """KIP-848: classic Java members and ours in `auto` make one group; the broker translates."""
    bootstrap = brokers.bootstrap(kind)
    make_java = classic_java_reader(java[version], bootstrap, strategy)
    # When the last member of the new protocol leaves, the group becomes a classic one again, and
    # a commit that Java sends just then is refused: it reads those records again.
    work = share_a_group(bootstrap, next_reader(bootstrap, "auto"), make_java, may_repeat=True)
    runner.run(work)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("kind", KINDS)
def test_our_classic_members_work_beside_java_s_new_ones(
    runner: asyncio.Runner, brokers: ClientBrokers, java: Processes, kind: str, strategy: str
) -> None:
    """The other way round."""
    bootstrap = brokers.bootstrap(kind)
    make_java = java_reader(java["4.1.1"], bootstrap, group_protocol="consumer")
    ours = classic_reader(bootstrap, strategy)
    runner.run(share_a_group(bootstrap, ours, make_java, may_repeat=True))
