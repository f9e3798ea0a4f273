"""ACLs at whole brokers: made and removed through any of three, and what the authorizer answers."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_broker.security.principal import Principal
from barnabas_broker.server import Server
from barnabas_client.admin.values.acls import AclBinding, AclFilter
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.client.admin.raw_requests import connected
from tests.support.in_process_broker import eventually
from tests.support.in_process_cluster import controller_of, running_cluster

ALICE = Principal.user("alice")
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "barnabas.broker.principals": "User:ANONYMOUS",
}


def allows(server: Server, operation: AclOperation, name: str) -> bool:
    """What a broker's authorizer answers."""
    authorizer = server.authorizer
    assert authorizer is not None
    return authorizer.is_allowed(
        AccessQuestion(ALICE, "10.0.0.1", operation, AclResourceType.TOPIC, name)
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so at once."""

    async def is_so() -> bool:
        return condition()

    await eventually(is_so)


def binding(name: str, permission: AclPermission, pattern_type: PatternType) -> AclBinding:
    return AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name=name,
        pattern_type=pattern_type,
        principal=str(ALICE),
        operation=AclOperation.READ,
        permission=permission,
    )


def test_acls_of_one_broker_hold_at_all_of_them(tmp_path: Path) -> None:
    """SEC-43, SEC-44: whoever takes the request, the controller decides and all brokers answer."""
    allow = binding("team-", AclPermission.ALLOW, PatternType.PREFIXED)
    deny = binding("team-secret", AclPermission.DENY, PatternType.LITERAL)

    async def test() -> None:
        async with running_cluster(tmp_path, **SECURED) as servers:
            controller = controller_of(servers)
            other = next(server for server in servers if server is not controller)
            async with connected(f"127.0.0.1:{other.port}") as (_, admin):
                made = await admin.acls.create([allow, deny])
                assert [made[one].error for one in (allow, deny)] == [None, None]
                for server in servers:
                    await until(partial(allows, server, AclOperation.READ, "team-a"))
                    assert allows(server, AclOperation.DESCRIBE, "team-a")
                    assert not allows(server, AclOperation.READ, "team-secret")
                    assert not allows(server, AclOperation.READ, "tea")
                assert set(await admin.acls.list()) == {allow, deny}
                wanted = AclFilter(pattern_type=PatternType.MATCH, resource_name="team-secret")
                gone = (await admin.acls.delete([wanted]))[wanted].unwrap()
                assert set(gone) == {allow, deny}
                await until(lambda: not any(server.image.acls for server in servers))
                assert not any(allows(server, AclOperation.READ, "team-a") for server in servers)

    asyncio.run(test())
