"""The client against a running broker: the whole path from settings to answers."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.config import AdminSettings, ClientSettings, ConsumerSettings
from barnabas_client.errors import (
    ClosedError,
    IllegalStateError,
    NotFoundError,
    TimedOutError,
    UnsupportedError,
    UsageError,
)
from barnabas_client.network import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas_protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas_protocol.messages.metadata import MetadataRequest

Names = Callable[[str], str]
TIMEOUT_MS = 20_000


def settings(bootstrap: str, **more: object) -> ClientSettings:
    return ClientSettings.create({"bootstrap_servers": bootstrap, **more})


def run_with(client: Client, body: Callable[[Client], object]) -> None:
    """Start the client, await the body, close; whatever is left behind fails the test."""

    async def run() -> None:
        await client.start()
        try:
            await body(client)  # type: ignore[misc]
        finally:
            await client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others

    asyncio.run(run())


async def create_topic(client: Client, name: str, partitions: int = 2) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = await client.request_controller(CreateTopicsRequest(topics=[topic], timeout_ms=9000))
    assert [row.error_code for row in answer.topics] == [ErrorCode.NONE]


async def delete_topic(client: Client, name: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=9000
    )
    answer = await client.request_controller(request)
    assert [row.error_code for row in answer.responses] == [ErrorCode.NONE]


def test_start_finds_the_cluster(bootstrap: str) -> None:
    """CLI-1: one bootstrap address leads to the advertised nodes."""

    async def body(client: Client) -> None:
        assert client.cluster.version == 1
        assert client.cluster.nodes
        assert client.cluster.controller_id in client.cluster.nodes

    run_with(Client(settings(bootstrap)), body)


def test_the_bootstrap_connection_serves_as_the_brokers_own(bootstrap: str) -> None:
    """One connection less: the address that was connected to is the broker that advertises it."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes
        assert client.is_ready(node_id)

    run_with(Client(settings(bootstrap)), body)


def test_request_negotiates_the_newest_version(bootstrap: str) -> None:
    """KIP-35: without a version, both sides' newest is spoken."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes
        answer = await client.request(node_id, MetadataRequest(topics=[]))
        assert answer.cluster_id == client.cluster.cluster_id
        assert await client.version(node_id, ApiKey.METADATA) == 13
        assert client.known_version(node_id, ApiKey.METADATA, maximum=9) == 9

    run_with(Client(settings(bootstrap)), body)


def test_an_unserved_api_is_named_with_the_broker(bootstrap: str) -> None:
    """Errors say what to do: which API, which broker, what it serves."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes
        assert client.known_version(node_id, ApiKey.ENVELOPE) is None
        with pytest.raises(UnsupportedError, match=r"ENVELOPE.*broker \d+ at .*does not serve it"):
            await client.version(node_id, ApiKey.ENVELOPE)
        with pytest.raises(UnsupportedError, match=r"METADATA version 14 .*serves 0 to 13"):
            await client.version(node_id, ApiKey.METADATA, minimum=14)

    run_with(Client(settings(bootstrap)), body)


def test_requests_sent_at_once_get_responses_in_order(bootstrap: str) -> None:
    """CLI-3: many in flight on one connection, each gets its own answer."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes
        futures = [
            client.send_now(
                node_id,
                FindCoordinatorRequest(coordinator_keys=[f"group-{number}"]),
                4,
                timeout_ms=TIMEOUT_MS,
            )
            for number in range(50)
        ]
        assert client.in_flight_count(node_id) == 50
        answers = await asyncio.gather(*futures)
        assert [row.coordinators[0].key for row in answers] == [f"group-{n}" for n in range(50)]
        assert client.in_flight_count(node_id) == 0

    run_with(Client(settings(bootstrap)), body)


def test_more_requests_than_may_be_in_flight_wait_their_turn(bootstrap: str) -> None:
    """CLI-2: `request` waits for room; nobody is forgotten and nobody overtakes the limit."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes

        async def ask() -> None:
            await client.request(node_id, MetadataRequest(topics=[]))
            assert client.in_flight_count(node_id) <= 2

        await asyncio.gather(*(ask() for _ in range(40)))

    limited = settings(bootstrap, max_in_flight_requests_per_connection=2)
    run_with(Client(limited), body)


def test_a_cancelled_caller_leaves_the_connection_consistent(bootstrap: str) -> None:
    """CLI-3: the answer to a request that nobody waits for any more is skipped, in its place."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes
        abandoned = asyncio.ensure_future(client.request(node_id, MetadataRequest(topics=[])))
        kept = asyncio.ensure_future(client.request(node_id, ApiVersionsRequest(), version=0))
        await asyncio.sleep(0)
        abandoned.cancel()
        answer = await kept
        assert answer.error_code == ErrorCode.NONE
        assert (await client.request(node_id, MetadataRequest(topics=[]))).brokers

    run_with(Client(settings(bootstrap)), body)


def test_a_missing_topic_is_created_where_that_is_allowed(bootstrap: str, unique: Names) -> None:
    """LEADER_NOT_AVAILABLE and the like are waited out."""

    async def body(client: Client) -> None:
        name = unique("made")
        topic = await client.wait_for_topic(name, timeout_ms=TIMEOUT_MS)
        assert sorted(topic.partitions) == [0, 1, 2, 3]
        assert client.cluster.topic_names[topic.topic_id] == name
        assert client.cluster.partition_count(name) == 4

    run_with(Client(settings(bootstrap)), body)


def test_a_topic_that_nobody_creates_is_not_found_after_the_timeout(
    bootstrap: str, unique: Names
) -> None:
    """The error's type says what to do: nothing comes of trying again."""

    async def body(client: Client) -> None:
        name = unique("absent")
        with pytest.raises(NotFoundError, match=name):
            await client.wait_for_topic(name, timeout_ms=400)

    run_with(Client(AdminSettings.create({"bootstrap_servers": bootstrap})), body)


