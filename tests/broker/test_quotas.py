"""Quotas of time, of changes to topics and of new connections, at whole brokers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    alter_client_quotas,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_client_quotas,
    metadata,
)
from tests.broker.broker_requests import (
    batch,
    fetch_request,
    produce_request,
    set_quota,
    topic_id_of,
    with_broker,
)
from tests.support.in_process_broker import eventually
from tests.support.in_process_cluster import controller_of, running_cluster
from tests.support.raw_client import RawClient

TIME, CHANGES, CONNECTIONS = (
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
LITTLE = 1e-6
"""A percentage that the first request exceeds, on any machine."""
SLOW = 0.1
"""Changes a second: a full bucket has 1.1 tokens."""


async def versions(client: RawClient) -> int:
    """For how long ApiVersions says to wait."""
    response = await client.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
    return int(response.throttle_time_ms)


def creation(prefix: str, *counts: int, **more: Any) -> create_topics.CreateTopicsRequest:
    topics = [
        create_topics.CreatableTopic(
            name=f"{prefix}-{index}", num_partitions=count, replication_factor=1
        )
        for index, count in enumerate(counts)
    ]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=30_000, **more)


async def changed(port: int, key: ApiKey, version: int, request: Any) -> tuple[list[int], int]:
    """The codes of a response and its time to wait, by a connection of its own."""
    async with await RawClient.connect(port, client_id="app") as client:
        response = await client.call(key, version, request)
    array = {ApiKey.CREATE_PARTITIONS: "results", ApiKey.DELETE_TOPICS: "responses"}
    results = getattr(response, array.get(key, "topics"))
    return [result.error_code for result in results], response.throttle_time_ms


# Request time.


def test_time_is_measured_on_open_connections_and_says_so_in_every_response(tmp_path: Path) -> None:
    """QUO-3, QUO-8: ApiVersions, coroutines, Produce and Fetch, whose responses are by hand."""

    async def test(server: Server, admin: RawClient) -> None:
        topic_id = await topic_id_of(admin)
        async with await RawClient.connect(server.port, client_id="app") as client:
            assert await versions(client) == 0
            await set_quota(admin, TIME, LITTLE, client_id="app")
            assert await versions(client) == 1_000
        assert await versions(admin) == 0
        for key, version, request in (
            (ApiKey.METADATA, 9, metadata.MetadataRequest(topics=[])),
            (ApiKey.CREATE_TOPICS, 7, creation("made", 1)),
            (ApiKey.PRODUCE, 12, produce_request(batch(b"x"), topic_id)),
            (ApiKey.FETCH, 13, fetch_request(0, topic_id)),
            (ApiKey.FETCH, 13, fetch_request(5, topic_id)),
        ):
            async with await RawClient.connect(server.port, client_id="app") as client:
                response = await client.call(key, version, request)
                assert response.throttle_time_ms > 0, key
        assert server.listeners.metrics.mutes >= 6
        await set_quota(admin, TIME, None, client_id="app")
        async with await RawClient.connect(server.port, client_id="app") as client:
            assert await versions(client) == 0
            assert server.quotas.request is None

    with_broker(tmp_path, test)


def test_requests_in_the_pipe_wait_while_their_connection_is_muted(tmp_path: Path) -> None:
    """QUO-4, NET-7: a client that does not wait for responses gains nothing, nor does it hurt."""

    async def test(server: Server, admin: RawClient) -> None:
        await versions(admin)
        await set_quota(admin, TIME, LITTLE, client_id="app")
        async with await RawClient.connect(server.port, client_id="app") as client:
            request = api_versions.ApiVersionsRequest()
            before = server.dispatcher.apis[ApiKey.API_VERSIONS].requests_count
            for _ in range(100):
                client.send(ApiKey.API_VERSIONS, 2, request)
            await client.receive(ApiKey.API_VERSIONS, 2)
            assert await versions(admin) == 0
            count = server.dispatcher.apis[ApiKey.API_VERSIONS].requests_count - before
            # One before the mute, and one for each second that has passed since.
            assert count <= 1 + 1 + server.listeners.metrics.mutes

    with_broker(tmp_path, test)


def test_acks_0_and_brokers_take_time_that_counts_for_nobody(tmp_path: Path) -> None:
    """QUO-5: it is counted apart while there are quotas of time."""

    async def test(server: Server, admin: RawClient) -> None:
        topic_id = await topic_id_of(admin)
        await set_quota(admin, TIME, LITTLE, client_id="app")
        throttle = server.quotas.request
        assert throttle is not None
        seen_ns = throttle.exempt_ns
        async with await RawClient.connect(server.replication_port, client_id="app") as broker:
            assert await versions(broker) == 0
        assert throttle.exempt_ns > seen_ns
        seen_ns = throttle.exempt_ns
        async with await RawClient.connect(server.port, client_id="app") as client:
            client.send(ApiKey.PRODUCE, 12, produce_request(batch(b"x"), topic_id, acks=0))

            async def is_counted() -> bool:
                return throttle.exempt_ns > seen_ns

            await eventually(is_counted)
        assert throttle.throttled_count == 0

    with_broker(tmp_path, test)


def test_a_large_request_counts_the_thread_that_reads_it(tmp_path: Path) -> None:
    """QUO-3: huge frames are no way around a quota."""

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, TIME, 50, client_id="app")
        throttle = server.quotas.request
        assert throttle is not None
        names = [metadata.MetadataRequestTopic(name=f"n{number}") for number in range(5_000)]
        request = metadata.MetadataRequest(topics=names, allow_auto_topic_creation=False)
        async with await RawClient.connect(server.port, client_id="app") as client:
            before = server.heavy_work.run_count
            await client.call(ApiKey.METADATA, 9, request)
            assert server.heavy_work.run_count > before
        (sample,) = [
            sample
            for sample in server.quotas.samples()
            if sample.name == "barnabas_client_quota_buckets"
            and sample.labels == {"quota": "request"}
        ]
        assert sample.value == 1

    with_broker(tmp_path, test)


# Changes to topics.


def test_new_versions_are_refused_beyond_the_tokens_and_old_ones_wait(tmp_path: Path) -> None:
    """QUO-7: the topic that takes the last token is made; KIP-599 says from which versions on."""

    async def test(server: Server, admin: RawClient) -> None:
        async def refill() -> None:
            # A quota that nobody can exceed pays all debts at once, and fills the smaller bucket.
            await set_quota(admin, CHANGES, 2.0**31 - 1, client_id="app")
            await asyncio.sleep(0.002)
            await changed(
                server.port, ApiKey.CREATE_TOPICS, 7, creation("no", 1, validate_only=True)
            )
            await set_quota(admin, CHANGES, SLOW, client_id="app")

        created = []
        for version, codes in ((5, [0, 0, 0]), (7, [0, 89, 89])):
            await refill()
            request = creation(f"v{version}", 2, 2, 3)
            response = await changed(server.port, ApiKey.CREATE_TOPICS, version, request)
            assert response[0] == codes
            assert response[1] > 0
            created += [name for name in server.image.topics.by_name if f"v{version}" in name]
        assert created == ["v5-0", "v5-1", "v5-2", "v7-0"]
        again = await changed(server.port, ApiKey.CREATE_TOPICS, 7, creation("late", 1, 0))
        assert again[0] == [89, ErrorCode.INVALID_PARTITIONS]
        for version, codes in ((2, [3, 0, 0]), (3, [3, 0, 89])):
            await refill()
            grown = [("nobody", 9), ("v5-0", 4 * version), ("v5-1", 4 * version)]
            partitions = create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(
                        name=name, count=count, assignments=None
                    )
                    for name, count in grown
                ],
                timeout_ms=30_000,
            )
            response = await changed(server.port, ApiKey.CREATE_PARTITIONS, version, partitions)
            assert response[0] == codes
            assert response[1] > 0
        for version, names, codes in (
            (4, ["nobody", "v5-0", "v5-1"], [3, 0, 0]),
            (5, ["nobody", "v5-2", "v7-0"], [3, 0, 89]),
        ):
            await refill()
            gone = delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
            response = await changed(server.port, ApiKey.DELETE_TOPICS, version, gone)
            assert response[0] == codes
            assert response[1] > 0
        assert list(server.image.topics.by_name) == ["v7-0"]
        samples = {
            sample.name: sample.value
            for sample in server.quotas.samples()
            if sample.labels == {"quota": "controller-mutation"}
        }
        assert samples["barnabas_client_throttles_total"] == 7
        assert samples["barnabas_client_quota_buckets"] == 1

    with_broker(tmp_path, test)


def test_who_is_over_the_quota_is_muted_and_others_are_not(tmp_path: Path) -> None:
    """QUO-4, QUO-7: the response is there at once, the next request waits."""

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, CHANGES, 5, client_id="app")
        async with await RawClient.connect(server.port, client_id="app") as client:
            response = await client.call(ApiKey.CREATE_TOPICS, 5, creation("a", 57))
            assert 0 < response.throttle_time_ms <= 400
            assert server.listeners.metrics.mutes == 1
            await versions(client)
        more = await admin.call(ApiKey.CREATE_TOPICS, 7, creation("b", 60, 60))
        assert (more.throttle_time_ms, [topic.error_code for topic in more.topics]) == (0, [0, 0])
        assert server.listeners.metrics.mutes == 1

    with_broker(tmp_path, test)


def test_topics_that_are_named_count_and_are_made_all_the_same(tmp_path: Path) -> None:
    """QUO-7: auto-create is permissive; the connection is muted when the topic is there."""

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, CHANGES, SLOW, client_id="app")
        async with await RawClient.connect(server.port, client_id="app") as client:
            names = [metadata.MetadataRequestTopic(name=f"named-{n}") for n in range(4)]
            request = metadata.MetadataRequest(topics=names, allow_auto_topic_creation=True)
            await client.call(ApiKey.METADATA, 9, request)

            async def is_muted() -> bool:
                return server.listeners.metrics.mutes > 0 and len(server.image.topics.by_name) == 4

            await eventually(is_muted)
        codes, _ = await changed(server.port, ApiKey.CREATE_TOPICS, 7, creation("app", 1))
        assert codes == [89]

    with_broker(tmp_path, test)


@pytest.mark.parametrize("version", [4, 7])
def test_a_quota_holds_by_whatever_broker_and_for_the_next_controller(
    tmp_path: Path, version: int
) -> None:
    """QUO-7, CTL-15: the broker of the client mutes it; a new controller has full buckets."""

    async def run() -> None:
        async with running_cluster(tmp_path) as servers:
            old = controller_of(servers)
            front, other = (server for server in servers if server is not old)
            async with await RawClient.connect(other.port) as admin:
                await set_quota(admin, CHANGES, SLOW, client_id="app")

            async def has_quota() -> bool:
                return all(server.quotas.mutation is not None for server in servers)

            await eventually(has_quota)
            refusal = [] if version < 6 else [89]
            for number, left in ((1, servers), (2, [front, other])):
                request = creation(f"t{number}", 3, *([3] if refusal else []))
                codes, throttle_ms = await changed(
                    front.port, ApiKey.CREATE_TOPICS, version, request
                )
                assert codes == [0, *refusal]
                assert throttle_ms > 0
                assert front.listeners.metrics.mutes == number
                gone = delete_topics.DeleteTopicsRequest(topic_names=[f"t{number}-0"])
                codes, throttle_ms = await changed(
                    other.port, ApiKey.DELETE_TOPICS, 5 if refusal else 4, gone
                )
                assert codes == (refusal or [0])
                assert throttle_ms > 0
                assert sum(server.listeners.metrics.mutes for server in left) == 2 * number
                if number == 1:
                    await old.stop()

    asyncio.run(run())


# New connections.


async def is_refused(port: int, from_host: str = "127.0.0.1") -> bool:
    """Whether a new connection is cut and gets no response."""
    client = await RawClient.connect(port, from_host=from_host)
    async with client:
        client.send(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
        try:
            await client.receive(ApiKey.API_VERSIONS, 2)
        except (asyncio.IncompleteReadError, ConnectionError):
            return True
    return False


def test_connections_beyond_the_rate_are_cut_and_those_of_others_are_not(tmp_path: Path) -> None:
    """QUO-1, QUO-8, KIP-612: each address for itself; ten seconds' worth may come at once."""

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, CONNECTIONS, 1, ip=None)
        await set_quota(admin, CONNECTIONS, 2, ip="127.0.0.3")
        for host, allowed in (("127.0.0.2", 10), ("127.0.0.3", 20)):
            came = [await is_refused(server.port, host) for _ in range(allowed + 1)]
            assert came == [False] * allowed + [True], host
        rejected = server.listeners.metrics.rejected
        assert rejected == {"connection-creation-rate": 2}
        assert not await is_refused(server.port)
        for _ in range(30):
            assert not await is_refused(server.replication_port, "127.0.0.2")
        # What was refused does not count: a larger quota is not used up.
        await set_quota(admin, CONNECTIONS, 3, ip="127.0.0.3")
        assert not await is_refused(server.port, "127.0.0.3")
        await set_quota(admin, CONNECTIONS, None, ip=None)
        assert not await is_refused(server.port, "127.0.0.2")
        assert server.listeners.connection_count >= 1

    with_broker(tmp_path, test)


