"""Our client on three brokers, of Apache Kafka and of Barnabas, that leave and come back in turn.

Each test has its load going while every broker is stopped in an orderly way and one is killed: all
leaders and coordinators move several times. Not here: one broker alone (`test_client_*_kill.py`),
replicas and elections (`test_client_cluster_replicas.py`).
"""

import asyncio
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.ids import TopicPartition
from tests.client.producer.reading import read_all
from tests.interop.cluster_load import NumberedLoad, lose_each_broker
from tests.interop.cluster_readers import GroupReading, Processor
from tests.interop.started_brokers import AnyCluster
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


async def leader_of(admin: Admin, topic: str, partition: int) -> int:
    described = (await admin.topics.describe([topic])).unwrap()[topic]
    leader_id = described.partitions[partition].leader_id
    assert leader_id is not None
    return leader_id


def test_what_was_acknowledged_is_there_once_in_order_and_where_it_was_said_to_be(
    cluster: AnyCluster,
) -> None:
    """Twelve partitions change their leaders; no send fails (PRD-8, PRD-9)."""
    topic, partition_count = "numbered", 12

    async def run() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.create_topics(admin, NewTopic(name=topic, partition_count=12))
            load = NumberedLoad(cluster.bootstrap, topic, partition_count)
            producing = asyncio.create_task(load.run())
            try:
                await lose_each_broker(
                    cluster,
                    admin,
                    [topic],
                    lambda: load.acknowledged_count,
                    victim=lambda: leader_of(admin, topic, 0),
                )
            finally:
                load.stop()
                await producing
        assert load.failures == []
        found = await read_all(cluster.bootstrap, topic, is_committed=True)
        assert len(found) == partition_count
        for partition, records in found.items():
            numbers = [int(record.value or b"") for record in records]
            assert numbers == list(range(load.sent_per_partition))
            offsets = [record.offset for record in records]
            assert offsets == [load.offsets[partition][number] for number in numbers]

    asyncio.run(run())


GROUPS: dict[str, dict[str, Any]] = {
    "cooperative": {
        "group_protocol": "classic",
        "partition_assignment_strategy": ["cooperative-sticky"],
    },
    "range": {"group_protocol": "classic", "partition_assignment_strategy": ["range"]},
    "next": {"group_protocol": "consumer"},
}


def test_groups_survive_and_skip_nothing(cluster: AnyCluster) -> None:
    """Two members each of three kinds of group; their coordinators are lost, too (CON-10)."""
    topic, partition_count = "shared", 12

    async def run() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.create_topics(admin, NewTopic(name=topic, partition_count=12))
            load = NumberedLoad(cluster.bootstrap, topic, partition_count)
            groups = [
                GroupReading(cluster.bootstrap, topic, name, **settings)
                for name, settings in GROUPS.items()
            ]
            producing = asyncio.create_task(load.run())
            for group in groups:
                group.start(2)

            async def are_settled() -> bool:
                return all(group.ownership.counts() == [6, 6] for group in groups)

            async def have_read_all() -> bool:
                return all(
                    group.seen[partition] >= set(offsets.values())
                    for group in groups
                    for partition, offsets in load.offsets.items()
                )

            try:
                await until(are_settled)
                before = [group.identities() for group in groups]
                await lose_each_broker(
                    cluster,
                    admin,
                    [topic],
                    lambda: min(load.acknowledged_count, *(group.read_count for group in groups)),
                    victim=lambda: coordinator_of(admin, "cooperative"),
                )
                assert [group.identities() for group in groups] == before
                load.stop()
                await producing
                assert load.failures == []
                await until(have_read_all)
            finally:
                load.stop()
                await asyncio.gather(producing, *(group.stop() for group in groups))
            committed = (await admin.group_offsets.list(list(GROUPS))).unwrap()
            ends = {
                TopicPartition(topic, partition): max(offsets.values()) + 1
                for partition, offsets in load.offsets.items()
            }
            for group in groups:
                assert group.violations == []
                assert group.commit_count
                assert group.ownership.violations == []
                assert "lost" not in {kind for notes in group.notes for kind, _ in notes.calls}
                offsets = committed[group.group]
                assert {p: one.offset for p, one in offsets.items() if one is not None} == ends

    asyncio.run(run())


async def coordinator_of(admin: Admin, group: str) -> int:
    return (await admin.groups.describe([group])).unwrap()[group].coordinator_id


def test_transactions_copy_each_record_once(cluster: AnyCluster) -> None:
    """Offsets and copies are committed together, whichever coordinator dies (TXN-9)."""
    source, target, partition_count = "source", "target", 6

    async def run() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.create_topics(
                admin,
                NewTopic(name=source, partition_count=partition_count),
                NewTopic(name=target, partition_count=partition_count),
            )
            load = NumberedLoad(cluster.bootstrap, source, partition_count)
            stop = asyncio.Event()
            processors = [
                Processor(cluster.bootstrap, source, target, name, group_id="copiers")
                for name in ("copier-1", "copier-2")
            ]
            producing = asyncio.create_task(load.run())
            copying = [asyncio.create_task(one.run(stop)) for one in processors]

            async def transaction_coordinator() -> int:
                described = await admin.transactions.describe(["copier-1"])
                return described.unwrap()["copier-1"].coordinator_id

            def copied() -> int:
                return sum(one.copied_count for one in processors)

            async def is_all_copied() -> bool:
                return copied() >= load.sent_per_partition * partition_count

            try:
                await lose_each_broker(
                    cluster, admin, [source, target], copied, victim=transaction_coordinator
                )
                load.stop()
                await producing
                assert load.failures == []
                await until(is_all_copied)
            finally:
                load.stop()
                stop.set()
                await asyncio.gather(producing, *copying)
            print([(one.committed_count, one.aborts) for one in processors])

            async def is_all_visible() -> bool:
                found = await read_all(cluster.bootstrap, target, is_committed=True)
                return sum(map(len, found.values())) >= load.sent_per_partition * partition_count

            await until(is_all_visible)
        for records in (await read_all(cluster.bootstrap, target, is_committed=True)).values():
            numbers = [int(record.value or b"") for record in records]
            assert numbers == list(range(load.sent_per_partition))

    asyncio.run(run())
