"""What may befall a cluster at which time: a story takes no more away than it promises to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

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


@pytest.mark.parametrize("fault", ["_break_a_directory", "_fail_an_fsync"])
def test_a_disk_that_was_well_again_before_it_was_used_counts_as_no_loss(fault: str) -> None:
    """Seed 500950: brokers were not rolled any more because of a directory that nobody had used."""
    world = World(plain())

    async def story() -> None:
        faults = world.faults
        getattr(faults, fault)()
        assert not faults.may_lose_another()
        faults.end_all()
        assert faults.may_lose_another()
        getattr(faults, fault)()
        (broken,) = (node for node in world.nodes if node.disk.is_about_to_fail)
        with pytest.raises(OSError, match=r"fail|answer"):
            broken.disk.open("/data/x", create=True).sync()
        faults.end_all()
        assert not faults.may_lose_another()

    world.run(story)


def test_a_broker_that_stops_while_clients_wait_for_their_answers_is_started_again() -> None:
    """Seed 500916: all was well when the faults ended; then a process went on, met a failed fsync
    and stopped. With two replicas nothing more could be acknowledged.
    """
    story = Story(0, plan=plain(Hardship.POWER).with_features(Feature.TWO_REPLICAS))
    faults, end_all = story.faults, story.faults.end_all
    followers: list[Node] = []

    async def stop_a_follower(*plan: object) -> None:
        await asyncio.sleep(1)
        image = faults._newest_image()
        assert image is not None
        partition = image.topics.by_name["orders"].partitions[0]
        (number,) = set(partition.isr) - {partition.leader}
        followers.append(story.cluster.nodes[number])
        followers[0].stand_still()
        await asyncio.sleep(0.5)

    def end_all_but_one() -> None:
        end_all()
        followers[0].disk.has_failed = True
        followers[0].disk.fail("sync", "/data/orders")

    faults.run = stop_a_follower  # type: ignore[method-assign]
    faults.end_all = end_all_but_one  # type: ignore[method-assign]
    story.run()
    assert followers[0].life_count == 2
