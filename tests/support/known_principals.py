"""Connections that have logged in as a test says, before the dispatcher of a real broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.principal import Principal
from barnabas_broker.server import Server
from tests.support.raw_client import RawClient
from tests.support.session_bench import Bench

BROKERS = "REPLICATION"
CLIENTS = "PLAINTEXT"


@asynccontextmanager
async def connected_as(
    server: Server, principal: Principal, listener: str = CLIENTS
) -> AsyncIterator[RawClient]:
    """A connection by a listener of this name, whose log-in has ended with the principal."""
    async with Bench(RealNetwork(), SystemClock()) as bench:
        bench.listener.name = listener

        def dispatch(in_flight: InFlightRequest) -> None:
            in_flight.session.principal = principal
            server.dispatcher(in_flight)

        bench.dispatch = dispatch
        async with await RawClient.connect(bench.listener.port) as client:
            yield client
