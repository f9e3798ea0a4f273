"""Sockets: several addresses of a name, full buffers, TLS on loopback."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    BrokerUnreachableError,
    ConfigurationError,
)
from barnabas_client.network import Client
from barnabas_client.network.transport import connect_socket
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.metadata import MetadataRequest
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.processes import free_port
from tests.support.scripted_broker import ScriptedBroker, scripted_brokers
from tests.support.tls_files import TlsFiles

NO_OPENSSL = shutil.which("openssl") is None


def resolve_to(*ports: int) -> Callable[..., Any]:
    async def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        assert host == "brokers.example"
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*stream, ("127.0.0.1", port)) for port in ports]

    return getaddrinfo


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-302: a name may lead to several addresses, of which the first may be dead."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "getaddrinfo", resolve_to(free_port(), broker.port))
            opened = await connect_socket(
                "brokers.example", 9092, send_buffer_bytes=-1, receive_buffer_bytes=-1
            )
            assert opened.getpeername()[1] == broker.port
            assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            opened.close()
            monkeypatch.setattr(loop, "getaddrinfo", resolve_to(free_port(), free_port()))
            with pytest.raises(ConnectionRefusedError):
                await connect_socket(
                    "brokers.example", 9092, send_buffer_bytes=1000, receive_buffer_bytes=1000
                )

    asyncio.run(run())


def test_a_name_that_leads_nowhere_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver's words, and the address as it was given."""

    async def run() -> None:
        async def getaddrinfo(*_: object, **__: object) -> list[Any]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        values = {"bootstrap_servers": "nowhere.example:9092", "default_api_timeout_ms": 50}
        with pytest.raises(BrokerUnreachableError, match=r"nowhere\.example:9092.*not known"):
            await Client(ClientSettings.create(values)).start()

    asyncio.run(run())


def test_callers_wait_while_the_kernel_takes_no_more() -> None:
    """CLI-2: nobody fills memory with requests for a broker that does not read."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.PRODUCE] = lambda _: ProduceResponse()
            client = Client(ClientSettings(bootstrap_servers=broker.bootstrap))
            await client.start()
            await client.ready(1)
            broker.reading.clear()
            data = [PartitionProduceData(index=0, records=bytes(24 * 1024 * 1024))]
            request = ProduceRequest(
                acks=1,
                timeout_ms=1000,
                topic_data=[TopicProduceData(name="t", partition_data=data)],
            )
            # The first fills the kernel's buffers and ours, whatever was being read.
            sent = [client.send_now(1, request, 9, timeout_ms=20_000)]
            assert not client.is_ready(1)
            waiting = asyncio.ensure_future(client.request(1, MetadataRequest(topics=[])))
            await asyncio.sleep(0)
            assert client.in_flight_count(1) == 1
            broker.reading.set()
            await asyncio.gather(*sent)
            assert (await waiting).brokers
            await client.close()

    asyncio.run(run())


def enter(files: TlsFiles, *, server_tls: bool, **values: object) -> None:
    async def run() -> None:
        context = None
        if server_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.broker_certificate, files.broker_key)
        broker = ScriptedBroker()
        await broker.start(context)
        more = {"default_api_timeout_ms": 300, **values}
        address = f"localhost:{broker.port}"
        client = Client(ClientSettings.create({"bootstrap_servers": address, **more}))
        try:
            await client.start()
            assert (await client.refresh(timeout_ms=9000)).version > 1
        finally:
            await client.close()
            await broker.stop()

    asyncio.run(run())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    if NO_OPENSSL:
        pytest.skip("the program openssl makes the certificates of this test; it is missing")
    return TlsFiles(tmp_path_factory.mktemp("tls")).create()


def test_tls_carries_requests(files: TlsFiles) -> None:
    """The broker calls itself 127.0.0.1 in Metadata, which its certificate does not name."""
    trusted = {"security_protocol": "SSL", "ssl_cafile": str(files.authority)}
    enter(files, server_tls=True, ssl_check_hostname=False, **trusted)


@pytest.mark.parametrize(
    ("server_tls", "values", "kind", "words"),
    [
        (True, {"ssl_cafile": "other"}, AuthenticationError, "ssl_cafile"),
        (True, {"security_protocol": "PLAINTEXT"}, BarnabasError, "security_protocol=PLAINTEXT"),
        (False, {"ssl_cafile": "authority"}, BarnabasError, "security_protocol=SSL"),
    ],
    ids=["unknown authority", "plaintext to TLS", "TLS to plaintext"],
)
def test_what_does_not_fit_is_told(
    files: TlsFiles, server_tls: bool, values: dict[str, Any], kind: type[BarnabasError], words: str
) -> None:
    """One line that names the setting to be changed."""
    places = {"other": files.other_authority, "authority": files.authority}
    given = {"security_protocol": "SSL", **values}
    if "ssl_cafile" in given:
        given["ssl_cafile"] = str(places[given["ssl_cafile"]])
    with pytest.raises(kind, match=words) as raised:
        enter(files, server_tls=server_tls, **given)
    assert "\n" not in str(raised.value)


def test_a_key_without_its_certificate_is_refused(files: TlsFiles, tmp_path: Path) -> None:
    """Before anything is connected to."""
    given = {
        "security_protocol": "SSL",
        "ssl_certfile": str(files.client_certificate),
        "ssl_keyfile": str(files.broker_key),
    }
    with pytest.raises(ConfigurationError, match="ssl_keyfile"):
        enter(files, server_tls=True, **given)


class _Relay:
    """Passes connections that begin with a TLS handshake on, and ends all others without a word."""

    def __init__(self, to_port: int | None) -> None:
        self._to_port = to_port
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(65536)
        if self._to_port is None or first[:1] != b"\x16":
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._to_port)
        back.write(first)
        await asyncio.gather(_copied(reader, back), _copied(there, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.mark.parametrize("has_tls", [True, False])
def test_a_tls_port_that_ends_plain_connections_without_a_word_is_recognised(
    files: TlsFiles, has_tls: bool
) -> None:
    """SEC-100: at once, and with the way out; what only shuts down is tried again."""

    async def run() -> BarnabasError:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.broker_certificate, files.broker_key)
        broker = ScriptedBroker()
        await broker.start(context)
        relay = _Relay(broker.port if has_tls else None)
        server = await relay.start()
        address = f"127.0.0.1:{relay.port}"
        client = Client(ClientSettings(bootstrap_servers=address, default_api_timeout_ms=2000))
        try:
            with pytest.raises(BarnabasError) as raised:
                await client.start()
        finally:
            await client.close()
            server.close()
            await server.wait_closed()
            await broker.stop()
        return raised.value

    error = asyncio.run(run())
    if has_tls:
        assert isinstance(error, ConfigurationError)
        assert "speaks TLS" in str(error)
        assert "SASL_SSL" in str(error)
    else:
        assert isinstance(error, BrokerUnreachableError)
        assert "security_protocol=PLAINTEXT" in str(error)
