"""A leader that was cut off and replaced gives out nothing more of a share partition.

Nor does the one that was the controller, too, and answered its own heartbeats.
"""

import asyncio

import pytest

from tests.simulation import requests
from tests.simulation.cluster.client import LOST, ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.history import History
from tests.simulation.cluster.node import PORT, Node, is_controller
from tests.simulation.cluster.plan import Feature, draw
from tests.simulation.cluster.queues import QUEUE, QueueMember, QueueUser
from tests.simulation.cluster.workload import patiently
from tests.support.simulated_random import SimulatedRandom

PATIENCE_SECONDS = 60
COUNT = 8
LEADER_ALONE = 7
"""A seed by which another node is the controller."""
LEADER_AND_CONTROLLER = 0


class World:
    """Three brokers, a queue, and a member of its group."""

    def __init__(self, seed: int) -> None:
        plan = draw(0).with_features(Feature.QUEUE)
        self.cluster = Cluster(seed, 3, plan.properties())
        self.addresses = list(self.cluster.addresses)
        self.history = History()
        self.user = QueueUser(
            self.client("user"), self.history, plan, self.cluster.nodes[0].clock.wall_ms
        )
        self.member = self.new_member("packer")

    def client(self, name: str) -> ClusterClient:
        """A client that asks those in `addresses`."""
        network, note = self.cluster.network, self.cluster.trace.note
        return ClusterClient(name, network, self.addresses, SimulatedRandom(1), note)

    def new_member(self, name: str) -> QueueMember:
        """A member of the group."""
        return QueueMember(self.client(name), self.history, self.user.of)

    async def begin(self) -> None:
        """Start the brokers, make the topics, and append."""
        for node in self.cluster.nodes:
            node.start()
        await patiently(self.user.client, self.user.prepare, PATIENCE_SECONDS)
        await patiently(self.user.client, self._append, PATIENCE_SECONDS)

    async def _append(self) -> None:
        address, _ = await self.user.client.leader_of(QUEUE, 0)
        connection = await self.user.client.connect(address)
        values = [b"%d" % number for number in range(COUNT)]
        await requests.append(connection, requests.append_request(QUEUE, 0, values))

    def ask(self, *nodes: Node) -> None:
        """Ask only these from now on."""
        self.addresses[:] = [(node.host, PORT) for node in nodes]

    async def leader(self) -> Node:
        """Where those who are asked believe the leader to be."""
        found = await self.user.client.leader_of(QUEUE, 0)
        return next(node for node in self.cluster.nodes if (node.host, PORT) == found[0])


async def _join(member: QueueMember) -> None:
    while not member.is_assigned:
        await member.heartbeat()
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("was_paused", [False, True])
@pytest.mark.parametrize("seed", [LEADER_ALONE, LEADER_AND_CONTROLLER])
def test_a_leader_that_was_cut_off_and_replaced_delivers_nothing(
    seed: int, was_paused: bool
) -> None:
    """SHR-33: its successor may have had all of it accepted; it could store no acknowledgement."""
    world = World(seed)

    async def tell() -> None:
        await world.begin()
        member = world.member
        await patiently(member.client, lambda: _join(member), PATIENCE_SECONDS)
        replaced = await world.leader()
        assert is_controller(replaced) == (seed == LEADER_AND_CONTROLLER)

        async def acquire() -> None:
            """What is locked by the session before is free again with a new one."""
            member.session_epoch = 0
            address, _ = await member.client.leader_of(QUEUE, 0)
            while not await member.fetch(address):
                await asyncio.sleep(0.1)

        await patiently(member.client, acquire, PATIENCE_SECONDS)
        others = [node for node in world.cluster.nodes if node is not replaced]
        for node in others:
            world.cluster.network.cut(replaced.host, node.host)
        if was_paused:
            replaced.stand_still()
        world.ask(*others)

        async def is_replaced() -> None:
            while await world.leader() is replaced:
                await asyncio.sleep(0.1)

        await patiently(world.user.client, is_replaced, PATIENCE_SECONDS)
        if was_paused:
            replaced.go_on()
        stale = world.new_member("stale")
        stale.is_assigned = True
        # Its connection to the leader that was replaced is a new one, and so is its session.
        member.client.drop()
        with pytest.raises(LOST):
            await stale.fetch((replaced.host, PORT))
        world.cluster.network.heal()
        world.ask(*world.cluster.nodes)

        await patiently(member.client, acquire, PATIENCE_SECONDS)
        for client in (world.user.client, member.client, stale.client):
            client.drop()

    world.cluster.run(tell)
