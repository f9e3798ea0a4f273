"""How large requests may be: the limits, and a broker that goes on beside what is beyond them."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.handlers.request_limits import (
    LOOP_BYTES_MAX,
    bytes_max,
    check_elements,
    each_once,
)
from barnabas_broker.handlers.table import HANDLERS
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.messages import (
    consumer_group_heartbeat,
    create_topics,
    describe_groups,
    find_coordinator,
    list_groups,
    metadata,
)
from tests.broker.broker_requests import with_broker
from tests.support.raw_client import RawClient


def test_every_api_but_those_with_batches_has_a_limit() -> None:
    unlimited = {key for key in HANDLERS if bytes_max(key) == 2**31 - 1}
    assert unlimited == {ApiKey.PRODUCE, *INTERNAL} & set(HANDLERS)


def test_a_member_may_own_very_many_partitions() -> None:
    """CG-4: it names all of them when it has let some go."""
    owned = [
        consumer_group_heartbeat.TopicPartitions(topic_id=bytes(16), partitions=[*range(45_000)])
    ]
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(topic_partitions=owned)
    check_elements(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)


def test_elements_are_counted_at_every_depth() -> None:
    topics = [
        create_topics.CreatableTopic(
            name=str(number),
            num_partitions=1,
            replication_factor=1,
            configs=[create_topics.CreatableTopicConfig(name="a", value="b")] * 499,
        )
        for number in range(200)
    ]
    check_elements(ApiKey.CREATE_TOPICS, create_topics.CreateTopicsRequest(topics=topics))
    with pytest.raises(ParseError, match="500 elements too many"):
        request = create_topics.CreateTopicsRequest(topics=[*topics, topics[0]])
        check_elements(ApiKey.CREATE_TOPICS, request)


def test_a_name_that_is_repeated_often_counts_once() -> None:
    assert each_once(["a", "a", "b"], str) == ["a", "a", "b"]
    assert each_once(["a", "b"] * 6, str) == ["a", "b"]


@pytest.mark.parametrize(
    ("key", "version", "request_"),
    [
        (
            ApiKey.FIND_COORDINATOR,
            4,
            find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"] * 300_000),
        ),
        (
            ApiKey.DESCRIBE_GROUPS,
            5,
            describe_groups.DescribeGroupsRequest(groups=["g"] * 300_000),
        ),
        (ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest(states_filter=["s"] * 60_000)),
        # Small enough to be read on the loop, of more elements than are carried out there.
        (ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest(states_filter=["s"] * 1_000)),
        (ApiKey.DESCRIBE_GROUPS, 5, describe_groups.DescribeGroupsRequest(groups=["g"] * 3_000)),
    ],
)
def test_a_request_of_very_many_elements_ends_its_connection(
    tmp_path: Path, key: ApiKey, version: int, request_: Any
) -> None:
    """Attack: a million entries in ten megabytes stopped the broker for a minute and more."""

    async def test(server: Server, client: RawClient) -> None:
        client.send(key, version, request_)
        assert await client.is_closed_by_peer()
        async with await RawClient.connect(server.port) as other:
            response = await other.call(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=[]))
            assert response.error_code == ErrorCode.NONE

    with_broker(tmp_path, test)


def test_a_large_request_within_the_limits_is_answered_in_order(tmp_path: Path) -> None:
    """It is read in a thread: the next request of the connection waits for it."""
    names = [metadata.MetadataRequestTopic(name=f"no-such-topic-{n:05d}") for n in range(5_000)]

    async def test(server: Server, client: RawClient) -> None:
        large = metadata.MetadataRequest(topics=names, allow_auto_topic_creation=False)
        first = client.send(ApiKey.METADATA, 9, large)
        second = client.send(ApiKey.METADATA, 9, metadata.MetadataRequest(topics=[]))
        response = await client.receive(ApiKey.METADATA, 9)
        assert (client.last_correlation_id, len(response.topics)) == (first, 5_000)
        response = await client.receive(ApiKey.METADATA, 9)
        assert (client.last_correlation_id, response.topics) == (second, [])
        assert server.listeners.metrics.connections_open == 1
        await asyncio.sleep(0)

    with_broker(tmp_path, test)


def test_a_frame_that_is_read_on_the_loop_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16,000 elements are some milliseconds; what may hold more is read in a thread."""
    on_loop: list[int] = []
    real = codec.decode

    def decode(kind: Any, frame: Any, version: int, position: int = 0) -> Any:
        is_request = kind is metadata.MetadataRequest
        if is_request and threading.current_thread() is threading.main_thread():
            on_loop.append(len(frame))
        return real(kind, frame, version, position)

    monkeypatch.setattr("barnabas_broker.handlers.dispatch.codec.decode", decode)

    async def test(server: Server, client: RawClient) -> None:
        for count in (100, 20_000):
            topics = [metadata.MetadataRequestTopic(name=str(number)) for number in range(count)]
            request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            assert len((await client.call(ApiKey.METADATA, 12, request)).topics) == count
        assert on_loop
        assert max(on_loop) <= LOOP_BYTES_MAX <= 16 * 1024
        assert server.heavy_work.run_count == 2  # it is read, and its answer is written

    with_broker(tmp_path, test)


def test_a_response_that_is_too_large_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a response of four gigabytes had a negative size in front of it."""
    monkeypatch.setattr("barnabas_broker.handlers.request_limits.RESPONSE_BYTES_MAX", 20_000)

    async def test(server: Server, client: RawClient) -> None:
        for count, codes in ((100, {ErrorCode.NONE}), (500, {ErrorCode.INVALID_REQUEST})):
            request = find_coordinator.FindCoordinatorRequest(
                key_type=0, coordinator_keys=["a" * 20 + str(number) for number in range(count)]
            )
            response = await client.call(ApiKey.FIND_COORDINATOR, 4, request)
            found = {one.error_code for one in response.coordinators} | {response.error_code}
            assert found & {ErrorCode.INVALID_REQUEST} == codes & {ErrorCode.INVALID_REQUEST}
        # Read in a thread, and described in slices.
        topics = [metadata.MetadataRequestTopic(name=str(number)) for number in range(5_000)]
        request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await client.call(ApiKey.METADATA, 12, request)
        assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}

    with_broker(tmp_path, test)