# What is hostile.


def test_thousands_of_entities_are_described_in_a_thread(tmp_path: Path) -> None:
    """QUO-1: and what a filter fits is found among them."""

    async def test(server: Server, admin: RawClient) -> None:
        for first in range(0, 3_000, 500):
            await set_quotas(admin, [f"u{first + number}" for number in range(500)])
        before = server.heavy_work.run_count
        response = await admin.call(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            1,
            describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False),
        )
        assert len(response.entries) == 3_000
        component = describe_client_quotas.ComponentData(
            entity_type="user", match_type=0, match="u17"
        )
        request = describe_client_quotas.DescribeClientQuotasRequest(components=[component])
        (entry,) = (await admin.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)).entries
        assert [(value.key, value.value) for value in entry.values] == [(TIME, 5.0)]
        assert server.heavy_work.run_count == before + 2
        bad = describe_client_quotas.ComponentData(entity_type="team", match_type=2, match=None)
        request = describe_client_quotas.DescribeClientQuotasRequest(components=[bad])
        refused = await admin.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION

    with_broker(tmp_path, test)


async def set_quotas(client: RawClient, users: list[str]) -> None:
    entries = [
        alter_client_quotas.AlterClientQuotasRequestEntryData(
            entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=user)],
            ops=[alter_client_quotas.OpData(key=TIME, value=5.0)],
        )
        for user in users
    ]
    request = alter_client_quotas.AlterClientQuotasRequest(entries=entries)
    response = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    assert {entry.error_code for entry in response.entries} == {0}
