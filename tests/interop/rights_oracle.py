"""An Apache Kafka with an authorizer, and what both brokers are told and must answer alike."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

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
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORD: Final = "alices-secret"
_START_SECONDS: Final = 180
ALICE: Final = Principal("User", "alice")
# Texts of refusals have Kafka's own objects in them.
_LEFT_OUT: Final = {"throttle_time_ms", "error_message"}


class Grant(NamedTuple):
    """What alice is given and denied, by which patterns, and where she has to come from."""

    name: str
    rights: Sequence[Given]
    denied: Sequence[Given] = ()
    pattern: PatternType = PatternType.LITERAL
    host: str = "*"


def grants(rights: Sequence[Given]) -> Iterator[Grant]:
    """No right, each one alone, all but one, a denial on top, prefixes, `*`, addresses, ranges."""
    yield Grant("none", ())
    for right in rights:
        others = [other for other in rights if other != right]
        if others:
            yield Grant(f"{right} alone", [right])
        if len(others) > 1:
            yield Grant(f"without {right}", others)
        yield Grant(f"denied {right}", rights, [right])
    named = [right for right in rights if right.resource_type is not AclResourceType.CLUSTER]
    if named:
        every = [right if right not in named else right._replace(name="*") for right in rights]
        yield Grant("every name", every)
        yield Grant("every name, one denied", every, named[:1])
        begun = [right if right not in named else _begun(right) for right in rights]
        yield Grant("by a prefix", begun, pattern=PatternType.PREFIXED)
        yield Grant("denied by a prefix", rights, [_begun(named[0])], PatternType.PREFIXED)
    yield Grant("from another host", rights, host="10.9.9.9")
    yield Grant("from this host", rights, host="127.0.0.1")
    yield Grant("from another range", rights, host="10.0.0.0/8")
    yield Grant("from this range", rights, host="127.0.0.0/8")
    yield Grant("all", rights)


def _begun(right: Given) -> Given:
    return right._replace(name=right.name[:3])


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
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    node.start(_START_SECONDS)
    try:
        yield node, login
    finally:
        node.stop()


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
    wanted = {
        (int(right.resource_type), right.name, int(right.operation), int(permission), host)
        for right, permission in permissions
    }
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
            # Kafka publishes changes after its response; a former set may have as many.
            found = {
                (one.resource_type, one.resource_name, acl.operation, acl.permission_type, acl.host)
                for one in described.resources
                for acl in one.acls
            }
            patterns = {one.pattern_type for one in described.resources if one.resource_type != 4}
            if found == wanted and patterns <= {pattern}:
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
