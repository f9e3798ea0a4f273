"""Ways to a right that no ACL gives, each tried on a whole broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.acls import AclBinding, AclFilter
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.scram import ScramUpsertion
from barnabas_client.errors import AuthorizationError, BarnabasError, NotFoundError
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.client.admin.raw_requests import connected
from tests.support.in_process_broker import running_broker

AUTHORIZER = {
    "authorizer_class_name": "StandardAuthorizer",
    "metadata_log_max_record_bytes_between_snapshots": "2048",
}
ROOT = {"super_users": "User:ANONYMOUS"}
EVERYTHING = AclBinding(
    resource_type=AclResourceType.CLUSTER,
    resource_name="kafka-cluster",
    principal="User:ANONYMOUS",
    operation=AclOperation.ALL,
)


def topic(name: str, permission: AclPermission, **more: PatternType) -> AclBinding:
    return AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name=name,
        principal="User:*",
        operation=AclOperation.ALL,
        permission=permission,
        **more,
    )


@asynccontextmanager
async def secured(directory: Path, **settings: str) -> AsyncIterator[tuple[Server, Admin]]:
    """A broker with an authorizer, and what an anonymous client may ask of it."""
    async with (
        running_broker(directory, **AUTHORIZER, **settings) as server,
        connected(f"127.0.0.1:{server.port}") as (_, admin),
    ):
        yield server, admin


def test_nobody_becomes_a_super_user_by_settings(tmp_path: Path) -> None:
    """SEC-41: who may change settings of brokers may not say who is above ACLs, nor the mode."""
    alter_configs = AclBinding(
        resource_type=AclResourceType.CLUSTER,
        resource_name="kafka-cluster",
        principal="User:ANONYMOUS",
        operation=AclOperation.ALTER_CONFIGS,
    )
    changes = (
        ("super.users", "User:ANONYMOUS"),
        ("barnabas.authorizer.mode", "audit-only"),
        ("allow.everyone.if.no.acl.found", "true"),
        ("authorizer.class.name", ""),
    )

    async def test() -> None:
        async with secured(tmp_path, **ROOT) as (_, admin):
            (await admin.acls.create([alter_configs]))[alter_configs].unwrap()
        async with secured(tmp_path) as (_, admin):
            for key, value in changes:
                for resource in (ConfigResource.broker(), ConfigResource.broker(0)):
                    done = await admin.configs.alter({resource: [ConfigChange.set(key, value)]})
                    assert isinstance(done[resource].error, BarnabasError), key
            with pytest.raises(AuthorizationError):
                await admin.acls.list()

    asyncio.run(test())


def test_acls_hold_after_a_restart_from_a_snapshot(tmp_path: Path) -> None:
    """SEC-44: a DENY is in the snapshot and in the log behind it, or nobody may do anything."""
    allow = topic("*", AclPermission.ALLOW)
    denies = [
        topic(f"secret-{number}", AclPermission.DENY, pattern_type=PatternType.PREFIXED)
        for number in range(60)
    ]

    def snapshots() -> list[Path]:
        return list(tmp_path.glob("**/__cluster_metadata-0/*.checkpoint"))

    async def prepare(admin: Admin) -> None:
        for one in (*denies, allow):
            (await admin.acls.create([one]))[one].unwrap()

    async def look(admin: Admin) -> None:
        with pytest.raises(NotFoundError):
            (await admin.topics.delete(["open"]))["open"].unwrap()
        for number in (0, 30, 59):
            with pytest.raises(AuthorizationError):
                (await admin.topics.delete([f"secret-{number}-x"]))[f"secret-{number}-x"].unwrap()

    async def test() -> None:
        async with secured(tmp_path, **ROOT) as (_, admin):
            await prepare(admin)
        assert snapshots()
        for _ in range(2):
            async with secured(tmp_path) as (server, admin):
                assert len(server.image.acls) == len(denies) + 1
                await look(admin)

    asyncio.run(test())


def test_nobody_gives_himself_rights(tmp_path: Path) -> None:
    """SEC-43: neither to the cluster nor by an ACL of a name, a prefix or everything."""

    async def test() -> None:
        async with secured(tmp_path) as (server, admin):
            wanted = [EVERYTHING, topic("a", AclPermission.ALLOW)]
            done = await admin.acls.create(wanted)
            assert all(isinstance(done[one].error, AuthorizationError) for one in wanted)
            assert not server.image.acls

    asyncio.run(test())


def test_nobody_gives_himself_rights_or_a_password_while_denials_only_show(tmp_path: Path) -> None:
    """SEC-89: what is made in that mode holds when denials do; `alice` may have rights then."""
    change = ScramUpsertion(user="alice", password="of-mallory")

    async def test() -> None:
        mode = {"barnabas_authorizer_mode": "audit-only"}
        async with secured(tmp_path, **mode) as (server, admin):
            assert isinstance((await admin.scram.alter([change]))["alice"].error, BarnabasError)
            made = await admin.acls.create([EVERYTHING])
            assert isinstance(made[EVERYTHING].error, AuthorizationError)
            gone = await admin.acls.delete([AclFilter()])
            assert isinstance(gone[AclFilter()].error, AuthorizationError)
            assert not server.image.acls
            assert await admin.scram.describe() == {}

    asyncio.run(test())
