"""What administrators are refused: every API with a rule on the cluster, and topics (SEC-46)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.handlers.rights import RULES
from barnabas_broker.handlers.table import HANDLERS
from barnabas_broker.security.principal import Principal
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import INTERNAL, SERVED, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import create_topics, delete_topics
from barnabas_protocol.schema import Message
from tests.protocol.random_messages import RandomMessages
from tests.support.in_process_broker import running_broker
from tests.support.in_process_cluster import CLUSTER_ID
from tests.support.known_principals import connected_as
from tests.support.memory_authorizer import Given, MemoryAuthorizer, to_cluster
from tests.support.raw_client import RawClient

ALICE = Principal("User", "alice")
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ON_CLUSTER = sorted(
    key for key, rule in RULES.items() if rule.cluster and key in HANDLERS and key not in INTERNAL
)


def codes_of(message: Any) -> set[int]:
    """All error codes of a response, wherever they are."""
    codes = {message.error_code} if hasattr(message, "error_code") else set()
    for field in type(message).__fields__:
        value = getattr(message, field.name)
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Message):
                codes |= codes_of(element)
    return codes


@pytest.mark.parametrize("key", ON_CLUSTER, ids=lambda key: key.name.lower())
def test_no_other_right_on_the_cluster_will_do(tmp_path: Path, key: ApiKey) -> None:
    """Each version refuses in its own form; nothing of the request is looked at before."""
    rule = RULES[key]
    others = [to_cluster(each) for each in AclOperation if each not in rule.cluster]

    async def run() -> None:
        authorizer = MemoryAuthorizer(*others)
        if AclOperation.DESCRIBE in rule.cluster:
            # These imply it.
            authorizer.allowed -= {
                to_cluster(each)
                for each in (
                    AclOperation.READ,
                    AclOperation.WRITE,
                    AclOperation.DELETE,
                    AclOperation.ALTER,
                )
            }
        async with (
            running_broker(tmp_path, authorizer) as server,
            connected_as(server, ALICE) as client,
        ):
            before = server.image
            for version in range(max(SERVED[key][0], rule.cluster_since), SERVED[key][1] + 1):
                told = set[int]()
                for seed in range(5):
                    messages = RandomMessages(seed, small=True)
                    request = messages.message(codec.request_class(key), version)
                    told |= codes_of(await client.call(key, version, request))
                # The oldest versions of some have no place for it where nothing is named.
                assert told <= {0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, version
            assert told == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
            assert server.image.offset == before.offset

    asyncio.run(run())


def topic(operation: AclOperation, name: str) -> Given:
    return Given(operation, AclResourceType.TOPIC, name)


async def make(client: RawClient, name: str) -> create_topics.CreatableTopicResult:
    wanted = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    made = await client.call(
        ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics=[wanted])
    )
    (result,) = made.topics
    assert isinstance(result, create_topics.CreatableTopicResult)
    return result


async def delete(client: RawClient, *topics: dict[str, Any]) -> list[tuple[Any, bytes, int]]:
    request = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(**named) for named in topics], timeout_ms=20_000
    )
    response = await client.call(ApiKey.DELETE_TOPICS, 6, request)
    return [(each.name, each.topic_id, each.error_code) for each in response.responses]


def test_a_hidden_topic_is_deleted_neither_by_name_nor_by_id(tmp_path: Path) -> None:
    """By name as if it were not there; by id it has no name, where Kafka names no code either."""

    async def run() -> None:
        authorizer = MemoryAuthorizer()
        authorizer.allow_all()
        async with (
            running_broker(tmp_path, authorizer) as server,
            connected_as(server, ALICE) as client,
        ):
            topic_id = (await make(client, "t")).topic_id
            zero = bytes(16)
            authorizer.grant()
            assert await delete(client, {"name": "t"}) == [("t", zero, REFUSED)]
            assert await delete(client, {"name": "absent"}) == [("absent", zero, REFUSED)]
            by_id = {"name": None, "topic_id": topic_id}
            assert await delete(client, by_id) == [(None, topic_id, REFUSED)]
            authorizer.grant(topic(AclOperation.DESCRIBE, "t"))
            assert await delete(client, by_id) == [("t", topic_id, REFUSED)]
            assert await delete(client, {"name": "t"}) == [("t", zero, REFUSED)]
            assert "t" in server.image.topics.by_name
            authorizer.grant(topic(AclOperation.DELETE, "t"))
            assert await delete(client, by_id) == [("t", topic_id, 0)]

    asyncio.run(run())


def test_a_hidden_topic_looks_absent_through_another_broker(tmp_path: Path) -> None:
    """That one knows the name and sends its id: the client must not see it (decision 0014)."""

    async def run() -> None:
        authorizer = MemoryAuthorizer()
        authorizer.allow_all()

        def broker(node_id: int) -> Server:
            return Server(
                {
                    "node.id": str(node_id),
                    "cluster.id": CLUSTER_ID,
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                    "log.dirs": str(tmp_path / str(node_id)),
                    "arbiter.file.path": str(tmp_path / "arbiter"),
                    "admin.http.port": "-1",
                    "barnabas.broker.principals": "User:ANONYMOUS",
                },
                authorizer=authorizer,
            )

        servers = [broker(node_id) for node_id in range(2)]
        await asyncio.gather(*(server.start() for server in servers))
        try:
            (other,) = (one for one in servers if not one.control.controller.is_active)
            async with connected_as(other, ALICE) as client:
                await make(client, "t")
                async with asyncio.timeout(20):
                    while "t" not in other.replicas.image.topics.by_name:
                        await asyncio.sleep(0.01)
                authorizer.grant()
                hidden = await delete(client, {"name": "t"})
                absent = await delete(client, {"name": "absent"})
                assert hidden == [("t", bytes(16), REFUSED)]
                assert absent == [("absent", bytes(16), REFUSED)]
                both = await delete(client, {"name": "t"}, {"name": "absent"})
                assert sorted(both) == sorted(hidden + absent)
                assert (ALICE, "127.0.0.1") in authorizer.seen
        finally:
            for server in servers:
                await server.stop()

    asyncio.run(run())


def test_who_may_create_a_topic_need_not_see_its_settings(tmp_path: Path) -> None:
    """KIP-525."""

    async def run() -> None:
        authorizer = MemoryAuthorizer(to_cluster(AclOperation.CREATE))
        async with (
            running_broker(tmp_path, authorizer) as server,
            connected_as(server, ALICE) as client,
        ):
            result = await make(client, "t")
            assert (result.error_code, result.topic_config_error_code) == (0, REFUSED)
            assert (result.num_partitions, result.replication_factor) == (-1, -1)
            assert not result.configs
            assert authorizer.asked == []
            assert set(authorizer.filters) == {
                to_cluster(AclOperation.CREATE),
                topic(AclOperation.DESCRIBE_CONFIGS, "t"),
            }

    asyncio.run(run())
