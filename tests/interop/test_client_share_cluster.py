"""Our share consumers on three brokers that leave and come back: leaders and coordinators move.

Not here: one broker alone (`test_client_share_groups.py`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from barnabas_client import ShareConsumer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.interop.cluster_load import NumberedLoad
from tests.interop.share_brokers import configure, share_cluster_of, switch_on
from tests.interop.started_brokers import AnyCluster
from tests.support.kafka_cluster import BROKER_IDS, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PARTITION_COUNT = 6
STEP = 100


@pytest.fixture(params=["barnabas", "4.2.0"])
def share_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyCluster]:
    """Three brokers with share groups switched on."""
    directory = tmp_path_factory.mktemp("share-cluster")
    with share_cluster_of(request.param, directory) as running:
        asyncio.run(switch_on(running.bootstrap))
        yield running


class Workers:
    """Members of one share group, and what they have processed."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        self._stop = asyncio.Event()
        #: How often each offset of each partition was delivered.
        self.seen: Counter[tuple[int, int]] = Counter()

    async def work(self) -> None:
        async with ShareConsumer(self._bootstrap, group_id=self._group) as consumer:
            consumer.subscribe([self._topic])
            while not self._stop.is_set():
                for record in await consumer.poll(timeout_ms=500):
                    self.seen[record.partition, record.offset] += 1

    def stop(self) -> None:
        self._stop.set()


def test_no_record_is_lost_while_leaders_move(share_cluster: AnyCluster) -> None:
    """SHR-33, SHR-41: some are delivered again, none is left out; no poll raises."""
    topic, group = "jobs", "workers"

    async def run() -> None:
        async with Admin(share_cluster.bootstrap) as admin:
            await share_cluster.create_topics(
                admin, NewTopic(name=topic, partition_count=PARTITION_COUNT, replication_factor=3)
            )
            await configure(admin, group, share_auto_offset_reset="earliest")
            load = NumberedLoad(share_cluster.bootstrap, topic, PARTITION_COUNT)
            workers = Workers(share_cluster.bootstrap, topic, group)
            tasks = [asyncio.create_task(workers.work()) for _ in range(2)]
            tasks.append(asyncio.create_task(load.run()))

            async def goes_on() -> None:
                wanted = len(workers.seen) + STEP

                async def has_come() -> bool:
                    for task in tasks:
                        if task.done():
                            await task
                    return len(workers.seen) >= wanted

                await until(has_come)

            async def have_all() -> bool:
                return all(
                    workers.seen[partition, offset]
                    for partition, offsets in load.offsets.items()
                    for offset in offsets.values()
                )

            try:
                await goes_on()
                for node_id in BROKER_IDS[:2]:
                    broker = share_cluster.brokers[node_id]
                    await asyncio.to_thread(broker.kill if node_id == 1 else broker.stop)
                    await goes_on()
                    await asyncio.to_thread(broker.start)
                    await share_cluster.until_in_sync(admin, [topic])
                await goes_on()
                load.stop()
                await tasks[-1]
                assert load.failures == []
                await until(have_all)
            finally:
                load.stop()
                workers.stop()
                await asyncio.gather(*tasks)

    asyncio.run(run())
