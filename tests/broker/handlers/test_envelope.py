"""Whose request an envelope has, and that the controller judges by that (SEC-62)."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_data import encode_principal
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import alter_client_quotas, create_topics
from barnabas_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.support.in_process_broker import running_broker
from tests.support.known_principals import BROKERS, connected_as
from tests.support.memory_authorizer import Given, MemoryAuthorizer, to_cluster
from tests.support.raw_client import RawClient

BROKER = Principal("User", "CN=broker-1")
ALICE = Principal("User", "alice")
HOST = ipaddress.ip_address("10.1.2.3")


def new_topic(name: str) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic])


def enveloped(
    key: ApiKey,
    version: int,
    request: Any,
    principal: bytes | None = encode_principal(ALICE),
    address: bytes = HOST.packed,
) -> EnvelopeRequest:
    frame = codec.encode_request(request, key, version, 77, "alices-client")
    return EnvelopeRequest(
        request_data=frame, request_principal=principal, client_host_address=address
    )


def with_controller(
    directory: Path,
    work: Callable[[Server, MemoryAuthorizer, RawClient], Awaitable[None]],
    principal: Principal = BROKER,
) -> None:
    """A secured broker, and the connection of another one to it."""

    async def run() -> None:
        authorizer = MemoryAuthorizer()
        async with (
            running_broker(
                directory, authorizer, barnabas_broker_principals="User:CN=broker-{id}"
            ) as server,
            connected_as(server, principal, BROKERS) as client,
        ):
            await work(server, authorizer, client)

    asyncio.run(run())


async def sent(client: RawClient, request: EnvelopeRequest) -> EnvelopeResponse:
    response: EnvelopeResponse = await client.call(ApiKey.ENVELOPE, 0, request)
    return response


async def created(
    client: RawClient, request: EnvelopeRequest
) -> create_topics.CreatableTopicResult:
    response = await sent(client, request)
    assert response.error_code == 0
    assert response.response_data is not None
    _, inner = codec.decode_response(response.response_data, ApiKey.CREATE_TOPICS, 7)
    (result,) = inner.topics
    return result


def test_what_is_inside_needs_the_client_s_rights(tmp_path: Path) -> None:
    """Not those of the broker that sends it on, which may create topics."""

    async def work(server: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        request = enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        assert (await created(client, request)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert {(who, host) for who, host in authorizer.seen} == {(ALICE, str(HOST))}
        authorizer.grant(Given(AclOperation.CREATE, AclResourceType.TOPIC, "a"))
        assert (await created(client, request)).error_code == 0
        assert "a" in server.image.topics.by_name

    with_controller(tmp_path, work)


def test_the_principal_of_a_broker_inside_has_no_broker_s_rights(tmp_path: Path) -> None:
    async def work(_: Server, __: MemoryAuthorizer, client: RawClient) -> None:
        request = enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a"), encode_principal(BROKER))
        assert (await created(client, request)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with_controller(tmp_path, work)


def test_a_rule_on_the_cluster_holds_inside_as_well(tmp_path: Path) -> None:
    async def work(_: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        entry = alter_client_quotas.AlterClientQuotasRequestEntryData(
            entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="bob")],
            ops=[alter_client_quotas.OpData(key="request_percentage", value=50.0)],
        )
        request = enveloped(
            ApiKey.ALTER_CLIENT_QUOTAS,
            1,
            alter_client_quotas.AlterClientQuotasRequest(entries=[entry]),
        )
        codes = []
        for _ in range(2):
            response = await sent(client, request)
            assert response.response_data is not None
            _, inner = codec.decode_response(response.response_data, ApiKey.ALTER_CLIENT_QUOTAS, 1)
            codes.append(inner.entries[0].error_code)
            authorizer.grant(to_cluster(AclOperation.ALTER_CONFIGS))
        assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0]

    with_controller(tmp_path, work)


@pytest.mark.parametrize("principal", [None, b"", b"\0\1\5User\6alice\0\0", b"\0\0\5User"])
def test_a_principal_that_cannot_be_read_is_refused(
    tmp_path: Path, principal: bytes | None
) -> None:
    async def work(_: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        authorizer.allow_all()
        request = enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a"), principal)
        response = await sent(client, request)
        assert response.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
        assert response.response_data is None

    with_controller(tmp_path, work)


@pytest.mark.parametrize("address", [b"", b"\x0a\x01\x02", b"\0" * 17])
def test_an_address_that_cannot_be_read_is_refused(tmp_path: Path, address: bytes) -> None:
    """A rule by host must not be passed by having none."""

    async def work(_: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        authorizer.allow_all()
        request = enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a"), address=address)
        assert (await sent(client, request)).error_code == ErrorCode.INVALID_REQUEST

    with_controller(tmp_path, work)


def test_an_envelope_in_an_envelope_is_refused(tmp_path: Path) -> None:
    async def work(server: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        authorizer.allow_all()
        inner = enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        outer = enveloped(ApiKey.ENVELOPE, 0, inner)
        assert (await sent(client, outer)).error_code == ErrorCode.INVALID_REQUEST
        assert server.image.topics.by_name == {}

    with_controller(tmp_path, work)


def test_requests_of_brokers_do_not_travel_in_envelopes(tmp_path: Path) -> None:
    async def work(_: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        authorizer.allow_all()
        for key in (ApiKey.BROKER_HEARTBEAT, ApiKey.METADATA_PROMISE, ApiKey.METADATA_FETCH):
            request = enveloped(key, 0, codec.request_class(key)())
            assert (await sent(client, request)).error_code == ErrorCode.INVALID_REQUEST

    with_controller(tmp_path, work)


def test_a_client_cannot_send_one(tmp_path: Path) -> None:
    """Whatever principal it puts in, and whatever ACLs it has."""

    async def work(_: Server, authorizer: MemoryAuthorizer, client: RawClient) -> None:
        authorizer.allow_all()
        response = await sent(client, enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a")))
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    with_controller(tmp_path, work, ALICE)


def test_an_earlier_release_says_nothing_as_long_as_there_is_no_security(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.replication_port) as client,
        ):
            request = enveloped(ApiKey.CREATE_TOPICS, 7, new_topic("a"), b"", b"")
            assert (await created(client, request)).error_code == 0

    asyncio.run(run())
