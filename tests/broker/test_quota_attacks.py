"""Ways around a quota, tried out: by many connections, many names, huge frames and no manners.

What a quota cannot stop is here as well, so that `docs/quotas.md` stays true.
"""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.network import listener
from barnabas_broker.quotas.quota_buckets import BUCKETS_MAX
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import api_versions, metadata
from tests.broker.broker_requests import (
    batch,
    fetch_request,
    produce_request,
    produced,
    set_quota,
    topic_id_of,
    with_broker,
)
from tests.support.in_process_broker import eventually
from tests.support.raw_client import RawClient

PRODUCE, CONSUME, TIME, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
)
RATE = 1_000
WINDOW_MS = 11_000
"""The longest window of a rate; a throttle is no shorter than what exceeds it."""
LITTLE = 1e-6


def frame_bytes(request: Any, client_id: str) -> int:
    return len(codec.encode_request(request, ApiKey.PRODUCE, 12, 1, client_id))


async def produce_once(server: Server, client_id: str, request: Any) -> int:
    """By a connection of its own; for how long its response says to wait."""
    async with await RawClient.connect(server.port, client_id=client_id) as client:
        response = await client.call(ApiKey.PRODUCE, 12, request)
    assert response.responses[0].partition_responses[0].error_code == 0
    return int(response.throttle_time_ms)


@pytest.mark.parametrize("is_one_id", [True, False])
def test_connections_and_client_ids_of_a_user_add_up(tmp_path: Path, is_one_id: bool) -> None:
    """QUO-2: each waits until what all have sent keeps the rate; others do not wait."""

    async def test(server: Server, admin: RawClient) -> None:
        request = produce_request(batch(b"x" * 5_000), await topic_id_of(admin))
        entity = {"client_id": "app"} if is_one_id else {"user": "ANONYMOUS"}
        await set_quota(admin, PRODUCE, RATE, **entity)
        sent = 0
        for number in range(20):
            client_id = "app" if is_one_id else f"app-{number}"
            throttle_ms = await produce_once(server, client_id, request)
            sent += frame_bytes(request, client_id)
            assert throttle_ms >= sent * 1000 / RATE - WINDOW_MS
        assert throttle_ms > 80_000
        if is_one_id:
            assert await produce_once(server, "other", request) == 0

    with_broker(tmp_path, test)


def test_invented_client_ids_escape_a_default_and_no_quota_by_name(tmp_path: Path) -> None:
    """QUO-2: by thousands of names a client gets rid of no count but of its own inventions."""

    async def test(server: Server, admin: RawClient) -> None:
        request = produce_request(batch(b"x" * 20_000), await topic_id_of(admin))
        await set_quota(admin, PRODUCE, RATE, client_id=None)
        await set_quota(admin, PRODUCE, RATE, client_id="app")
        for client_id in ("app", "invented"):
            assert await produce_once(server, client_id, request) > 0
        quota = server.quotas.produce
        assert quota is not None
        async with await RawClient.connect(server.port) as client:
            small = produce_request(batch(b"x"), await topic_id_of(admin))
            for number in range(0, BUCKETS_MAX, 1_000):
                for one in range(number, number + 1_000):
                    frame = codec.encode_request(small, ApiKey.PRODUCE, 12, 1, f"id-{one}")
                    client.send_bytes(struct.pack(">I", len(frame)) + frame)
                for _ in range(1_000):
                    await client.receive(ApiKey.PRODUCE, 12)
        assert quota.buckets.bucket_count <= BUCKETS_MAX + 1
        assert await produce_once(server, "app", small) > 0
        assert await produce_once(server, "invented", small) == 0

    with_broker(tmp_path, test)


def test_fetches_by_many_connections_get_no_more(tmp_path: Path) -> None:
    """QUO-4: what exceeds the quota is not sent, however many ask; who is not over it reads on."""

    async def test(server: Server, admin: RawClient) -> None:
        topic_id = await topic_id_of(admin)
        records = batch(b"x" * 8_000)
        await produced(admin, 12, produce_request(records, topic_id))
        await set_quota(admin, CONSUME, RATE, user="ANONYMOUS", client_id="app")
        sizes = []
        for client_id in ["app"] * 10 + ["other"]:
            async with await RawClient.connect(server.port, client_id=client_id) as client:
                response = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id))
                sizes.append(len(response.responses[0].partitions[0].records or b""))
        assert sizes == [len(records)] + [0] * 9 + [len(records)]

    with_broker(tmp_path, test)


