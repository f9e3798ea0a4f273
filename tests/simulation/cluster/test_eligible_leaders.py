"""Who leads after several brokers have crashed: eligible leader replicas in clusters (LEAD-7)."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.controller import features
from barnabas_broker.controller.features import FeatureRange
from barnabas_broker.metadata.image import PartitionImage
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import (
    create_topics,
    incremental_alter_configs,
    update_features,
)
from tests.simulation import requests
from tests.simulation.cluster.administration import elect_uncleanly
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import PORT, Node
from tests.support.simulated_random import SimulatedRandom

ORDERS = TopicPartition("orders", 0)
COUNT = 20
REPLICAS = (4, 5, 6)
NODES = 7


class World:
    """Seven brokers: without those that have replicas a majority of the metadata log is left."""

    def __init__(self, policy: str = "page-cache", in_sync_min: int = 2) -> None:
        self.cluster = Cluster(
            11,
            NODES,
            {
                "barnabas.flush.policy": policy,
                "log.retention.ms": "-1",
                "min.insync.replicas": str(in_sync_min),
                "metadata.members": str(NODES),
                "metadata.member.lost.ms": "60000",
            },
        )
        self.nodes = self.cluster.nodes
        self.client = ClusterClient(
            "test",
            self.cluster.network,
            self.cluster.addresses,
            SimulatedRandom(1),
            self.cluster.trace.note,
        )

    async def until(self, what: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something, in the loop's own time."""
        end = self.cluster.loop.time() + seconds
        while not what():
            assert self.cluster.loop.time() < end, f"too late: {self.partition}"
            await asyncio.sleep(0.05)

    @property
    def partition(self) -> PartitionImage:
        """The partition in the newest metadata that anybody has."""
        images = [node.server.image for node in self.nodes if node.server is not None]
        newest = max(images, key=lambda image: image.offset)
        return newest.topics.by_name[ORDERS.topic].partitions[0]

    async def begin(self) -> None:
        """Start all brokers and make the topic."""
        for node in self.nodes:
            node.start()
        await self.until(lambda: all(node.is_ready for node in self.nodes))
        await self.until(lambda: len(self._members()) == NODES)
        await self.create()

    def _members(self) -> set[int]:
        servers = [node.server for node in self.nodes if node.server is not None]
        return {voter.node_id for one in servers for voter in one.control.quorum.record.members}

    async def create(self) -> None:
        """Make the topic, led by the first of its replicas."""
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=ORDERS.topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        create_topics.CreatableReplicaAssignment(
                            partition_index=0, broker_ids=list(REPLICAS)
                        )
                    ],
                )
            ],
            timeout_ms=5000,
        )
        await self.client.call((self.nodes[0].host, PORT), ApiKey.CREATE_TOPICS, 7, request)
        await self.until(lambda: ORDERS.topic in self._topics())

    def _topics(self) -> set[str]:
        servers = [node.server for node in self.nodes if node.server is not None]
        return {name for one in servers for name in one.replicas.image.topics.by_name}

    async def acknowledge(self) -> None:
        """Write records that all replicas acknowledge."""
        connection = await self.client.connect((self.nodes[self.partition.leader].host, PORT))
        for number in range(COUNT):
            request = requests.append_request(ORDERS.topic, 0, [b"%d" % number])
            assert (await requests.append(connection, request)).error_code == 0
        self.client.drop()

    async def come_back(self, *nodes: Node) -> None:
        """Start brokers and wait until all replicas are in sync."""
        for node in nodes:
            node.start()
        await self.until(lambda: all(node.is_ready for node in nodes))
        await self.until(lambda: set(self.partition.isr) == set(REPLICAS))

    @property
    def compared_count(self) -> int:
        """How many leaders were elected because their log was the best of those left."""
        servers = [node.server for node in self.nodes if node.server is not None]
        return sum(one.control.controller.comparison.elected_count for one in servers)

    async def readable(self) -> int:
        """How many records the leader has, once its high watermark stands still."""
        await self.until(lambda: self.partition.leader >= 0)
        leader = self.nodes[self.partition.leader]
        assert leader.server is not None
        log = leader.server.logs.logs[ORDERS]
        await self.until(lambda: log.high_watermark == log.log_end_offset)
        return log.high_watermark

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Tell the story."""
        try:
            self.cluster.run(work)
        except BaseException:
            sys.stdout.write("\n".join(self.cluster.trace.lines[-100:]))
            raise


def test_a_follower_leads_after_the_last_member_of_the_isr_has_lost_power() -> None:
    """LEAD-7: those that were killed have all records in the page cache; the last one has not."""
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.acknowledge()
        leader, *followers = (world.nodes[number] for number in REPLICAS)
        for node in followers:
            node.kill()
        await world.until(lambda: world.partition.isr == (leader.node_id,))
        (eligible,) = world.partition.eligible_leader_replicas  # the other left a full ISR
        assert eligible in REPLICAS[1:]
        leader.lose_power()
        await world.until(lambda: world.partition.leader == -1)
        assert set(world.partition.eligible_leader_replicas) == {leader.node_id, eligible}
        await world.come_back(leader, *followers)
        assert world.partition.eligible_leader_replicas == ()
        assert await world.readable() == COUNT

    world.run(tell)


def test_a_killed_process_is_eligible_and_one_whose_machine_went_down_is_not() -> None:
    """REG-8: the boot id tells whether the page cache lived."""
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.acknowledge()
        first, *others = (world.nodes[number] for number in REPLICAS)
        first.kill()
        await world.until(lambda: first.node_id not in world.partition.isr)
        for node in others:
            node.kill()
        await world.until(lambda: world.partition.leader == -1)
        down, up = others
        assert set(world.partition.eligible_leader_replicas) == {down.node_id, up.node_id}
        down.lose_power()
        down.start()
        await world.until(lambda: down.is_ready)
        assert world.partition.leader == -1  # it waits for one that has everything
        assert world.partition.eligible_leader_replicas == (up.node_id,)
        assert world.partition.last_known_elr == (down.node_id,)
        up.start()
        await world.until(lambda: world.partition.leader == up.node_id)
        assert world.compared_count == 0  # it was eligible still
        await world.come_back(first)
        assert await world.readable() == COUNT

    world.run(tell)


@pytest.mark.parametrize("policy", ["page-cache", "group-fsync"])
def test_the_longest_log_leads_when_all_machines_have_lost_power(policy: str) -> None:
    """LEAD-7: nobody is eligible any more; whoever has most of what is left is elected."""
    world = World(policy)

    async def tell() -> None:
        await world.begin()
        await world.acknowledge()
        machines = [world.nodes[number] for number in REPLICAS]
        for node in machines:
            node.lose_power()
        await world.until(lambda: world.partition.leader == -1)
        for node in machines:
            node.start()
        await world.until(lambda: all(node.server is not None for node in machines))
        await world.until(lambda: world.partition.leader >= 0)
        assert world.compared_count == 1
        leader = world.nodes[world.partition.leader]
        assert leader.server is not None
        found = leader.server.logs.logs[ORDERS].log_end_offset
        for node in machines:
            assert node.server is not None
            assert node.server.logs.logs[ORDERS].log_end_offset <= found
        if policy == "group-fsync":
            assert found == COUNT
        await world.until(lambda: set(world.partition.isr) == set(REPLICAS))
        assert await world.readable() == found

    world.run(tell)


def test_a_replica_damaged_while_its_broker_was_down_does_not_lead() -> None:
    """Proof of loss is told before a broker serves: its log ends below its recovery point."""
    world = World("group-fsync")

    async def tell() -> None:
        await world.begin()
        await world.acknowledge()
        last, *others = (world.nodes[number] for number in REPLICAS)
        for node in (*others, last):
            node.stop()
            await node.ended()
        paths = [path for path in last.disk._names if "/orders-0/" in path]
        file = last.disk.open(next(path for path in paths if path.endswith(".log")))
        file.truncate(file.size() // 2)
        file.close()
        assert last.node_id in world.partition.eligible_leader_replicas
        last.start()
        await world.until(lambda: last.is_ready)
        assert world.partition.leader == -1
        assert last.node_id not in world.partition.eligible_leader_replicas
        await world.come_back(*others)
        assert await world.readable() == COUNT

    world.run(tell)


def test_a_cluster_is_raised_to_eligible_replicas_broker_by_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rolling upgrade from level 1: nobody is given what it cannot read before all can."""
    monkeypatch.setattr(features, "SUPPORTED", {"barnabas.version": FeatureRange(1, 1)})
    world = World()

    async def raise_level() -> int:
        request = update_features.UpdateFeaturesRequest(
            timeout_ms=5000,
            feature_updates=[
                update_features.FeatureUpdateKey(
                    feature="barnabas.version", max_version_level=2, upgrade_type=1
                )
            ],
        )
        world.client.drop()  # the broker may have been another process
        response = await world.client.call(
            (world.nodes[0].host, PORT), ApiKey.UPDATE_FEATURES, 1, request
        )
        return int(response.error_code)

    def level() -> int:
        image = world.nodes[0].server.image if world.nodes[0].server else None
        return features.finalized(image)["barnabas.version"] if image else 0

    async def tell() -> None:
        await world.begin()
        await world.acknowledge()
        assert level() == 1
        for number in REPLICAS[1:]:
            world.nodes[number].kill()
        await world.until(lambda: world.partition.isr == REPLICAS[:1])
        assert world.partition.eligible_leader_replicas == ()
        await world.come_back(*(world.nodes[number] for number in REPLICAS[1:]))
        assert await raise_level() != 0
        monkeypatch.setattr(features, "SUPPORTED", {"barnabas.version": FeatureRange(1, 2)})
        for node in world.nodes:
            assert level() == 1
            node.stop()
            await node.ended()
            node.start()
            await world.until(lambda node=node: node.is_ready)  # type: ignore[misc]
        await world.until(lambda: set(world.partition.isr) == set(REPLICAS))
        assert await raise_level() == 0
        await world.until(lambda: level() == 2)
        leader = world.partition.leader
        others = [number for number in REPLICAS if number != leader]
        for number in others:
            world.nodes[number].kill()
        await world.until(lambda: world.partition.isr == (leader,))
        assert len(world.partition.eligible_leader_replicas) == 1
        await world.come_back(*(world.nodes[number] for number in others))
        assert await world.readable() == COUNT

    world.run(tell)


