"""A broker with ACLs and users, and a console that each of them logs in to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient

from barnabas_broker.server import Server
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.admin.values.acls import AclBinding
from barnabas_client.admin.values.scram import ScramMechanism, ScramUpsertion
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.support.console_server import OWN, running_console
from tests.support.in_process_broker import running_broker
from tests.support.sasl_brokers import LISTENERS, port_of

Client = TestClient[Any, Any]

SECURED = LISTENERS | {
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "barnabas.broker.principals": "User:ANONYMOUS",
}
SCRAM = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
# Whoever started the console lends nobody its rights.
STARTED_BY = {**SCRAM, "sasl_username": "root", "sasl_password": "secret"}


async def log_in(client: Client, body: dict[str, str], status: int = 204) -> dict[str, str]:
    """The headers of a page whose user has logged in."""
    async with client.post("/api/v1/login", headers=OWN, json=body) as response:
        assert response.status == status, await response.text()
        if status != 204:
            return {}
        cookie = response.headers["Set-Cookie"]
    attributes = {one.strip().lower() for one in cookie.split(";")[1:]}
    assert {"httponly", "secure", "samesite=strict"} <= attributes
    return {**OWN, "Cookie": cookie.partition(";")[0]}


async def seen(client: Client, headers: dict[str, str], path: str, status: int = 200) -> Any:
    async with client.get(f"/api/v1{path}", headers=headers) as response:
        assert response.status == status, await response.text()
        return await response.json()


def right(
    name: str, operation: AclOperation, kind: AclResourceType = AclResourceType.TOPIC
) -> AclBinding:
    """What alice may do."""
    return AclBinding(
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=operation,
        permission=AclPermission.ALLOW,
    )


@asynccontextmanager
async def secured(path: Path, **settings: Any) -> AsyncIterator[tuple[Server, Client]]:
    """A broker with users root, alice, who may see `orders`, and bob; a console with a log-in."""
    async with running_broker(path, **SECURED) as server:
        async with Admin(f"127.0.0.1:{server.port}") as admin:
            users = [
                ScramUpsertion(user=user, mechanism=ScramMechanism.SHA_512, password="secret")
                for user in ("root", "alice", "bob")
            ]
            (await admin.scram.alter(users)).unwrap()
            new = [NewTopic(name="orders"), NewTopic(name="salaries")]
            (await admin.topics.create(new)).unwrap()
            (await admin.acls.create([right("orders", AclOperation.DESCRIBE)])).unwrap()
        async with running_console(
            f"localhost:{port_of(server)}", client_settings=STARTED_BY, login="sasl", **settings
        ) as client:
            yield server, client
