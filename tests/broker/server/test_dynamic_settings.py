"""Settings of connections, of the cleaner and of producers that change while the broker runs."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import api_versions
from tests.support.broker_settings import alter
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient

PER_IP = "max.connections.per.ip"


async def is_served(server: Server, port: int | None = None) -> bool:
    """Whether a new connection is taken and gets a response."""
    try:
        async with await RawClient.connect(port or server.port) as client:
            await client.call(ApiKey.API_VERSIONS, 0, api_versions.ApiVersionsRequest())
    except (OSError, EOFError):
        return False
    return True


def test_limits_of_connections_hold_at_once_and_spare_those_that_are_open(tmp_path: Path) -> None:
    """NET-4, CFG-7: an administrator shuts out a flood without a restart."""

    async def test() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            assert await is_served(server)
            assert await alter(client, PER_IP, "", "1") == 0

            async def is_shut() -> bool:
                return not await is_served(server)

            await eventually(is_shut)
            await client.call(ApiKey.API_VERSIONS, 0, api_versions.ApiVersionsRequest())
            assert await alter(client, "max.connections.per.ip.overrides", "", "127.0.0.1:3") == 0
            await eventually(lambda: is_served(server))
            await client.call(ApiKey.API_VERSIONS, 0, api_versions.ApiVersionsRequest())
            assert await alter(client, "max.connections.per.ip.overrides", "", None) == 0
            assert await alter(client, PER_IP, "", None) == 0
            await eventually(lambda: is_served(server))

    asyncio.run(test())


@pytest.mark.parametrize("limit", ["max.connections", "max.connection.creation.rate"])
def test_limits_of_one_listener_spare_the_others(tmp_path: Path, limit: str) -> None:
    """NET-4, CFG-7: those that the broker starts with, of all brokers, and of this one."""

    async def test() -> None:
        async with (
            running_broker(
                tmp_path,
                **{
                    "listeners": "A://127.0.0.1:0,B://127.0.0.1:0,REPLICATION://127.0.0.1:0",
                    "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
                    f"listener.name.b.{limit}": "0",
                },
            ) as server,
            await RawClient.connect(server.port) as client,
        ):
            other = server.listeners.named("B").port

            async def is_shut() -> bool:
                return not await is_served(server, other)

            assert await is_shut()
            assert await is_served(server)
            for broker in ("", "0"):
                assert await alter(client, f"listener.name.b.{limit}", broker, "1000") == 0
                await eventually(lambda: is_served(server, other))
                assert await alter(client, f"listener.name.b.{limit}", broker, "0") == 0
                await eventually(is_shut)
                assert await is_served(server)
                assert await alter(client, f"listener.name.b.{limit}", broker, "1000") == 0
                await eventually(lambda: is_served(server, other))
            assert await alter(client, f"listener.name.a.{limit}", "", "many") != 0

    asyncio.run(test())


def test_a_rate_of_all_connections_is_for_clients(tmp_path: Path) -> None:
    """NET-4: KIP-612; brokers come through whatever clients do."""

    async def test() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            rate = "max.connection.creation.rate"
            assert await alter(client, rate, "", "0") == 0

            async def is_shut() -> bool:
                return not await is_served(server)

            await eventually(is_shut)
            assert await is_served(server, server.listeners.replication_port)
            rejected = server.listeners.metrics.rejected
            assert rejected["connection-creation-rate"] > 0
            assert await alter(client, rate, "", None) == 0
            await eventually(lambda: is_served(server))

    asyncio.run(test())


def test_overrides_that_name_no_count_are_refused(tmp_path: Path) -> None:
    """CFG-5: what no broker could apply is not recorded."""

    async def test() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            code = await alter(client, "max.connections.per.ip.overrides", "", "10.0.0.1")
            assert code == ErrorCode.INVALID_REQUEST
            assert not server.publisher.image.config_overrides(4, "").get(
                "max.connections.per.ip.overrides"
            )

    asyncio.run(test())


def test_cleaner_and_producers_follow_settings_that_outlive_a_restart(tmp_path: Path) -> None:
    """CFG-1, CFG-4: they are in the metadata log, and in force when the broker serves again."""

    async def test() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            before = server.logs.cleaner.memory_bytes
            assert await alter(client, "log.cleaner.dedupe.buffer.size", "", "2000000") == 0
            assert await alter(client, "log.cleaner.backoff.ms", "", "10") == 0
            assert await alter(client, "producer.id.expiration.ms", "0", "1234") == 0
            await eventually(lambda: _is_in_force(server))
            assert before != 2_000_000
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            assert await _is_in_force(server)
            assert await alter(client, "log.cleaner.dedupe.buffer.size", "", None) == 0

            async def is_back() -> bool:
                return server.logs.cleaner.memory_bytes == before

            await eventually(is_back)

    async def _is_in_force(server: Server) -> bool:
        config = server.logs.config
        return (
            server.logs.cleaner.memory_bytes,
            config.log_cleaner_backoff_ms,
            config.producer_id_expiration_ms,
        ) == (2_000_000, 10, 1234)

    asyncio.run(test())