@pytest.mark.parametrize(("level", "in_sync_min"), [(1, 2), (2, 1), (2, 2)])
def test_whether_anybody_leads_when_all_others_were_down_before_a_disk_was_known_to_be_lost(
    level: int, in_sync_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEAD-7: the broker with an empty disk is the last one in sync.

    At level 1, and where one in sync is enough, nothing tells whether it had more than the others:
    somebody has to decide.
    """
    monkeypatch.setattr(features, "SUPPORTED", {"barnabas.version": FeatureRange(1, level)})
    world = World(in_sync_min=in_sync_min)

    async def tell() -> None:
        await world.begin()
        await world.acknowledge()
        first, *others = (world.nodes[number] for number in REPLICAS)
        first.lose_power()  # says nothing, so that it is missed later than those that refuse
        first.lose_disk()
        for node in others:
            node.kill()
        await world.until(lambda: world.partition.isr == (first.node_id,))
        for node in (*others, first):
            node.start()
        await world.until(lambda: all(node.is_ready for node in (first, *others)))
        if level == 1 or in_sync_min == 1:
            await asyncio.sleep(30)
            assert world.partition.leader == -1
            partition = world.partition
            assert (partition.isr or partition.last_known_elr) == (first.node_id,)
            await elect_uncleanly(world.client, {ORDERS.topic: [ORDERS.partition]})
        await world.come_back()
        assert await world.readable() == COUNT

    world.run(tell)


def test_a_leader_that_was_started_again_knows_the_minimum_of_the_cluster() -> None:
    """REP-2: nobody is told that a record is safe that the eligible replicas do not have."""
    world = World()
    leader = world.nodes[REPLICAS[0]]

    def minimum() -> int:
        assert leader.server is not None
        log = leader.server.logs.get(ORDERS)
        return -1 if log is None else log.config.min_insync_replicas

    async def story() -> None:
        await world.begin()
        config = incremental_alter_configs.AlterableConfig(
            name="min.insync.replicas", config_operation=0, value="3"
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=4, resource_name="", configs=[config]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        address = (world.nodes[0].host, PORT)
        await world.client.call(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        await world.until(lambda: minimum() == 3)
        leader.kill()
        await leader.ended()
        await world.until(lambda: leader.node_id not in world.partition.isr)
        await world.come_back(leader)
        assert minimum() == 3

    world.cluster.run(story)
