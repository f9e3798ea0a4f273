"""A listener with TLS and the counters around it, on real sockets, and clients that trust it."""

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from barnabas_broker.config.tls_settings import ListenerTlsSettings
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network import handshakes as handshakes_module
from barnabas_broker.network.connection_limits import ConnectionLimits
from barnabas_broker.network.half_open import HalfOpenConnections
from barnabas_broker.network.handshakes import Handshakes
from barnabas_broker.security.tls.listener_tls import ListenerTls
from tests.support.certificates import Authority, Issued
from tests.support.session_bench import Bench

AUTHORITY = Authority()
WAIT_SECONDS = 20


_B = TypeVar("_B", bound="SecureBench")


def on_both_loops(
    kind: type[_B], directory: Path, work: Callable[[_B], Awaitable[None]], **options: Any
) -> None:
    """Do the same with a bench on asyncio's own loop and on uvloop's."""

    async def run() -> None:
        bench = kind(directory, **options)
        async with bench:
            await work(bench)

    asyncio.run(run())
    uvloop.run(run())


class SecureBench(Bench):
    """A listener with TLS and the counters around it."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        AUTHORITY.issue().write(directory)
        (directory / "ca.crt").write_bytes(AUTHORITY.pem)
        self.tls = ListenerTls(
            ListenerTlsSettings(
                listener="SSL",
                certificate_file=str(directory / "tls.crt"),
                key_file=str(directory / "tls.key"),
                truststore_file=str(directory / "ca.crt"),
                client_auth=options.pop("client_auth", "none"),
                mapping_rules=options.pop("mapping_rules", "DEFAULT"),
            ),
            now_ms=int(time.time() * 1000),
            is_of_brokers=False,
        )
        network, clock = RealNetwork(), SystemClock()
        self.limits = ConnectionLimits()
        self.half_open = HalfOpenConnections(
            options.pop("half_open_max", 1000), options.pop("half_open_per_ip_max", 1000)
        )
        self.handshakes = Handshakes(
            network,
            asyncio.get_running_loop(),
            clock,
            self.half_open,
            timeout_ms=options.pop("timeout_ms", 60_000),
            units_max=options.pop("units_max", handshakes_module.UNITS_OF_CLIENTS),
        )
        super().__init__(
            network,
            clock,
            limits=self.limits,
            tls=self.tls,
            handshakes=self.handshakes,
            security_protocol="SSL",
            **options,
        )

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        assert self.half_open.total == 0
        assert self.handshakes.under_way_count == 0
        assert self.limits.total == 0

    def context(self, issued: Issued | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        if issued is not None:
            chain, key = issued.write(self.directory / "client")
            context.load_cert_chain(chain, key)
        return context

    @asynccontextmanager
    async def streams(
        self, context: ssl.SSLContext | None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of a client, of TLS or (without a context) plain."""
        name = None if context is None else "localhost"
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, ssl=context, server_hostname=name
        )
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def echoes(self, context: ssl.SSLContext, size: int = 100) -> bytes | None:
        """Have a frame echoed; returns the certificate that the listener has shown."""
        async with self.streams(context) as (reader, writer):
            body = bytes(size)
            writer.write(struct.pack(">i", size) + body)
            assert await reader.readexactly(4) == struct.pack(">i", size)
            assert await reader.readexactly(size) == body
            certificate: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
            return certificate

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds():
                await asyncio.sleep(0.005)

    def outcomes(self) -> dict[str, int]:
        return {outcome: count for (_, outcome), count in self.metrics.handshakes.items()}

    def silent(self, sends: bytes = b"", count: int = 1) -> list[socket.socket]:
        """Connections that send so much and nothing more."""
        made = []
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", self.listener.port))
            one.setblocking(False)
            one.send(sends)
            made.append(one)
        return made
