"""Only a broker may say what brokers say, and each in its own name alone (SEC-60)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    create_topics,
    describe_client_quotas,
    fetch,
    metadata_fetch,
    metadata_promise,
    report_lost_replicas,
)
from barnabas_protocol.schema import Message
from tests.protocol.random_messages import RandomMessages
from tests.support.in_process_broker import running_broker
from tests.support.known_principals import BROKERS, CLIENTS, connected_as
from tests.support.memory_authorizer import MemoryAuthorizer
from tests.support.raw_client import RawClient

PRINCIPALS = "User:CN=broker-{id}"
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def node(node_id: int) -> Principal:
    return Principal("User", f"CN=broker-{node_id}")


def with_secured(
    directory: Path,
    work: Callable[[Server, MemoryAuthorizer], Awaitable[None]],
    principals: str = PRINCIPALS,
) -> None:
    async def run() -> None:
        authorizer = MemoryAuthorizer()
        async with running_broker(
            directory, authorizer, barnabas_broker_principals=principals
        ) as server:
            await work(server, authorizer)

    asyncio.run(run())


def error_codes(message: Any) -> set[int]:
    """All that a response has, wherever."""
    codes = {message.error_code} if hasattr(message, "error_code") else set()
    for field in type(message).__fields__:
        value = getattr(message, field.name)
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Message):
                codes |= error_codes(element)
    return codes


def in_the_name_of(node_id: int) -> list[tuple[ApiKey, int, Any]]:
    """What says who sends it."""
    return [
        (
            ApiKey.BROKER_REGISTRATION,
            4,
            broker_registration.BrokerRegistrationRequest(broker_id=node_id),
        ),
        (ApiKey.BROKER_HEARTBEAT, 1, broker_heartbeat.BrokerHeartbeatRequest(broker_id=node_id)),
        (
            ApiKey.ALLOCATE_PRODUCER_IDS,
            0,
            allocate_producer_ids.AllocateProducerIdsRequest(broker_id=node_id),
        ),
        (ApiKey.ALTER_PARTITION, 3, alter_partition.AlterPartitionRequest(broker_id=node_id)),
        (
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            0,
            assign_replicas_to_dirs.AssignReplicasToDirsRequest(broker_id=node_id),
        ),
        (
            ApiKey.REPORT_LOST_REPLICAS,
            0,
            report_lost_replicas.ReportLostReplicasRequest(broker_id=node_id),
        ),
        (ApiKey.METADATA_PROMISE, 0, metadata_promise.MetadataPromiseRequest(leader_id=node_id)),
        (ApiKey.METADATA_FETCH, 0, metadata_fetch.MetadataFetchRequest(node_id=node_id)),
        (
            ApiKey.FETCH,
            17,
            fetch.FetchRequest(replica_state=fetch.ReplicaState(replica_id=node_id)),
        ),
    ]


def test_a_broker_speaks_for_no_other(tmp_path: Path) -> None:
    """The certificate of broker 1 is no way to register, beat, promise or follow as broker 2."""

    async def work(server: Server, _: MemoryAuthorizer) -> None:
        async with connected_as(server, node(1), BROKERS) as client:
            for key, version, request in in_the_name_of(2):
                response = await client.call(key, version, request)
                assert response.error_code == REFUSED, key.name
            for key, version, request in in_the_name_of(1):
                response = await client.call(key, version, request)
                assert response.error_code != REFUSED, key.name

    with_secured(tmp_path, work)


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("User", "alice")], ids=str)
@pytest.mark.parametrize("key", sorted(INTERNAL), ids=lambda key: key.name.lower())
def test_who_is_no_broker_is_refused_on_the_listener_of_brokers(
    tmp_path: Path, key: ApiKey, principal: Principal
) -> None:
    """SEC-46: 31, in the form of each API, whatever rights ACLs give."""

    async def work(server: Server, authorizer: MemoryAuthorizer) -> None:
        authorizer.allow_all()
        async with connected_as(server, principal, BROKERS) as client:
            version, told = INTERNAL[key][1], set[int]()
            for seed in range(5):
                messages = RandomMessages(seed, small=True)
                request = messages.message(codec.request_class(key), version)
                told |= error_codes(await client.call(key, version, request))
            assert told == {REFUSED}

    with_secured(tmp_path, work)


@pytest.mark.parametrize("principals", ["", PRINCIPALS])
def test_a_listener_of_clients_takes_nothing_of_brokers_by_anybody(
    tmp_path: Path, principals: str
) -> None:
    async def work(server: Server, authorizer: MemoryAuthorizer) -> None:
        authorizer.allow_all()
        for principal in (node(1), ANONYMOUS):
            for key in sorted(INTERNAL):
                async with connected_as(server, principal, CLIENTS) as client:
                    client.send(key, INTERNAL[key][1], codec.request_class(key)())
                    assert await client.is_closed_by_peer(), key.name

    with_secured(tmp_path, work, principals)


def test_with_an_authorizer_and_without_principals_nobody_is_a_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-60: which the log says, for whoever has forgotten the principals."""

    async def work(server: Server, authorizer: MemoryAuthorizer) -> None:
        authorizer.allow_all()
        async with await RawClient.connect(server.replication_port) as client:
            for key, version, request in in_the_name_of(1):
                assert (await client.call(key, version, request)).error_code == REFUSED, key.name

    with_secured(tmp_path, work, "")
    line = (
        "refused BROKER_REGISTRATION of User:ANONYMOUS from 127.0.0.1: "
        "barnabas.broker.principals does not name it"
    )
    assert caplog.messages.count(line) == 1


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"barnabas.broker.principals": PRINCIPALS}, False),
        ({"authorizer.class.name": ""}, False),
        ({"arbiter.backend": "file"}, False),
    ],
)
def test_brokers_that_could_not_join_one_another_are_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, str], is_told: bool
) -> None:
    """SEC-60: in one line, where there may be others."""
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "authorizer.class.name": "StandardAuthorizer",
        "arbiter.backend": "etcd",
        "arbiter.etcd.endpoints": "http://127.0.0.1:1",
    }
    Server(given | changes)
    assert any("takes no other for a broker" in line for line in caplog.messages) == is_told


