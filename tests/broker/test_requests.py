"""The way of a request: ApiVersions rules, unknown keys, malformed frames, clean restarts."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.handlers.table import HANDLERS
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    api_versions,
    broker_heartbeat,
    fetch,
    metadata,
    metadata_promise,
)
from tests.broker.broker_requests import (
    batch,
    fetch_request,
    produce_request,
    produced,
    topic_id_of,
    with_broker,
)
from tests.support.in_process_broker import running_broker
from tests.support.processes import free_port
from tests.support.raw_client import RawClient


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_exactly_the_table(tmp_path: Path, version: int) -> None:
    """NET-16: a key is advertised if and only if it has a handler, and is not for brokers only."""

    async def test(server: Server, client: RawClient) -> None:
        request = api_versions.ApiVersionsRequest(
            client_software_name="raw", client_software_version="1.0"
        )
        response = await client.call(ApiKey.API_VERSIONS, version, request)
        assert response.error_code == 0
        ranges = {entry.api_key: entry for entry in response.api_keys}
        assert set(ranges) == set(HANDLERS) - set(INTERNAL)
        assert ranges[ApiKey.PRODUCE].min_version == 0

    with_broker(tmp_path, test)


def test_unsupported_api_versions_version_is_answered_in_version_0(tmp_path: Path) -> None:
    """KIP-511, suites.md 9: a v0 body with error 35, naming our range of the key."""

    async def test(server: Server, client: RawClient) -> None:
        frame = bytearray(
            codec.encode_request(
                api_versions.ApiVersionsRequest(), ApiKey.API_VERSIONS, 4, 1, "raw"
            )
        )
        frame[2:4] = (99).to_bytes(2, "big")
        client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        response = await client.receive(ApiKey.API_VERSIONS, 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(e.api_key, e.min_version, e.max_version) for e in response.api_keys] == [
            (18, 0, 4)
        ]
        again = await client.call(ApiKey.API_VERSIONS, 0, api_versions.ApiVersionsRequest())
        assert again.error_code == 0

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\x00",
        b"\x00\x00\x00\x0a" + b"\x03\xe7\x00\x00" + bytes(6),
        b"\x00\x00\x00\x0a" + b"\x00\x00\x00\x02" + bytes(6),
        b"\x00\x00\x00\x12\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff\x00\x01xx",
    ],
    ids=["oversize", "negative", "short", "unknown key", "produce v2", "hostile count"],
)
def test_malformed_frames_close_their_connection_only(tmp_path: Path, data: bytes) -> None:
    """NET-6, NET-10: the peer is cut off, everybody else is served."""

    async def test(server: Server, client: RawClient) -> None:
        async with await RawClient.connect(server.port) as hostile:
            hostile.send_bytes(data)
            assert await hostile.is_closed_by_peer()
        response = await client.call(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=None))
        assert len(response.brokers) == 1

    with_broker(tmp_path, test)


def test_a_clean_restart_finds_everything(tmp_path: Path) -> None:
    """STOP-1, REC-1: the marker is there, ids are the same, the records too."""

    async def run() -> None:
        async with running_broker(tmp_path) as server:
            async with await RawClient.connect(server.port) as client:
                topic_id = await topic_id_of(client)
                await produced(client, 9, produce_request(batch(b"kept")))
            cluster_id = server.image.cluster_id
        assert (tmp_path / ".kafka_cleanshutdown").exists()
        async with running_broker(tmp_path) as server:
            assert server.image.cluster_id == cluster_id
            assert not (tmp_path / ".kafka_cleanshutdown").exists()
            async with await RawClient.connect(server.port) as client:
                assert await topic_id_of(client) == topic_id
                response = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id))
                assert b"kept" in bytes(response.responses[0].partitions[0].records)
                result = await produced(client, 9, produce_request(batch(b"next")))
                assert result.base_offset == 1

    asyncio.run(run())


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """Two processes on one directory would destroy it: the lock says so."""

    async def run() -> None:
        async with running_broker(tmp_path):
            with pytest.raises(Exception, match="lock"):
                async with running_broker(tmp_path):
                    pass

    asyncio.run(run())


def test_a_client_cannot_speak_for_brokers_on_the_only_listener_it_knows(tmp_path: Path) -> None:
    """Attack: one promise of the highest epoch ended the control plane, one fetch an acks=all."""
    properties = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    promise = metadata_promise.MetadataPromiseRequest(
        cluster_id=None, receiver_id=0, controller_epoch=2**31 - 1, leader_id=7
    )
    state = fetch.ReplicaState(replica_id=0, replica_epoch=10**12)

    async def test() -> None:
        async with running_broker(tmp_path, **properties) as server:
            async with await RawClient.connect(server.port) as client:
                client.send(ApiKey.METADATA_PROMISE, 0, promise)
                assert await client.is_closed_by_peer()
            async with await RawClient.connect(server.port) as client:
                for version, request in (
                    (17, fetch.FetchRequest(replica_state=state, topics=[])),
                    (12, fetch.FetchRequest(replica_id=0, topics=[])),
                ):
                    response = await client.call(ApiKey.FETCH, version, request)
                    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            async with await RawClient.connect(server.replication_port) as broker:
                response = await broker.call(ApiKey.METADATA_PROMISE, 0, promise)
                assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID

    asyncio.run(test())


def test_requests_of_brokers_are_for_their_listener_only(tmp_path: Path) -> None:
    """NET-16: clients of another listener must not fence brokers or follow the metadata log."""
    port = free_port()
    properties = {
        "listeners": f"BROKERS://127.0.0.1:{port},CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
    }
    request = broker_heartbeat.BrokerHeartbeatRequest(broker_id=0, broker_epoch=-1)

    async def test() -> None:
        async with running_broker(tmp_path, **properties) as server:
            own, other = server.listeners.advertised()
            async with await RawClient.connect(own.port) as client:
                response = await client.call(ApiKey.BROKER_HEARTBEAT, 1, request)
                assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
            async with await RawClient.connect(other.port) as client:
                client.send(ApiKey.BROKER_HEARTBEAT, 1, request)
                assert await client.is_closed_by_peer()

    asyncio.run(test())
