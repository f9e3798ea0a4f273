"""What may befall a cluster at which time: a story takes no more away than it promises to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.cluster.administration import create_topic
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.faults import Faults, log_end_of
from tests.simulation.cluster.history import History
from tests.simulation.cluster.node import Node, is_controller
from tests.simulation.cluster.plan import Feature, Hardship, Plan, draw
from tests.simulation.cluster.story import Story
from tests.support.simulated_random import SimulatedRandom

SETTINGS = {"metadata.member.lost.ms": "60000"}


class World:
    """Three brokers of level 1 with a topic, and what may befall them."""

    def __init__(self, plan: Plan) -> None:
        cluster = self.cluster = Cluster(3, 3, {**plan.properties(), **SETTINGS})
        self.nodes = cluster.nodes
        for node in self.nodes:
            node.is_old = True
        self.faults = Faults(cluster, plan)
        self.client = ClusterClient(
            "test", cluster.network, cluster.addresses, SimulatedRandom(1), cluster.trace.note
        )

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Tell it, from brokers that serve on."""

        async def tell() -> None:
            for node in self.nodes:
                node.start()
            await self.until(lambda: all(node.is_ready for node in self.nodes))
            await create_topic(self.client, History(), "orders", 1, 3)
            await self.until(self.faults._is_everything_redundant)
            await story()

        self.cluster.run(tell)

    async def until(self, what: Callable[[], bool]) -> None:
        """Wait for something, in the loop's own time."""
        async with asyncio.timeout(60):
            while not what():
                await asyncio.sleep(0.05)


def plain(hardship: Hardship = Hardship.PROCESSES) -> Plan:
    """A plan of three nodes with no feature."""
    return next(
        plan.without(*plan.features)
        for plan in map(draw, range(100))
        if plan.hardship is hardship and plan.node_count == 3
    )


def test_no_power_is_lost_while_somebody_may_be_out_of_sync_already() -> None:
    """Seed 501319: a controller that was cut off had fenced a broker in records of its own.

    All images still had everybody in sync. Whoever lost power then was the only one in sync as soon
    as the next controller had committed those records.
    """
    world = World(plain())

    async def story() -> None:
        (controller,) = filter(is_controller, world.nodes)
        world.cluster.store.is_away = True
        before = log_end_of(controller)
        for other in world.nodes:
            if other is not controller:
                # The first one is missed while the other one has just been heard.
                world.cluster.network.cut(controller.host, other.host)
                await asyncio.sleep(0.8)
        await world.until(lambda: log_end_of(controller) > before)
        world.cluster.network.heal()
        image = world.faults._newest_image()
        assert image is not None
        assert len(image.topics.by_name["orders"].partitions[0].isr) == len(world.nodes)
        assert not world.faults._is_everything_redundant()
        world.cluster.store.is_away = False
        await world.until(world.faults._is_everything_redundant)

    world.run(story)


def test_a_broker_that_stops_while_clients_wait_for_their_answers_is_started_again() -> None:
    """Seed 500916: all was well when the faults ended; then a process went on, met a failed fsync
    and stopped. With two replicas nothing more could be acknowledged.
    """
    story = Story(0, plan=plain(Hardship.POWER).with_features(Feature.TWO_REPLICAS))
    failing: list[Node] = []

    async def befall(*plan: object) -> None:
        """A follower stands still; what it does when it goes on, the disk refuses."""
        await asyncio.sleep(1)
        image = story.faults._newest_image()
        assert image is not None
        partition = image.topics.by_name["orders"].partitions[0]
        (follower,) = set(partition.isr) - {partition.leader}
        failing.append(story.cluster.nodes[follower])
        failing[0].stand_still()
        await asyncio.sleep(0.5)
        failing[0].disk.has_failed = True
        failing[0].disk.fail("sync", "/data/orders")

    story.faults.run = befall  # type: ignore[method-assign]
    story.run()
    assert failing[0].life_count == 2
