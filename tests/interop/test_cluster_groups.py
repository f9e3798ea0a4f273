"""Groups of every client while their coordinators, and the leaders of what they read, go away.

Java's and librdkafka's producers write; Java's consumers of two versions, librdkafka's and ours,
with default settings, read and commit after processing. Each broker is stopped in turn and one is
killed. Not here: one broker alone (`test_client_groups.py`).
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.ids import TopicPartition
from tests.interop.cluster_load import NumberedLoad, lose_each_broker
from tests.interop.committing_members import ForeignMember, GroupHistory, Member, OwnMember
from tests.interop.java_readers import JavaProcess, MemberProcess
from tests.interop.producer_loads import Load, java_load, librdkafka_load
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.cache import python_environment
from tests.support.client_programs import CLIENT_ENVIRONMENT, INTEROP
from tests.support.kafka_cluster import until
from tests.support.kafka_tools import ToolCall, run_tools

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PARTITIONS = 6
PAUSE_MS = 20
FROM_JAVA, FROM_LIBRDKAFKA = "from-java", "from-librdkafka"
#: The groups by what their members are, with the topic of each.
GROUPS = {
    "java-4.1.1": FROM_LIBRDKAFKA,
    "java-3.4.1": FROM_JAVA,
    "librdkafka": FROM_JAVA,
    "ours": FROM_LIBRDKAFKA,
}
Offsets = dict[str, dict[int, int]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BarnabasCluster]:
    with BarnabasCluster(tmp_path / "cluster") as running:
        yield running


def librdkafka_process() -> MemberProcess:
    """A process for members with librdkafka."""
    python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    module = "tests.interop.clients.librdkafka_group_reader"
    return MemberProcess([str(python), "-m", module], CLIENT_ENVIRONMENT)


class Stage:
    """The groups with their members, and the loads that they read."""

    def __init__(self, cluster: BarnabasCluster, admin: Admin, directory: Path) -> None:
        self._cluster = cluster
        self._admin = admin
        self._directory = directory
        self._processes: dict[str, MemberProcess] = {
            "java-4.1.1": JavaProcess("4.1.1"),
            "java-3.4.1": JavaProcess("3.4.1"),
            "librdkafka": librdkafka_process(),
        }
        self._members: dict[str, list[Member]] = defaultdict(list)
        self._numbers = itertools.count()
        self._loads: list[Load] = []
        self.histories = {group: GroupHistory(group, topic) for group, topic in GROUPS.items()}

    async def start(self) -> None:
        """Loads run, and each group has two members with three partitions each."""
        bootstrap = self._cluster.bootstrap
        makers: dict[str, Callable[..., Load]] = {
            FROM_JAVA: java_load,
            FROM_LIBRDKAFKA: librdkafka_load,
        }
        for topic, make in makers.items():
            path = self._directory / f"{topic}.txt"
            self._loads.append(make(bootstrap, topic, PARTITIONS, path, pause_ms=PAUSE_MS))
        for group in GROUPS:
            await self.join(group)
            await self.join(group)
        await until(self.are_shared)

    async def join(self, group: str) -> None:
        """One more member."""
        history, members = self.histories[group], self._members[group]
        name = f"{group}-{next(self._numbers)}"
        bootstrap = self._cluster.bootstrap
        if group in self._processes:
            members.append(ForeignMember(self._processes[group], bootstrap, name, history))
        else:
            members.append(OwnMember(bootstrap, name, history))
        await members[-1].start()

    async def replace_first(self, group: str) -> None:
        """A new member comes and the oldest goes."""
        await self.join(group)
        await self._members[group].pop(0).stop()

    async def are_shared(self) -> bool:
        return all(
            one.timeline.counts() == [3, 3] and one.read_count for one in self.histories.values()
        )

    def progress(self) -> int:
        """What every load and every group has done at least."""
        for load in self._loads:
            load.check()
        for history in self.histories.values():
            assert history.failures == []
        counts = [history.read_count for history in self.histories.values()]
        return min(*counts, *(load.count for load in self._loads))

    def acknowledged(self, topic: str) -> dict[int, list[int]]:
        """The offsets by partition that the producer knows of."""
        found: dict[int, list[int]] = defaultdict(list)
        for line in (self._directory / f"{topic}.txt").read_text().splitlines():
            partition, _, offset = map(int, line.split())
            found[partition].append(offset)
        return found

    def end_loads(self) -> None:
        """No send may have failed."""
        for load in self._loads:
            load.end()

    async def are_done(self) -> bool:
        """Whether every group has committed everything."""
        return all(
            history.ends() == self.ends(history.topic) for history in self.histories.values()
        )

    def ends(self, topic: str) -> dict[int, int]:
        return {p: max(offsets) + 1 for p, offsets in self.acknowledged(topic).items()}

    async def stop(self) -> None:
        """Everybody leaves in an orderly way; loads that still run are killed."""
        for load in self._loads:
            load.kill()
        for members in self._members.values():
            await asyncio.gather(*(member.stop() for member in members))
        for process in self._processes.values():
            await process.stop()


def test_groups_of_every_client_lose_and_double_nothing_when_coordinators_go(
    cluster: BarnabasCluster, tmp_path: Path
) -> None:
    """OFS-2 to OFS-5: nobody hears of it while members stay; members that change commit in time."""

    async def run() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            topics = [FROM_JAVA, FROM_LIBRDKAFKA]
            new = [NewTopic(name=topic, partition_count=PARTITIONS) for topic in topics]
            await cluster.create_topics(admin, *new)
            stage = Stage(cluster, admin, tmp_path)
            changes: list[asyncio.Task[None]] = []
            events_before: list[int] = []

            async def victim() -> int:
                # Nobody was told anything while three brokers were stopped and started.
                assert event_counts(stage) == events_before
                described = (await admin.groups.describe(["java-4.1.1"])).unwrap()
                changes.extend(asyncio.create_task(stage.replace_first(group)) for group in GROUPS)
                return described["java-4.1.1"].coordinator_id

            try:
                await stage.start()
                events_before = event_counts(stage)
                await lose_each_broker(cluster, admin, topics, stage.progress, victim=victim)
                await asyncio.gather(*changes)
                await until(stage.are_shared)
                await asyncio.to_thread(stage.end_loads)
                await until(stage.are_done)
            finally:
                await stage.stop()
            for history in stage.histories.values():
                assert history.violations(stage.acknowledged(history.topic)) == []
                history.timeline.check()
                print(history)
            wanted = {group: stage.ends(topic) for group, topic in GROUPS.items()}
            await check_offsets_survive(cluster, admin, wanted, tmp_path)

    asyncio.run(run())


def event_counts(stage: Stage) -> list[int]:
    """How often the members of each group were given or deprived of something."""
    return [len(history.timeline.events) for history in stage.histories.values()]


async def check_offsets_survive(
    cluster: BarnabasCluster, admin: Admin, wanted: Offsets, directory: Path
) -> None:
    """OFS-2, OFS-11: all brokers tell the same, whichever is stopped or killed."""
    assert await asyncio.to_thread(described, cluster, set(), directory / "before") == wanted
    for broker in cluster.brokers.values():
        await asyncio.to_thread(broker.stop)
        assert await committed(admin, wanted) == wanted
        await asyncio.to_thread(broker.start)
        await cluster.until_in_sync(admin, [])
    node_id = (await admin.groups.describe(["ours"])).unwrap()["ours"].coordinator_id
    await asyncio.to_thread(cluster.brokers[node_id].kill)
    assert await committed(admin, wanted) == wanted
    assert await asyncio.to_thread(described, cluster, {node_id}, directory / "after") == wanted
    await asyncio.to_thread(cluster.brokers[node_id].start)


async def committed(admin: Admin, wanted: Mapping[str, object]) -> Offsets:
    """What our client says of the groups."""
    listed = (await admin.group_offsets.list(list(wanted))).unwrap()
    return {
        group: {TopicPartition(*one).partition: at.offset for one, at in offsets.items() if at}
        for group, offsets in listed.items()
    }


def described(cluster: BarnabasCluster, away: set[int], directory: Path) -> Offsets:
    """What kafka-consumer-groups says of all groups, the same by every broker that runs."""
    running = [one for node_id, one in cluster.brokers.items() if node_id not in away]
    asked = ("--describe", "--all-groups")
    calls = [ToolCall("groups", ("--bootstrap-server", one.bootstrap, *asked)) for one in running]
    results = run_tools(calls, directory)
    answers = []
    for result in results:
        assert result.exit_code == 0, result.errors
        offsets: Offsets = defaultdict(dict)
        rows = [line.split() for line in result.output.splitlines() if line.strip()]
        for group, topic, partition, current, end, lag, *_ in rows:
            if group != "GROUP" and topic == GROUPS.get(group):
                assert (current, lag) == (end, "0")
                offsets[group][int(partition)] = int(current)
        answers.append(dict(offsets))
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


def test_a_member_that_dies_with_the_coordinator_is_missed_by_the_next(
    cluster: BarnabasCluster,
) -> None:
    """OFS-3, GRP-16: the next coordinator gives its partitions to the other member in time."""
    topic = "widowed"

    async def run() -> None:
        history = GroupHistory("widows", topic)
        load = NumberedLoad(cluster.bootstrap, topic, PARTITIONS)
        processes = {"java": JavaProcess("4.1.1"), "librdkafka": librdkafka_process()}
        members = {
            name: ForeignMember(
                process, cluster.bootstrap, name, history, session_timeout_ms="6000"
            )
            for name, process in processes.items()
        }

        async def is_shared_by(*counts: int) -> bool:
            assert history.failures == []
            return history.timeline.counts() == [*counts]

        async def is_done() -> bool:
            return history.ends() == {p: max(o.values()) + 1 for p, o in load.offsets.items()}

        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            await cluster.create_topics(admin, NewTopic(name=topic, partition_count=PARTITIONS))
            producing = asyncio.create_task(load.run())
            try:
                for member in members.values():
                    await member.start()
                await until(lambda: is_shared_by(3, 3))
                group = (await admin.groups.describe([history.group])).unwrap()[history.group]
                await asyncio.to_thread(cluster.brokers[group.coordinator_id].kill)
                await processes["librdkafka"].kill()
                history.died("librdkafka")
                await until(lambda: is_shared_by(6))
                load.stop()
                await producing
                await until(is_done)
            finally:
                load.stop()
                await producing
                await members["java"].stop()
                await processes["java"].stop()
        assert load.failures == []
        assert history.violations({p: o.values() for p, o in load.offsets.items()}) == []
        history.timeline.check()

    asyncio.run(run())