def test_who_is_muted_holds_up_nobody_and_no_memory(tmp_path: Path) -> None:
    """QUO-4: the pipe of a muted connection stays in its socket, on however many connections."""

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, TIME, LITTLE, client_id="app")
        clients = [await RawClient.connect(server.port, client_id="app") for _ in range(20)]
        requests = [api_versions.ApiVersionsRequest()] * 200
        for client in clients:
            for request in requests:
                client.send(ApiKey.API_VERSIONS, 2, request)
        for client in clients:
            response = await client.receive(ApiKey.API_VERSIONS, 2)
            assert 0 < response.throttle_time_ms <= 20_000
        handled = server.dispatcher.apis[ApiKey.API_VERSIONS].requests_count
        for _ in range(50):
            response = await admin.call(ApiKey.API_VERSIONS, 2, requests[0])
            assert response.throttle_time_ms == 0
        # Each connection gets one through for each mute that has ended, whatever waits behind it.
        assert handled <= server.listeners.metrics.mutes
        assert server.listeners.metrics.mutes < 20 * 200
        for client in clients:
            await client.__aexit__()

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    "kind", ["malformed", "unknown version", "unknown api version", "without a name"]
)
def test_bad_frames_take_time_like_good_ones(tmp_path: Path, kind: str) -> None:
    """QUO-3: what ends a connection is counted for its client all the same."""

    async def test(server: Server, admin: RawClient) -> None:
        client_id = "" if kind == "without a name" else "app"
        await set_quota(admin, TIME, 50, user="ANONYMOUS", client_id="app")
        await set_quota(admin, TIME, 50, client_id=None)
        throttle = server.quotas.request
        assert throttle is not None
        count = throttle.buckets.bucket_count
        good = codec.encode_request(metadata.MetadataRequest(), ApiKey.METADATA, 9, 1, client_id)
        frame = {
            "malformed": good[:-2] + b"\x7f",
            "unknown version": b"\x00\x03\x00\x63" + good[4:],
            "unknown api version": b"\x00\x12\x00\x63" + good[4:],
            "without a name": good,
        }[kind]
        async with await RawClient.connect(server.port) as client:
            client.send_bytes(struct.pack(">I", len(frame)) + frame)

            async def is_counted() -> bool:
                return throttle.buckets.bucket_count > count

            await eventually(is_counted)

    with_broker(tmp_path, test)


def test_a_connection_for_each_request_is_stopped_by_the_rate_of_its_address(
    tmp_path: Path,
) -> None:
    """KIP-612: by muting alone it is not, as in Kafka: `docs/quotas.md` says so."""

    async def test(server: Server, admin: RawClient) -> None:
        request = produce_request(batch(b"x" * 5_000), await topic_id_of(admin))
        await set_quota(admin, PRODUCE, 1, client_id="app")
        for _ in range(5):
            assert await produce_once(server, "app", request) > 0
        await set_quota(admin, CONNECTIONS, 1, ip="127.0.0.1")
        through = 0
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            for _ in range(100):
                await produce_once(server, "app", request)
                through += 1
        assert through == 10
        # The address of somebody else, and connections that are there, are not concerned.
        async with await RawClient.connect(server.port, from_host="127.0.0.2") as other:
            await other.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
        await admin.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())

    with_broker(tmp_path, test)


def test_a_flood_of_connections_keeps_few_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NET-4: those beyond are cut at once, and none takes the place of a connection."""
    monkeypatch.setattr(listener, "REFUSED_MAX", 3)

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, CONNECTIONS, 1, ip=None)
        clients = [
            await RawClient.connect(server.port, from_host="127.0.0.2") for _ in range(10 + 20)
        ]

        async def are_refused() -> bool:
            return server.listeners.metrics.rejected.get("connection-creation-rate") == 20

        await eventually(are_refused)
        assert server.listeners.connection_count == 11
        for client in clients[10:]:
            assert await client.is_closed_by_peer()
        await clients[0].call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
        for client in clients:
            await client.__aexit__()

    with_broker(tmp_path, test)


def test_a_broker_stops_while_refused_connections_are_kept(tmp_path: Path) -> None:
    """STOP-8: they are cut then."""

    async def test(server: Server, admin: RawClient) -> None:
        await set_quota(admin, CONNECTIONS, 1, ip=None)
        clients = [await RawClient.connect(server.port, from_host="127.0.0.2") for _ in range(12)]

        async def are_refused() -> bool:
            return server.listeners.metrics.rejected.get("connection-creation-rate") == 2

        await eventually(are_refused)
        await server.stop()
        for client in clients:
            assert await client.is_closed_by_peer()
            await client.__aexit__()

    with_broker(tmp_path, test)