def test_an_invalid_topic_name_is_refused_at_once(bootstrap: str) -> None:
    """INVALID_TOPIC_EXCEPTION is not retriable."""

    async def body(client: Client) -> None:
        with pytest.raises(UsageError, match="a b"):
            await client.wait_for_topic("a b", timeout_ms=TIMEOUT_MS)

    run_with(Client(settings(bootstrap)), body)


def test_a_topic_that_is_made_anew_gets_its_new_id(bootstrap: str, unique: Names) -> None:
    """KIP-516: epochs of the old topic do not keep the new one out."""

    async def body(client: Client) -> None:
        name = unique("phoenix")
        await create_topic(client, name)
        first = await client.wait_for_topic(name, timeout_ms=TIMEOUT_MS)
        await delete_topic(client, name)
        await create_topic(client, name, partitions=3)
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            while True:
                topic = (await client.refresh()).topics[name]
                if topic.topic_id != first.topic_id and topic.partitions:
                    break
        assert len(topic.partitions) == 3

    run_with(Client(AdminSettings.create({"bootstrap_servers": bootstrap})), body)


def test_refresh_brings_a_newer_picture_and_calls_back(bootstrap: str, unique: Names) -> None:
    """CLI-7: waiters wait for a newer version than they saw; CLI-4: callbacks never break it."""

    async def body(client: Client) -> None:
        seen: list[int] = []

        def broken(_: ClusterMetadata) -> None:
            raise ZeroDivisionError

        end_broken = client.on_metadata(broken)
        end = client.on_metadata(lambda picture: seen.append(picture.version))
        before = client.cluster.version
        picture = await client.refresh()
        assert picture.version > before
        assert seen == [picture.version]
        end_broken()
        end()
        client.request_refresh()
        newest = await client.wait_for_version(picture.version, timeout_ms=TIMEOUT_MS)
        assert newest.version > picture.version
        assert seen == [picture.version]

    run_with(Client(settings(bootstrap)), body)


def test_wanted_topics_are_replaced(bootstrap: str, unique: Names) -> None:
    """A consumer that unsubscribes no longer pays for the topics it left."""

    async def body(client: Client) -> None:
        first, second = unique("first"), unique("second")
        await client.wait_for_topic(first, timeout_ms=TIMEOUT_MS)
        client.set_wanted_topics([second])
        await client.wait_for_topic(second, timeout_ms=TIMEOUT_MS)
        assert set((await client.refresh()).topics) == {second}
        client.want_all_topics(True)
        assert {first, second} <= set((await client.refresh()).topics)

    run_with(Client(settings(bootstrap)), body)


def test_the_coordinator_has_a_connection_of_its_own(bootstrap: str, unique: Names) -> None:
    """A heartbeat must not wait behind a fetch that waits for records."""

    async def body(client: Client) -> None:
        group = unique("group")
        node_id = await client.coordinator(CoordinatorType.GROUP, group, timeout_ms=TIMEOUT_MS)
        assert node_id not in client.cluster.nodes
        node = client.node(node_id)
        assert node is not None
        assert node.node_id in client.cluster.nodes
        assert await client.version(node_id, ApiKey.HEARTBEAT) == 4
        assert await client.coordinator(CoordinatorType.GROUP, group) == node_id
        client.forget_coordinator(CoordinatorType.GROUP, group)
        assert await client.coordinator(CoordinatorType.GROUP, group) == node_id

    run_with(Client(ConsumerSettings.create({"bootstrap_servers": bootstrap})), body)


def test_any_broker_responds_and_a_short_timeout_spares_the_connection(bootstrap: str) -> None:
    """A caller in a hurry gives up; the connection goes on, for CLI-5 is about the broker."""

    async def body(client: Client) -> None:
        (node_id,) = client.cluster.nodes
        assert (await client.request_any(MetadataRequest(topics=[]))).brokers
        with pytest.raises(TimedOutError):
            await client.request(node_id, MetadataRequest(topics=[]), timeout_ms=0)
        assert client.is_ready(node_id)

    run_with(Client(settings(bootstrap)), body)


def test_a_client_that_is_not_running_says_so(bootstrap: str) -> None:
    """Wrong use is told apart from trouble."""

    async def body() -> None:
        client = Client(settings(bootstrap))
        with pytest.raises(IllegalStateError, match="start"):
            await client.request_any(MetadataRequest(topics=[]))
        await client.start()
        await client.close()
        await client.close()
        with pytest.raises(ClosedError):
            await client.refresh()
        with pytest.raises(ClosedError):
            await client.start()

    asyncio.run(body())


def test_client_ids_count_by_role(bootstrap: str) -> None:
    """CLI-8: `consumer-1`, unless the user names it."""
    first = Client(ConsumerSettings.create({"bootstrap_servers": bootstrap}))
    second = Client(ConsumerSettings.create({"bootstrap_servers": bootstrap}))
    number = int(first.client_id.removeprefix("consumer-"))
    assert second.client_id == f"consumer-{number + 1}"
    named = ConsumerSettings.create({"bootstrap_servers": bootstrap, "client.id": "mine"})
    assert Client(named).client_id == "mine"
