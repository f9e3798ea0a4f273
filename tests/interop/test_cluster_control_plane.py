"""The control plane of real brokers: they stop at once, come back in any order, are doubled.

Observers are brokers beyond the number of members; five brokers with three members have two.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = NewTopic(name="kept", partition_count=30, replication_factor=3)
MANY_TOPICS = 12
SNAPSHOT_BYTES = "20000"


def lines_of(cluster: BarnabasCluster, *wanted: str) -> list[str]:
    """The lines of all brokers' logs that hold one of some words."""
    return [
        f"broker {node_id}: {line}"
        for node_id, broker in cluster.brokers.items()
        for line in (broker.directory / "broker.log").read_text().splitlines()
        if any(word in line for word in wanted)
    ]


def leader_of(cluster: BarnabasCluster) -> int:
    """Who leads the control plane."""
    for broker in cluster.brokers.values():
        try:
            return int(broker.status()["controller"]["node_id"])
        except OSError:
            continue  # its admin HTTP comes later than its listener
    raise AssertionError("no broker tells its status")


async def until_whole(cluster: BarnabasCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await cluster.until_formed(admin)
        await cluster.until_in_sync(admin, [TOPIC.name])


async def start_in_order(cluster: BarnabasCluster, order: Sequence[int]) -> None:
    """One after the other: each accepts connections before the next begins."""
    for node_id in order:
        await asyncio.to_thread(cluster.brokers[node_id].start)


def test_a_cluster_that_stops_at_once_comes_back_in_any_order(tmp_path: Path) -> None:
    """STOP-3, STOP-7: nobody waits out a drain that nobody is left to decide on."""

    async def run() -> None:
        cluster = BarnabasCluster(tmp_path, 5)
        with cluster:
            async with Admin(cluster.bootstrap) as admin:
                await cluster.until_formed(admin)
                await cluster.create_topics(admin, TOPIC)
            assert set((await asyncio.to_thread(cluster.stop)).values()) == {0}
            await start_in_order(cluster, (4, 2, 1, 3, 0))
            await until_whole(cluster)
        assert lines_of(cluster, "the time for it was over", " ERROR ", " CRITICAL ") == []

    asyncio.run(run())


@pytest.mark.parametrize("of_the_controller", [False, True])
def test_a_second_process_of_a_member_s_id_changes_nothing(
    tmp_path: Path, of_the_controller: bool
) -> None:
    """NODE-7: it gives up, and the disk of the first stays the member.

    The controller refuses it, unless it is the controller whose id it has: it finds nobody to ask.
    """

    async def run() -> None:
        with BarnabasCluster(tmp_path) as cluster:
            async with Admin(cluster.bootstrap) as admin:
                await cluster.until_formed(admin)
                await cluster.create_topics(admin, TOPIC)
            victim = (leader_of(cluster) + (0 if of_the_controller else 1)) % 3
            first = cluster.brokers[victim]
            own = ("listeners", "advertised.listeners", "log.dirs", "admin.http.port")
            twin = BarnabasProcess(
                tmp_path / "twin",
                properties={
                    name: value for name, value in first.properties.items() if name not in own
                }
                | {"initial.broker.registration.timeout.ms": "4000"},
            )
            await asyncio.to_thread(twin.start)
            assert twin.process is not None
            await asyncio.to_thread(twin.process.process.wait, 60)
            assert twin.stop() == 1
            reason = "REQUEST_TIMED_OUT" if of_the_controller else "DUPLICATE_BROKER_REGISTRATION"
            assert f"the broker could not register: {reason}" in twin.process.log_tail()
            assert len(lines_of(cluster, "asking for members")) <= 2  # while the cluster formed
            await until_whole(cluster)

    asyncio.run(run())


def test_a_lost_member_is_replaced_and_comes_back_by_a_snapshot(tmp_path: Path) -> None:
    """Section 2 of the design: members are replaced; who was gone for long loads the snapshot."""

    async def run() -> None:
        properties = {
            "metadata.member.lost.ms": "3000",
            "metadata.log.max.record.bytes.between.snapshots": SNAPSHOT_BYTES,
        }
        with BarnabasCluster(tmp_path, 4, properties) as cluster:
            async with Admin(cluster.bootstrap) as admin:
                await cluster.until_formed(admin)
                await cluster.create_topics(admin, TOPIC)
                lost = min(cluster.members - {leader_of(cluster)})
                cluster.brokers[lost].kill()
                names = [f"made-{number}" for number in range(MANY_TOPICS)]
                for name in names:
                    (await admin.topics.create([NewTopic(name=name, partition_count=20)])).unwrap()

                async def is_replaced() -> bool:
                    return len(cluster.members) == 3 and lost not in cluster.members

                await until(is_replaced)
                await asyncio.to_thread(cluster.brokers[lost].start)
                await cluster.until_formed(admin)
                await cluster.until_in_sync(admin, [TOPIC.name, *names])
            directory = cluster.brokers[lost].data_directory / "__cluster_metadata-0"
            assert any(directory.glob("*.checkpoint"))

    asyncio.run(run())
