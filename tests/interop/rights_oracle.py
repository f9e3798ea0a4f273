"""An Apache Kafka with an authorizer, and what both brokers are told and must answer alike."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    create_acls,
    delete_acls,
    describe_acls,
    sasl_authenticate,
    sasl_handshake,
)
from barnabas_protocol.schema import Message
from tests.interop.oracle.plain import build
from tests.support.apache_kafka import ApacheKafka
from tests.support.memory_authorizer import Given
from tests.support.processes import free_port
from tests.support.raw_client import RawClient

VERSION: Final = "4.4.0"
PASSWORD: Final = "alices-secret"
ALICE: Final = Principal("User", "alice")
# Texts of refusals have Kafka's own objects in them.
_LEFT_OUT: Final = {"throttle_time_ms", "error_message"}


@contextmanager
def kafka_with_rights(directory: Path) -> Iterator[tuple[ApacheKafka, int]]:
    """An Apache Kafka, and the port where alice logs in; ANONYMOUS may do everything."""
    login = free_port()
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    node = ApacheKafka(directory, version=VERSION, heap="512m", log_level="ERROR")
    node.properties |= {
        "listeners": f"{node.properties['listeners']},CLIENTS://127.0.0.1:{login}",
        "advertised.listeners": f"{node.properties['advertised.listeners']},"
        f"CLIENTS://127.0.0.1:{login}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{plain} user_alice="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with node:
        yield node, login


async def logged_in(port: int) -> RawClient:
    client = await RawClient.connect(port)
    await client.call(
        ApiKey.SASL_HANDSHAKE, 1, sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")
    )
    token = f"\0alice\0{PASSWORD}".encode()
    response = await client.call(
        ApiKey.SASL_AUTHENTICATE, 2, sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token)
    )
    assert response.error_code == 0, response.error_message
    return client


async def grant(
    admin: RawClient,
    rights: Sequence[Given],
    denied: Sequence[Given] = (),
    *,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> None:
    """Replace alice's ACLs, and wait until the broker goes by them; for either broker."""
    permissions = [
        *((right, AclPermission.ALLOW) for right in rights),
        *((right, AclPermission.DENY) for right in denied),
    ]
    every = {
        "resource_type_filter": AclResourceType.ANY,
        "pattern_type_filter": PatternType.ANY,
        "operation": AclOperation.ANY,
        "permission_type": AclPermission.ANY,
        "principal_filter": None,
        "host_filter": None,
    }
    await admin.call(
        ApiKey.DELETE_ACLS,
        3,
        build(
            delete_acls.DeleteAclsRequest, {"filters": [{**every, "resource_name_filter": None}]}
        ),
    )
    if permissions:
        made = await admin.call(
            ApiKey.CREATE_ACLS,
            3,
            build(
                create_acls.CreateAclsRequest,
                {
                    "creations": [
                        {
                            "resource_type": right.resource_type,
                            "resource_name": right.name,
                            "resource_pattern_type": (
                                PatternType.LITERAL
                                if right.resource_type is AclResourceType.CLUSTER
                                else pattern
                            ),
                            "principal": str(ALICE),
                            "host": host,
                            "operation": right.operation,
                            "permission_type": permission,
                        }
                        for right, permission in permissions
                    ]
                },
            ),
        )
        assert {result.error_code for result in made.results} == {0}
    async with asyncio.timeout(30):
        while True:
            described = await admin.call(
                ApiKey.DESCRIBE_ACLS,
                3,
                build(describe_acls.DescribeAclsRequest, {**every, "resource_name_filter": None}),
            )
            if sum(len(resource.acls) for resource in described.resources) == len(permissions):
                return
            await asyncio.sleep(0.01)


def comparable(message: Any) -> Any:
    """What both brokers must say: ids are there or not, lists in the order of what they name."""
    if isinstance(message, Message):
        return {
            field.name: comparable(getattr(message, field.name))
            for field in message.__fields__
            if field.name not in _LEFT_OUT
        }
    if isinstance(message, list):
        return sorted((comparable(each) for each in message), key=repr)
    if isinstance(message, bytes | memoryview):
        return any(message)
    return message
