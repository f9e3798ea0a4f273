"""The specialists themselves: what they must find, and what no sound cluster may be blamed for."""

from typing import Any

import pytest

from tests.simulation.cluster.administration import Administrator, create_topic
from tests.simulation.cluster.client import LOST, ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.history import History, HistoryError
from tests.simulation.cluster.node import PORT, Node
from tests.simulation.cluster.plan import draw
from tests.simulation.cluster.specialists import ORDERS, Recycler
from tests.simulation.cluster.workload import patiently
from tests.support.simulated_random import SimulatedRandom

GROUP = Recycler.groups[0]
PATIENCE_SECONDS = 60


class World:
    """Three brokers, and a group that commits offsets of a topic whose name is used again."""

    def __init__(self) -> None:
        self.cluster = Cluster(5, 3, {"offsets.topic.num.partitions": "1"})
        # Whom the client asks.
        self.addresses = list(self.cluster.addresses)
        self.client = ClusterClient(
            "recycler",
            self.cluster.network,
            self.addresses,
            SimulatedRandom(1),
            self.cluster.trace.note,
        )
        self.recycler = Recycler(
            self.client, History(), draw(0), self.cluster.nodes[0].clock.wall_ms
        )
        self.recycler.groups = (GROUP,)

    async def begin(self) -> None:
        """Start the brokers, make the topics, and commit once."""
        for node in self.cluster.nodes:
            node.start()
        await patiently(
            self.client,
            lambda: create_topic(self.client, History(), ORDERS, 1, 3),
            PATIENCE_SECONDS,
        )
        await patiently(self.client, self.recycler._make, PATIENCE_SECONDS)
        await self.commit()

    async def commit(self) -> None:
        """Commit the next offset at whoever coordinates the group."""
        await patiently(self.client, self.recycler._commit, PATIENCE_SECONDS)

    def ask(self, *nodes: Node) -> None:
        """Ask only these from now on."""
        self.client.drop()
        self.addresses[:] = [(node.host, PORT) for node in nodes]

    async def coordinator(self) -> Node:
        """Where some broker believes the coordinator to be."""
        host, _ = await self.client.coordinator_of(GROUP)
        return next(node for node in self.cluster.nodes if node.host == host)


def test_a_coordinator_that_was_cut_off_and_replaced_has_lost_nothing() -> None:
    """It answers what it has, as it cannot know of the next one, but it cannot commit any more."""
    world = World()

    async def tell() -> None:
        await world.begin()
        replaced = await world.coordinator()
        others = [node for node in world.cluster.nodes if node is not replaced]
        for node in others:
            world.cluster.network.cut(replaced.host, node.host)
        world.ask(*others)
        await world.commit()
        assert await world.coordinator() is not replaced
        world.ask(replaced)
        assert await world.coordinator() is replaced
        with pytest.raises(LOST):
            await world.recycler._look_up_commit()
        world.cluster.network.heal()
        world.ask(*world.cluster.nodes)
        await patiently(world.client, world.recycler._look_up_commit, PATIENCE_SECONDS)

    world.cluster.run(tell)


def test_a_commit_that_is_lost_is_found() -> None:
    """Whoever can commit has all that was acknowledged."""
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.recycler._look_up_commit()
        world.recycler._acknowledged[GROUP] += 1
        with pytest.raises(HistoryError, match=f"the offset of {GROUP} is 1, 2 was acknowledged"):
            await patiently(world.client, world.recycler._look_up_commit, PATIENCE_SECONDS)

    world.cluster.run(tell)


@pytest.mark.parametrize("replicas", [[1], [1, 2]])
def test_no_partition_is_left_to_one_node_while_a_loss_is_not_known(replicas: list[int]) -> None:
    """It could be the one that lost what it had."""
    asked: list[Any] = []

    class Listener(ClusterClient):
        async def call(self, *request: Any) -> Any:
            asked.append(administrator.is_leaving_one())
            raise TimeoutError

    cluster = Cluster(5, 3, {})
    client = Listener("a", cluster.network, cluster.addresses, SimulatedRandom(1), lambda *_: None)
    administrator = Administrator(client, History(), ORDERS, draw(0))

    async def tell() -> None:
        administrator.may_leave_one = lambda: False
        await administrator._move(0, replicas)
        assert len(asked) == len(replicas) - 1
        administrator.may_leave_one = lambda: True
        await administrator._move(0, replicas)
        assert asked[-1] is (len(replicas) == 1)
        assert administrator.is_leaving_one() is asked[-1]  # the request may be on its way

    cluster.run(tell)
