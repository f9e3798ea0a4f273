"""Brokers with TLS, from the outside: real sockets, our client, brokers among themselves."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.metadata.image import RESOURCE_BROKER
from barnabas_broker.server import Server
from barnabas_client import Consumer, Producer
from barnabas_client.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.errors import BarnabasError
from barnabas_protocol.errors import ErrorCode
from tests.support.broker_settings import alter, alter_all
from tests.support.in_process_broker import broker_on, eventually, running_broker
from tests.support.in_process_cluster import CLUSTER_ID
from tests.support.memory_authorizer import MemoryAuthorizer
from tests.support.raw_client import RawClient
from tests.support.tls_files import TlsFiles

HOST = "localhost"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls")).create(HOST)


def broker_settings(files: TlsFiles) -> dict[str, str]:
    return {
        "barnabas.ssl.certificate.file": str(files.broker_certificate),
        "barnabas.ssl.key.file": str(files.broker_key),
        "ssl.truststore.location": str(files.authority),
    }


def client_settings(files: TlsFiles, server: Server, *, certificate: bool) -> dict[str, str]:
    own = {"ssl_certfile": files.client_certificate, "ssl_keyfile": files.client_key}
    return {
        "bootstrap_servers": f"{HOST}:{server.port}",
        "security_protocol": "SSL",
        "ssl_cafile": str(files.authority),
        **({key: str(path) for key, path in own.items()} if certificate else {}),
    }


async def produce_and_read(client: dict[str, str], count: int = 50) -> None:
    """Write records, some larger than a TLS record and a piece, and read them back."""
    values = [bytes([number % 256]) * (100 if number % 10 else 150_000) for number in range(count)]
    async with Producer(**client) as producer:
        for value in values:
            await producer.send("topic", value)
        await producer.flush()
    read: list[bytes] = []
    settings = {"group_id": "group", "auto_offset_reset": "earliest"}
    async with Consumer(**client, **settings) as consumer:
        consumer.subscribe(["topic"])
        while len(read) < count:
            read += [record.value for record in await consumer.poll()]
    assert sorted(read) == sorted(values)


def principals(server: Server, listener: str) -> set[str]:
    return {str(session.principal) for session in server.listeners.named(listener).sessions}


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_clients_speak_tls_and_are_who_their_certificates_say(
    tmp_path: Path, files: TlsFiles, client_auth: str
) -> None:
    """SEC-1, SEC-3: records of all sizes arrive whole; without a certificate it is ANONYMOUS."""

    async def run() -> None:
        async with running_broker(
            tmp_path,
            listeners=f"SSL://{HOST}:0,REPLICATION://127.0.0.1:0",
            **broker_settings(files),
            **{"ssl.client.auth": client_auth},
        ) as server:
            shows = client_auth != "none"
            async with Producer(**client_settings(files, server, certificate=shows)) as producer:
                await producer.send("other", b"1")
                await producer.flush()
                expected = "User:CN=client" if shows else "User:ANONYMOUS"
                assert principals(server, "SSL") == {expected}
            await produce_and_read(client_settings(files, server, certificate=shows))
            if client_auth == "requested":
                await produce_and_read(client_settings(files, server, certificate=False))

    uvloop.run(run())


def test_a_plain_listener_beside_one_of_tls_stays_as_it_is(tmp_path: Path, files: TlsFiles) -> None:
    """SEC-1: each listener has its own protocol, and settings with its prefix alone."""

    async def run() -> None:
        prefixed = {
            f"listener.name.secure.{key}": value for key, value in broker_settings(files).items()
        }
        async with running_broker(
            tmp_path,
            **{
                "listeners": f"SECURE://{HOST}:0,OPEN://{HOST}:0,REPLICATION://127.0.0.1:0",
                "listener.security.protocol.map": "SECURE:SSL,OPEN:PLAINTEXT",
            },
            **prefixed,
        ) as server:
            await produce_and_read(client_settings(files, server, certificate=False))
            plain = server.listeners.named("OPEN").port
            await produce_and_read({"bootstrap_servers": f"{HOST}:{plain}"})
            assert list(server.status()["tls"]) == ["SECURE"]

    uvloop.run(run())


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_port_with_tls_serves_others_too_where_it_is_told_to(
    tmp_path: Path, files: TlsFiles, protocol: str
) -> None:
    """SEC-89: whoever comes without TLS is ANONYMOUS and need not log in; the status tells how many
    they are. Who comes by TLS is asked for certificate or password as ever.
    """

    async def run() -> None:
        async with running_broker(
            tmp_path,
            listeners=f"OUTSIDE://{HOST}:0,REPLICATION://127.0.0.1:0",
            **broker_settings(files),
            **{
                "listener.security.protocol.map": f"OUTSIDE:{protocol}",
                "barnabas.port.unification.listeners": "outside",
                "listener.name.outside.ssl.client.auth": "required"
                if protocol == "SSL"
                else "none",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            },
        ) as server:
            plain = {"bootstrap_servers": f"{HOST}:{server.port}"}
            by_tls = client_settings(files, server, certificate=protocol == "SSL")
            async with Producer(**plain) as producer:
                await producer.send("other", b"1")
                await producer.flush()
                (session,) = server.listeners.sessions_of("OUTSIDE")
                assert str(session.principal) == "User:ANONYMOUS"
                status = server.status()
                assert status["connections_by_listener"]["OUTSIDE"] == 1
                assert status["plaintext_connections_by_listener"] == {"OUTSIDE": 1}
                if protocol == "SSL":
                    await produce_and_read(by_tls)
                    assert server.status()["plaintext_connections_by_listener"] == {"OUTSIDE": 1}
                else:
                    with pytest.raises(BarnabasError):
                        async with Admin(**by_tls, request_timeout_ms=2_000) as admin:
                            await admin.topics.list()
            await produce_and_read(plain)

    uvloop.run(run())


def test_brokers_reach_one_another_by_tls_with_certificates(
    tmp_path: Path, files: TlsFiles
) -> None:
    """SEC-7: the listener of the brokers is TLS on both ends, names verified."""

    async def run() -> None:
        servers = [
            broker_on(
                tmp_path / str(node_id),
                **{
                    "node.id": str(node_id),
                    "cluster.id": CLUSTER_ID,
                    "listeners": f"SSL://{HOST}:0,REPLICATION://{HOST}:0",
                    "listener.security.protocol.map": "SSL:SSL,REPLICATION:SSL",
                    "ssl.client.auth": "required",
                    "arbiter.file.path": str(tmp_path / "arbiter"),
                    "default.replication.factor": "2",
                    "num.partitions": "2",
                    "offsets.topic.replication.factor": "2",
                    "admin.http.port": "-1",
                },
                **broker_settings(files),
            )
            for node_id in range(2)
        ]
        await asyncio.gather(*(server.start() for server in servers))
        try:
            await produce_and_read(client_settings(files, servers[0], certificate=True))
            seen = set().union(*(principals(server, "REPLICATION") for server in servers))
            assert seen == {f"User:CN={HOST}"}
            await bad_keys_are_refused(client_settings(files, servers[0], certificate=True))
        finally:
            for server in servers:
                await server.stop()

    uvloop.run(run())


async def bad_keys_are_refused(client: dict[str, str]) -> None:
    """Each broker tries what is meant for itself, also where another is the controller."""
    async with Admin(**client) as admin:
        for node_id in range(2):
            key = "listener.name.ssl.barnabas.ssl.key.file"
            broker = ConfigResource.broker(node_id)
            outcome = await admin.configs.alter({broker: [ConfigChange.set(key, "/none")]})
            with pytest.raises(BarnabasError, match="/none cannot be read"):
                outcome.unwrap()


def test_an_administrator_renews_a_certificate_by_another_path(
    tmp_path: Path, files: TlsFiles
) -> None:
    """SEC-5: KIP-226; what cannot serve is refused, and told in `/status` where it got through."""

    async def run() -> None:
        key, certificate = (
            f"listener.name.out.barnabas.ssl.{what}.file" for what in ("key", "certificate")
        )
        async with running_broker(
            tmp_path / "data",
            **{
                "listeners": f"OUT://{HOST}:0,OPEN://{HOST}:0,REPLICATION://127.0.0.1:0",
                "listener.security.protocol.map": "OUT:SSL,OPEN:PLAINTEXT",
                key: str(files.broker_key),
                certificate: str(files.broker_certificate),
            },
        ) as server:
            tls = server.tls.by_listener["OUT"]
            before = tls.loaded.material.fingerprint
            other = TlsFiles(tmp_path / "other").create(HOST)
            open_port = server.listeners.named("OPEN").port
            async with Producer(**client_settings(files, server, certificate=False)) as producer:
                await producer.send("topic", b"1")
                await producer.flush()
                async with await RawClient.connect(open_port, HOST) as client:
                    assert await alter(client, "ssl.keystore.location", "0", "x") != 0
                    for name, path in (
                        (certificate, other.broker_certificate),
                        (key, other.broker_key),
                        (key, tmp_path / "none"),
                        (certificate, None),
                    ):
                        value = None if path is None else str(path)
                        outcome = await alter(client, name, "0", value)
                        # Its own file is there beneath what is deleted.
                        assert (outcome == ErrorCode.INVALID_REQUEST) == (path is not None)
                    assert not server.image.config_overrides(RESOURCE_BROKER, "0")
                    # As where the request came to another broker.
                    values = {**server.dynamic.values, key: str(other.broker_key)}
                    await server.tls.take_over(values, RealDisk().run)
                    refused = server.status()["tls"]["OUT"]["refused"]
                    assert "the key is not that of the certificate" in refused
                    assert tls.loaded.material.fingerprint == before
                    both = {key: str(other.broker_key), certificate: str(other.broker_certificate)}
                    assert await alter_all(client, "0", both) == ErrorCode.NONE
                    await until(lambda: tls.loaded.material.fingerprint != before)
                    assert server.status()["tls"]["OUT"]["refused"] is None
                await producer.send("topic", b"2")  # by the connection that it has
                await producer.flush()
            async with Producer(**client_settings(other, server, certificate=False)) as producer:
                await producer.send("topic", b"3")
                await producer.flush()

    uvloop.run(run())


def test_who_may_not_change_settings_learns_nothing_of_files(
    tmp_path: Path, files: TlsFiles
) -> None:
    """SEC-5, SEC-46: rights come first, whatever a path leads to."""

    async def run() -> None:
        async with running_broker(
            tmp_path / "data",
            MemoryAuthorizer(),
            **{
                "listeners": f"OUT://{HOST}:0,OPEN://{HOST}:0,REPLICATION://127.0.0.1:0",
                "listener.security.protocol.map": "OUT:SSL,OPEN:PLAINTEXT",
                "listener.name.out.barnabas.ssl.key.file": str(files.broker_key),
                "listener.name.out.barnabas.ssl.certificate.file": str(files.broker_certificate),
            },
        ) as server:
            open_port = server.listeners.named("OPEN").port
            async with await RawClient.connect(open_port, HOST) as client:
                for path in (files.broker_key, tmp_path / "none", tmp_path):
                    name = "listener.name.out.barnabas.ssl.key.file"
                    outcome = await alter(client, name, "0", str(path))
                    assert outcome == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    async def held() -> bool:
        return holds()

    await eventually(held)


def test_connections_that_do_not_log_in_are_half_open_too(tmp_path: Path) -> None:
    """SEC-8: by SASL without TLS; who goes is counted out."""

    async def run() -> None:
        async with running_broker(
            tmp_path,
            **{
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "barnabas.half.open.connections.per.ip.max": "2",
            },
        ) as server:
            half_open = server.listeners.handshakes[False].half_open
            made = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
            rejected = server.listeners.metrics.rejected
            await until(lambda: rejected.get("half-open-connections-per-ip") == 1)
            assert half_open.total == 2
            for _, writer in made:
                writer.close()
            await until(lambda: half_open.total == 0)

    uvloop.run(run())
