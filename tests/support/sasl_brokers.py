"""Brokers of tests with a listener that clients log in on, and clients that do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from barnabas_broker.network.session import Session
from barnabas_broker.server import Server
from barnabas_client.config import ClientSettings
from barnabas_client.network import Client

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,REPLICATION://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "barnabas.allow.plain.without.tls": "true",
}


def port_of(server: Server, listener: str = "SASL") -> int:
    return next(one.port for one in server.listeners.advertised() if one.name == listener)


def sessions(server: Server) -> list[Session]:
    """The connections of clients that log in."""
    return list(server.listeners.sessions_of("SASL"))


@asynccontextmanager
async def logged_in(server: Server, **settings: Any) -> AsyncIterator[Client]:
    """A client that has logged in by its settings."""
    client = Client(
        ClientSettings.create(
            {
                "bootstrap_servers": f"localhost:{port_of(server)}",
                "security_protocol": "SASL_PLAINTEXT",
                **settings,
            }
        )
    )
    try:
        await client.start()
        yield client
    finally:
        await client.close()