@pytest.mark.parametrize("mode", ["enforce", "audit-only"])
def test_the_authorizer_that_settings_name_ends_trust_in_the_listener(
    tmp_path: Path, mode: str
) -> None:
    """Also while it only audits: an envelope by anybody could have a super user's principal."""

    async def run() -> None:
        settings = {
            "authorizer_class_name": "StandardAuthorizer",
            "barnabas_authorizer_mode": mode,
            "super_users": "User:ANONYMOUS",
        }
        async with (
            running_broker(tmp_path, **settings) as server,
            await RawClient.connect(server.replication_port) as client,
        ):
            for key, version, request in in_the_name_of(1):
                assert (await client.call(key, version, request)).error_code == REFUSED, key.name

    asyncio.run(run())


def test_brokers_that_do_not_log_in_yet_may_be_named(tmp_path: Path) -> None:
    """SEC-89: on the way from a plain cluster to a secured one."""

    async def work(server: Server, _: MemoryAuthorizer) -> None:
        async with await RawClient.connect(server.replication_port) as client:
            for key, version, request in in_the_name_of(1):
                assert (await client.call(key, version, request)).error_code != REFUSED, key.name

    with_secured(tmp_path, work, "User:ANONYMOUS")


def test_a_broker_has_few_rights_without_acls(tmp_path: Path) -> None:
    """A stolen certificate of a broker gives no administrator's rights."""

    async def work(server: Server, authorizer: MemoryAuthorizer) -> None:
        async with connected_as(server, node(1), BROKERS) as client:
            quotas = describe_client_quotas.DescribeClientQuotasRequest()
            response = await client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, quotas)
            assert response.error_code == REFUSED
            topic = create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            made = await client.call(
                ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics=[topic])
            )
            assert made.topics[0].error_code == 0

    with_secured(tmp_path, work)


def test_by_the_listener_of_clients_a_broker_s_principal_is_one_like_any_other(
    tmp_path: Path,
) -> None:
    async def work(server: Server, _: MemoryAuthorizer) -> None:
        async with connected_as(server, node(1), CLIENTS) as client:
            topic = create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            made = await client.call(
                ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics=[topic])
            )
            assert made.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            request = fetch.FetchRequest(replica_state=fetch.ReplicaState(replica_id=1))
            response = await client.call(ApiKey.FETCH, 17, request)
            assert response.error_code == REFUSED or response.responses == []

    with_secured(tmp_path, work)
