"""A whole cluster as the operator sees and changes it: three real brokers, one of them leaves."""

import asyncio
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import UsageError
from barnabas_operator.gateway.broker_admin import BrokerAdmin
from barnabas_operator.gateway.kafka_cluster import KafkaCluster, KafkaClusters
from barnabas_operator.reconcile.broker.cluster_state import (
    ClusterView,
    MetadataMembers,
    PartitionView,
)
from barnabas_protocol.ids import TopicPartition
from tests.support.barnabas_cluster import CLUSTER_ID, BarnabasCluster
from tests.support.kafka_cluster import until
from tests.support.processes import free_port

PLACE = TopicPartition("orders", 0)


class OneAdmin:
    """The clients of one cluster, whatever Broker is asked for."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def admin(self, namespace: str, name: str) -> Admin:
        return self._admin


def test_a_cluster_is_seen_changed_and_left_as_the_plans_want_it(tmp_path: Path) -> None:
    """operator.md 5: describe, alter in place, move partitions away, unregister."""

    async def run(brokers: BarnabasCluster) -> None:
        async with Admin(brokers.bootstrap) as admin:
            await brokers.until_formed(admin)
            await brokers.create_topics(
                admin,
                NewTopic(name="orders", partition_count=2, replication_factor=2),
                NewTopic(name="alone", partition_count=1, replication_factor=1),
            )
            cluster = await KafkaClusters(OneAdmin(admin)).cluster("kafka", "demo")
            await check_what_is_seen(cluster, brokers)
            await check_settings(cluster)
            await check_leaving(cluster, brokers)

    with BarnabasCluster(tmp_path, 3) as brokers:
        asyncio.run(run(brokers))


async def check_what_is_seen(cluster: KafkaCluster, brokers: BarnabasCluster) -> None:
    """Brokers, racks, partitions with min ISR, and what each process says of itself."""
    view = await cluster.observe()
    assert view.cluster_id == CLUSTER_ID
    assert view.controller_id in view.live_ids
    assert view.live_ids == {0, 1, 2}
    assert {node_id: broker.rack for node_id, broker in view.brokers.items()} == {
        0: "rack-0",
        1: "rack-1",
        2: "rack-2",
    }
    assert view.members == MetadataMembers(
        ids=frozenset({0, 1, 2}), in_touch=frozenset({0, 1, 2}), wanted=3
    )
    orders = partition(view, PLACE)
    assert orders.in_sync == frozenset(orders.replicas)
    assert orders.in_sync_min == 2
    assert orders.is_unguarded
    assert not orders.is_under_replicated
    for node_id, broker in brokers.brokers.items():
        await until_it_says_that_it_runs(node_id, BrokerAdmin(broker.admin_port))
    assert await BrokerAdmin(free_port()).statuses({7: "127.0.0.1"}) == {}


async def until_it_says_that_it_runs(node_id: int, broker: BrokerAdmin) -> None:
    """The admin port opens a little later than Kafka's."""

    async def says_so() -> bool:
        said = (await broker.statuses({7: "127.0.0.1"})).get(7)
        return said is not None and (said.node_id, said.state, said.drain) == (
            node_id,
            "RUNNING",
            "running",
        )

    await until(says_so)


async def check_settings(cluster: KafkaCluster) -> None:
    """What can change in place is known from the brokers, and is changed for all of them."""
    settings = (await cluster.observe()).settings
    assert settings is not None
    assert "log.retention.ms" in settings.live
    assert "broker.rack" in settings.known - settings.live
    assert settings.defaults["num.io.threads"] == "8"
    # The cluster's min.insync.replicas is in the metadata from the beginning.
    before = dict(settings.overrides)
    assert before == {"min.insync.replicas": "2"}
    await cluster.change_settings({"num.io.threads": "9"}, [])

    async def is_set() -> bool:
        seen = (await cluster.observe()).settings
        return seen is not None and dict(seen.overrides) == {**before, "num.io.threads": "9"}

    await until(is_set)
    with pytest.raises(UsageError, match="double"):
        await cluster.change_settings({"num.io.threads": "9000"}, [])
    await cluster.change_settings({}, ["num.io.threads"])

    async def is_unset() -> bool:
        seen = (await cluster.observe()).settings
        return seen is not None and dict(seen.overrides) == before

    await until(is_unset)


async def check_leaving(cluster: KafkaCluster, brokers: BarnabasCluster) -> None:
    """A broker gives what it holds to others, stops, and is forgotten."""
    view = await cluster.observe()
    leaver = max(view.live_ids - {view.controller_id})
    others = sorted(view.live_ids - {leaver})
    moves = {one.topic_partition: others[: len(one.replicas)] for one in view.held_by(leaver)}
    assert await cluster.move(moves) == {}

    async def is_empty() -> bool:
        return not (await cluster.observe()).held_by(leaver)

    await until(is_empty)
    assert view.brokers[leaver].is_leaving is False
    await cluster.set_leaving(leaver, is_leaving=True)

    async def has_left_the_log() -> bool:
        """Row 1 of the operator's findings: it leaves while it runs, though it might lead."""
        seen = await cluster.observe()
        members = seen.members
        is_told = seen.brokers[leaver].is_leaving is True
        return is_told and members is not None and members.ids == frozenset(others)

    await until(has_left_the_log)
    brokers.brokers[leaver].stop()

    async def is_fenced() -> bool:
        return leaver not in (await cluster.observe()).live_ids

    await until(is_fenced)

    async def is_missed() -> bool:
        """Whether the metadata log is known to have lost touch with it."""
        members = (await cluster.observe()).members
        return members is not None and members.in_touch == members.ids - {leaver}

    await until(is_missed)
    await cluster.unregister(leaver)

    async def is_forgotten() -> bool:
        return leaver not in (await cluster.observe()).brokers

    await until(is_forgotten)
    await cluster.unregister(leaver)


def partition(view: ClusterView, topic_partition: TopicPartition) -> PartitionView:
    (found,) = [one for one in view.partitions if one.topic_partition == topic_partition]
    return found
