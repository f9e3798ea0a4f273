"""Five real brokers on hosts of their own, an arbiter in etcd, and clients of three kinds.

Producers of Java, librdkafka and ours number their records; groups of all three read and commit
after processing. What they say is the history that is checked in the end.
"""

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.ids import TopicPartition
from tests.interop.committing_members import ForeignMember, GroupHistory, Member, OwnMember
from tests.interop.java_readers import JavaProcess, MemberProcess
from tests.interop.producer_loads import (
    Load,
    java_load,
    librdkafka_load,
    load_violations,
    own_load,
)
from tests.soak.resources import Usage, usage
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.cache import python_environment
from tests.support.client_programs import CLIENT_ENVIRONMENT, INTEROP
from tests.support.etcd_process import EtcdProcess
from tests.support.kafka_cluster import until
from tests.support.network_namespaces import NetworkNamespaces

BROKERS = 5
PARTITIONS = 6
PAUSE_MS = 20
#: Never killed, stopped or filled up: its process lives as long as the soak, so what it uses tells.
WITNESS = BROKERS - 1
FROM_JAVA, FROM_LIBRDKAFKA, FROM_OURS = "from-java", "from-librdkafka", "from-ours"
TOPICS = (FROM_JAVA, FROM_LIBRDKAFKA, FROM_OURS)
#: The groups by what their members are, with the topic of each.
GROUPS = {"java": FROM_LIBRDKAFKA, "librdkafka": FROM_OURS, "ours": FROM_JAVA}
_LOADS = {FROM_JAVA: java_load, FROM_LIBRDKAFKA: librdkafka_load, FROM_OURS: own_load}


