"""Clients of scripted brokers, which try again at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.network.client import Client
from tests.support.scripted_broker import ScriptedBroker

QUICK = {
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
}


@asynccontextmanager
async def started(*brokers: ScriptedBroker, **more: object) -> AsyncIterator[Client]:
    servers = [broker.bootstrap for broker in brokers]
    client = Client(ClientSettings.create({"bootstrap_servers": servers, **QUICK, **more}))
    await client.start()
    try:
        yield client
    finally:
        await client.close()
