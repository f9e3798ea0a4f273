"""Java's share consumers on three brokers, of which each goes and comes back.

With one consumer the group's coordinator, its share coordinators and the leaders all move. As
`test_client_share_cluster.py` does for our consumers.
"""

import asyncio
from collections.abc import Iterator

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.interop.cluster_load import NumberedLoad
from tests.interop.java_share_readers import JavaShareProcess, JavaShareReader
from tests.interop.share_brokers import configure, share_cluster_of, switch_on
from tests.interop.started_brokers import AnyCluster
from tests.support.kafka_cluster import BROKER_IDS, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

PARTITION_COUNT = 6
STEP = 100
VERSION = "4.2.0"


@pytest.fixture(params=["barnabas", VERSION])
def share_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyCluster]:
    """Three brokers with share groups switched on."""
    with share_cluster_of(request.param, tmp_path_factory.mktemp("java-share")) as running:
        asyncio.run(switch_on(running.bootstrap))
        yield running


def test_java_loses_no_record_while_brokers_go(share_cluster: AnyCluster) -> None:
    """SHR-28, SHR-33: what was sent is delivered, some of it again; members stay in the group."""
    topic, group = "jobs", "workers"

    async def run() -> None:
        process = JavaShareProcess(VERSION)
        async with Admin(share_cluster.bootstrap) as admin:
            await share_cluster.create_topics(
                admin, NewTopic(name=topic, partition_count=PARTITION_COUNT, replication_factor=3)
            )
            await configure(admin, group, share_auto_offset_reset="earliest")
            load = NumberedLoad(share_cluster.bootstrap, topic, PARTITION_COUNT)
            readers = [JavaShareReader(process, name) for name in ("one", "two")]
            for reader in readers:
                await reader.start(share_cluster.bootstrap, topic, group)
            sending = asyncio.create_task(load.run())

            def seen() -> set[tuple[int, int]]:
                return {(each.partition, each.offset) for one in readers for each in one.deliveries}

            async def goes_on() -> None:
                wanted = len(seen()) + STEP

                async def has_come() -> bool:
                    return len(seen()) >= wanted

                await until(has_come)

            async def have_all() -> bool:
                sent = {
                    (partition, offset)
                    for partition, offsets in load.offsets.items()
                    for offset in offsets.values()
                }
                return sent <= seen()

            try:
                await goes_on()
                for node_id in BROKER_IDS:
                    broker = share_cluster.brokers[node_id]
                    await asyncio.to_thread(broker.kill if node_id == 1 else broker.stop)
                    await goes_on()
                    await asyncio.to_thread(broker.start)
                    await share_cluster.until_in_sync(admin, [topic])
                await goes_on()
                load.stop()
                await sending
                assert load.failures == []
                await until(have_all)
                described = (await admin.share_groups.describe([group])).unwrap()[group]
                assert len(described.members) == 2
                for reader in readers:
                    await reader.stop()
            finally:
                load.stop()
                await process.stop()

    asyncio.run(run())