class Stage:
    """Brokers, store and clients; `start` before, `stop` after the faults."""

    def __init__(self, hosts: NetworkNamespaces, etcd: EtcdProcess, directory: Path) -> None:
        self.hosts = hosts
        self.etcd = etcd
        self.directory = directory
        self.cluster = BarnabasCluster(
            directory / "cluster",
            BROKERS,
            properties={
                "arbiter.backend": "etcd",
                "arbiter.etcd.endpoints": f"http://{hosts.gateway}:{etcd.port}",
                "arbiter.request.timeout.ms": "1000",
                "log.segment.bytes": "4194304",
                "log.retention.ms": "-1",
            },
            hosts=hosts,
        )
        self.histories = {group: GroupHistory(group, topic) for group, topic in GROUPS.items()}
        self.samples: dict[int, list[Usage]] = defaultdict(list)
        self._loads: list[Load] = []
        self._members: list[Member] = []
        self._processes: list[MemberProcess] = []

    @property
    def brokers(self) -> dict[int, BarnabasProcess]:
        return self.cluster.brokers

    async def start(self) -> None:
        """Topics are there, loads run, each group has two members."""
        async with Admin(self.cluster.bootstrap) as admin:
            await self.cluster.until_formed(admin)
            policies = {FROM_OURS: "group-fsync"}
            new = [
                NewTopic(
                    name=topic,
                    partition_count=PARTITIONS,
                    configs={"barnabas.flush.policy": policies.get(topic, "page-cache")},
                )
                for topic in TOPICS
            ]
            await self.cluster.create_topics(admin, *new)
        for topic, make in _LOADS.items():
            path = self.directory / f"{topic}.txt"
            bootstrap = self.cluster.bootstrap
            self._loads.append(make(bootstrap, topic, PARTITIONS, path, pause_ms=PAUSE_MS))
        python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
        module = "tests.interop.clients.librdkafka_group_reader"
        processes: dict[str, MemberProcess] = {
            "java": JavaProcess("4.1.1"),
            "librdkafka": MemberProcess([str(python), "-m", module], CLIENT_ENVIRONMENT),
        }
        self._processes += processes.values()
        for group, history in self.histories.items():
            for number in range(2):
                await self._join(group, f"{group}-{number}", history, processes)
        await self.until_going(100)

    async def _join(
        self,
        group: str,
        name: str,
        history: GroupHistory,
        processes: dict[str, MemberProcess],
    ) -> None:
        bootstrap = self.cluster.bootstrap
        if group in processes:
            self._members.append(ForeignMember(processes[group], bootstrap, name, history))
        else:
            self._members.append(OwnMember(bootstrap, name, history))
        await self._members[-1].start()

    def produced(self) -> dict[str, int]:
        """How many records were acknowledged, by topic."""
        return {load.topic: load.count for load in self._loads}

    async def until_going(self, step: int, *, in_all_partitions: bool = True) -> None:
        """Every load has that many more records acknowledged, some of them of each partition.

        While a leader is frozen or cut off, clients wait for as long as their requests may take,
        and then for those that they have sent meanwhile.
        """
        before = self._acknowledged_counts()

        async def have_gone_on() -> bool:
            for load in self._loads:
                load.check()
            now = self._acknowledged_counts()
            gone_on = {topic: now[topic] - before[topic] for topic in TOPICS}
            return all(
                count.total() >= step and (not in_all_partitions or len(count) == PARTITIONS)
                for count in gone_on.values()
            )

        try:
            await until(have_gone_on)
        except TimeoutError:
            now = self._acknowledged_counts()
            gone_on = {topic: dict(now[topic] - before[topic]) for topic in TOPICS}
            raise AssertionError(f"acknowledged meanwhile, by partition: {gone_on}") from None

    def _acknowledged_counts(self) -> dict[str, Counter[int]]:
        """How many records of each partition were acknowledged, by topic."""
        return {load.topic: load.acknowledged_counts() for load in self._loads}

    async def until_mended(self) -> None:
        """Every broker serves, nothing is on the move, every replica is in sync."""
        await asyncio.to_thread(self.cluster.start)
        async with Admin(self.cluster.bootstrap) as admin:
            await self.cluster.until_formed(admin)

            async def is_settled() -> bool:
                return not await admin.partitions.list_reassignments()

            await until(is_settled)
            await self.cluster.until_in_sync(admin, TOPICS)
        for history in self.histories.values():
            assert history.failures == [], history.failures

    async def sample(self) -> None:
        """Note what each broker uses, but for one whose admin port is not open yet."""
        for node_id, broker in self.brokers.items():
            with suppress(OSError):
                self.samples[node_id].append(await asyncio.to_thread(usage, broker))

    async def reassign(self, targets: dict[TopicPartition, list[int]]) -> None:
        """Begin to move partitions."""
        async with Admin(self.cluster.bootstrap) as admin:
            await admin.partitions.reassign(targets)

    async def finish(self) -> list[str]:
        """Loads deliver what they have, groups read to the end; returns what is wrong."""
        for load in self._loads:
            await asyncio.to_thread(load.end)
        await self.until_mended()
        acknowledged = {topic: self._acknowledged(topic) for topic in TOPICS}
        ends = {
            topic: {partition: max(some) + 1 for partition, some in offsets.items()}
            for topic, offsets in acknowledged.items()
        }

        async def have_read_all() -> bool:
            return all(one.ends() == ends[one.topic] for one in self.histories.values())

        problems = []
        try:
            await until(have_read_all)
        except TimeoutError:
            problems += [
                f"{one.group} has committed {one.ends()} of {ends[one.topic]}"
                for one in self.histories.values()
                if one.ends() != ends[one.topic]
            ]
        for load in self._loads:
            bootstrap = self.cluster.bootstrap
            found = await asyncio.to_thread(load_violations, bootstrap, load, self.directory)
            problems += [f"{load.topic}: {one}" for one in found]
        for history in self.histories.values():
            found = history.violations(acknowledged[history.topic])
            problems += [f"group {history.group}: {one}" for one in found]
        return problems

    def _acknowledged(self, topic: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for line in (self.directory / f"{topic}.txt").read_text().splitlines():
            partition, _, offset = map(int, line.split())
            if offset >= 0:  # else it is there, but the broker does not know where any more
                found[partition].append(offset)
        return found

    async def stop(self) -> None:
        """Members leave, and what still runs of the clients is ended."""
        for load in self._loads:
            load.kill()
        await asyncio.gather(*(member.stop() for member in self._members), return_exceptions=True)
        for process in self._processes:
            await process.stop()
