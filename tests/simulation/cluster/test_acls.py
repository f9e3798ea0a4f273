"""ACLs of a cluster whose brokers crash, lose their disks and read snapshots.

Each pair of a name is made by one request and removed by one: it allows everybody to read a topic,
and denies it to one address. Whoever may read from there has seen half of a request.
"""

import asyncio
from collections.abc import Iterable

import pytest

from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.simulation.cluster.client import LOST, ClusterClient, checked
from tests.simulation.cluster.metadata_world import SETTINGS, World
from tests.simulation.cluster.node import Node
from tests.support.simulated_random import SimulatedRandom

SECURED = {
    **SETTINGS,
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": str(ANONYMOUS),
    "barnabas.broker.principals": str(ANONYMOUS),
    "metadata.member.lost.ms": "5000",
    # A snapshot after some dozens of ACLs.
    "metadata.log.max.record.bytes.between.snapshots": "4096",
}
ALICE, DENIED_HOST, HOST = Principal.user("alice"), "6.6.6.6", "10.0.0.1"
PAIRS = 12
STEPS = 60


def pair(number: int) -> tuple[Acl, Acl]:
    allow = Acl(2, f"pair-{number}", 3, "User:*", "*", 3, 3)
    return allow, allow._replace(host=DENIED_HOST, permission=2)


def creation(acls: Iterable[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )


def removal(number: int) -> DeleteAclsRequest:
    wanted = DeleteAclsFilter(
        resource_type_filter=AclResourceType.ANY,
        resource_name_filter=f"pair-{number}",
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return DeleteAclsRequest(filters=[wanted])


def may_read(node: Node, number: int, host: str) -> bool:
    authorizer = node.server.authorizer
    assert authorizer is not None
    topic = f"pair-{number}"
    return authorizer.is_allowed(
        AccessQuestion(ALICE, host, AclOperation.READ, AclResourceType.TOPIC, topic)
    )


class Story:
    """Pairs made and removed at random, while brokers come and go."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, SECURED)
        self.random = SimulatedRandom(seed)
        self.is_there = dict.fromkeys(range(PAIRS), False)
        self.uncertain: set[int] = set()
        self.looks = 0

    async def watch(self) -> None:
        """Look all the time whether somebody has seen half of a request."""
        while True:
            for node in self.world.nodes:
                if node.is_up and node.is_ready:
                    self.looks += 1
                    for number in range(PAIRS):
                        assert not may_read(node, number, DENIED_HOST), node.node_id
            await asyncio.sleep(0.003)

    async def tell(self) -> None:
        world = self.world
        await world.begin()
        watch = asyncio.create_task(self.watch())
        for step in range(STEPS):
            if step % 10 == 9:
                await self.disturb()
            await self.change(self.random.integer(PAIRS))
        await world.until(lambda: all(node.is_ready for node in world.nodes))
        for number in sorted(self.uncertain):
            await self.settle(number)
        await world.until(lambda: all(map(self.is_right, world.nodes)))
        assert len({frozenset(node.server.image.acls) for node in world.nodes}) == 1
        assert not watch.done(), watch.exception()
        watch.cancel()
        assert self.looks > 1_000

    def is_right(self, node: Node) -> bool:
        """Whether a broker decides by what was acknowledged."""
        return all(
            may_read(node, number, HOST) == is_there for number, is_there in self.is_there.items()
        )

    async def change(self, number: int) -> None:
        """Make a pair or remove it, once; without an answer nobody knows which it is."""
        wanted = not self.is_there[number]
        self.uncertain.add(number)
        if await self.ask(number, wanted):
            self.uncertain.discard(number)
            self.is_there[number] = wanted

    async def settle(self, number: int) -> None:
        """Ask until it is known; what was on its way before has arrived by then."""
        while not await self.ask(number, True):
            await asyncio.sleep(0.5)
        self.is_there[number] = True

    async def ask(self, number: int, wanted: bool) -> bool:
        cluster = self.world.cluster
        client = ClusterClient(
            "c", cluster.network, cluster.addresses, self.random, lambda *_: None
        )
        key = ApiKey.CREATE_ACLS if wanted else ApiKey.DELETE_ACLS
        request = creation(pair(number)) if wanted else removal(number)
        try:
            response = await client.call(client.anyone(), key, 3, request)
            results = response.results if wanted else response.filter_results
            assert all(result.error_code in (ErrorCode.NONE, *_MAY_FAIL) for result in results), (
                results
            )
            return all(checked(result.error_code) for result in results)
        except LOST:
            return False
        finally:
            client.drop()

    async def disturb(self) -> None:
        """One broker crashes, at times with its disk, and comes back."""
        world, node = self.world, self.world.nodes[self.random.integer(3)]
        node.kill()
        await world.until(lambda: not node.is_up)
        if self.random.integer(3) == 0:
            node.lose_disk()  # the others hold everything: two are a majority
        await asyncio.sleep(self.random.integer(4))
        world.start(node)
        await world.until(self.is_whole, 120)

    def is_whole(self) -> bool:
        """Whether all serve the same, as members of the metadata log by the disks they have."""
        nodes = self.world.nodes
        if not all(node.is_ready for node in nodes):
            return False
        disks = {
            (node.node_id, directory.directory_id)
            for node in nodes
            for directory in node.server.logs.directories
        }
        members = self.world.store.stored.record.members
        return (
            len(members) == 3
            and {(one.node_id, one.directory_id) for one in members} <= disks
            and len({node.server.image.offset for node in nodes}) == 1
        )


_MAY_FAIL = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_broker_decides_by_half_of_a_request_or_by_what_is_gone(seed: int) -> None:
    """SEC-44, KAFKA-14214: through crashes, new leaders, lost disks and snapshots."""
    story = Story(seed)
    story.world.cluster.run(story.tell)
