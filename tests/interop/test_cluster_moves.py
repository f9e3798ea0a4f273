"""Partitions move around four real brokers under load, also while one of them is dead.

Every record that was acknowledged is there in the end, once, in order and at its offset (LEAD-10).
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic, PartitionDescription
from barnabas_protocol.ids import TopicPartition
from tests.client.producer.reading import read_all
from tests.interop.cluster_load import NumberedLoad
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "numbered"
PARTITIONS = 12
BROKERS = 4
ROUNDS = 4
LOST = 3


async def partitions_of(admin: Admin) -> Mapping[int, PartitionDescription]:
    return (await admin.topics.describe([TOPIC])).unwrap()[TOPIC].partitions


async def until_moved(admin: Admin) -> None:
    async def is_moved() -> bool:
        return not await admin.partitions.list_reassignments()

    await until(is_moved)


async def move_everything_around(admin: Admin) -> None:
    """Each replica goes to the next broker, time after time; then the preferred ones lead."""
    for _ in range(ROUNDS):
        targets = {
            TopicPartition(TOPIC, index): tuple((node + 1) % BROKERS for node in state.replica_ids)
            for index, state in (await partitions_of(admin)).items()
        }
        (await admin.partitions.reassign(targets)).unwrap()
        await until_moved(admin)
        for index, state in (await partitions_of(admin)).items():
            assert state.replica_ids == targets[TopicPartition(TOPIC, index)]
            assert state.leader_id in state.in_sync_replica_ids
        await admin.partitions.elect_leaders()


async def move_while_one_is_dead(cluster: BarnabasCluster, admin: Admin) -> None:
    """Away from the dead broker at once; back to it only when it is back."""
    everything = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    cluster.brokers[LOST].kill()

    async def is_led() -> bool:
        states = (await partitions_of(admin)).values()
        return all(state.leader_id not in (None, LOST) for state in states)

    await until(is_led)
    (await admin.partitions.reassign(dict.fromkeys(everything, (0, 1, 2)))).unwrap()
    await until_moved(admin)
    (await admin.partitions.reassign(dict.fromkeys(everything, (LOST, 0, 1)))).unwrap()
    assert len(await admin.partitions.list_reassignments()) == PARTITIONS
    cancelled, going_on = everything[:6], everything[6:]
    (await admin.partitions.reassign(dict.fromkeys(cancelled))).unwrap()
    assert set(await admin.partitions.list_reassignments()) == set(going_on)
    cluster.brokers[LOST].start()
    await until_moved(admin)
    states = await partitions_of(admin)
    assert all(set(states[one.partition].replica_ids) == {0, 1, 2} for one in cancelled)
    assert all(states[one.partition].replica_ids == (LOST, 0, 1) for one in going_on)


def test_moves_lose_and_double_nothing(tmp_path: Path) -> None:
    """LEAD-10, LEAD-11, TXL-1: with an idempotent producer at work."""

    async def run(cluster: BarnabasCluster) -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            await cluster.create_topics(admin, NewTopic(name=TOPIC, partition_count=PARTITIONS))
            load = NumberedLoad(cluster.bootstrap, TOPIC, PARTITIONS)
            producing = asyncio.create_task(load.run())
            try:
                await move_everything_around(admin)
                await move_while_one_is_dead(cluster, admin)
                cluster.brokers[1].stop()
                cluster.brokers[1].start()
                await cluster.until_in_sync(admin, [TOPIC])
            finally:
                load.stop()
                await producing
        assert load.failures == []
        found = await read_all(cluster.bootstrap, TOPIC, is_committed=True)
        assert len(found) == PARTITIONS
        for partition, records in found.items():
            numbers = [int(record.value or b"") for record in records]
            assert numbers == list(range(load.sent_per_partition)), partition
            offsets = [record.offset for record in records]
            assert offsets == [load.offsets[partition][number] for number in numbers]

    with BarnabasCluster(tmp_path, BROKERS) as cluster:
        asyncio.run(run(cluster))
