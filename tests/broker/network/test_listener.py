"""Admission, idleness and the order of stopping."""

import asyncio
import contextlib
import gc
import socket
import tracemalloc
import weakref
from typing import Any

import pytest
import uvloop

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network.connection_limits import ConnectionLimits
from barnabas_broker.network.connection_rates import ConnectionRates
from barnabas_broker.network.listener import LINGER_MS
from barnabas_broker.network.session import Session
from tests.broker.network.session_networks import on_virtual_time
from tests.support.session_bench import Bench, Client, framed
from tests.support.virtual_loop import run_virtual


def test_connections_over_a_limit_are_closed_at_once_and_counted() -> None:
    """NET-4."""

    async def work() -> None:
        async with Bench(limits=ConnectionLimits(4, 2), connections_max=3) as bench:
            kept = [await bench.connect(from_host="10.0.0.1") for _ in range(2)]
            refused = await bench.connect(from_host="10.0.0.1")
            await refused.closed()
            kept.append(await bench.connect(from_host="10.0.0.2"))
            refused = await bench.connect(from_host="10.0.0.3")
            await refused.closed()
            assert bench.metrics.rejected == {
                "connections-per-ip": 1,
                "connections-per-listener": 1,
            }
            assert bench.metrics.connections_open == 3
            assert bench.metrics.connections_accepted == 5
            kept[0].transport.close()
            await bench.until(lambda: bench.metrics.connections_open == 2)
            kept[0] = await bench.connect(from_host="10.0.0.1")
            for client in kept:
                client.send(b"x")
                assert await client.answer() == b"x"

    run_virtual(work())


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    """NET-5; a parked request is not idleness."""

    async def work() -> None:
        async with Bench(idle_ms_max=10_000) as bench:
            idle, busy, parked = [await bench.connect() for _ in range(3)]
            bench.dispatch = bench.collect
            parked.send(b"join")
            await bench.until(lambda: len(bench.in_flight_requests) == 1)
            bench.dispatch = bench.echo
            for _ in range(30):
                await asyncio.sleep(1)
                busy.send(b"x")
                assert await busy.answer() == b"x"
            assert idle.is_closed
            assert not parked.is_closed
            assert bench.metrics.closed == {"idle": 1}
            bench.in_flight_requests[0].reply([b"joined"])
            assert await parked.answer() == b"joined"
            await asyncio.sleep(12)
            assert parked.is_closed

    run_virtual(work())


def test_a_closed_connection_that_does_not_take_its_last_responses_is_cut() -> None:
    """Nothing waits for a peer for ever."""

    async def work() -> None:
        async with Bench(idle_ms_max=10_000) as bench:
            bench.dispatch = lambda in_flight: in_flight.reply([bytes(5_000_000)])
            client = await bench.connect()
            client.transport.pause_reading()
            client.send(b"fetch")
            await bench.until(lambda: bench.metrics.write_pauses == 1)
            session = bench.session
            session.close("enough")
            await asyncio.sleep((LINGER_MS + 2_000) / 1_000)
            assert not bench.listener.sessions

    run_virtual(work())


def test_stopping_finishes_what_is_in_flight_and_starts_nothing() -> None:
    """NET-14."""

    async def work() -> None:
        async with Bench() as bench:
            bench.dispatch = bench.collect
            busy, idle = await bench.connect(), await bench.connect()
            busy.send(b"a")
            await bench.until(lambda: len(bench.in_flight_requests) == 1)
            closing = asyncio.create_task(bench.listener.close(5_000))
            await asyncio.sleep(0.01)
            assert idle.is_closed
            busy.send(b"b")
            await asyncio.sleep(0.01)
            assert len(bench.in_flight_requests) == 1
            assert not closing.done()
            with pytest.raises(ConnectionRefusedError):
                await bench.connect()
            bench.in_flight_requests[0].reply([b"A"])
            assert await busy.answer() == b"A"
            await closing
            await busy.closed()

    run_virtual(work())


def test_stopping_cuts_what_has_no_response_in_time() -> None:
    async def work() -> None:
        async with Bench() as bench:
            bench.dispatch = bench.collect
            client = await bench.connect()
            client.send(b"a")
            await bench.until(lambda: len(bench.in_flight_requests) == 1)
            loop = asyncio.get_running_loop()
            start = loop.time()
            await bench.listener.close(2_000)
            assert 2 <= loop.time() - start < 3
            assert not bench.listener.sessions
            bench.in_flight_requests[0].reply([b"late"])

    run_virtual(work())


def test_no_byte_is_kept_of_closed_connections() -> None:
    """NET-13: sessions go without a garbage collection, whatever state they were closed in."""

    async def work() -> None:
        async with Bench(RealNetwork(), SystemClock()) as bench:
            bench.dispatch = bench.collect
            ends = [
                lambda c: c.transport.abort(),
                lambda c: c.transport.close(),
                lambda c: c.transport.write(b"\xff" * 4),
                lambda c: c.transport.write(framed(bytes(400_000))[:300_000]),
                lambda c: c.send(b"parked", b"parked"),
            ]

            async def round_of_connections() -> list[weakref.ref[Any]]:
                references = []
                for end in ends:
                    client = await bench.connect()
                    await bench.until(lambda: len(bench.listener.sessions) == 1)
                    session = bench.session
                    session.on_closed(session.abort)
                    references.append(weakref.ref(session))
                    client.send(b"first")
                    end(client)
                    await asyncio.sleep(0.01)
                    client.transport.abort()
                    await bench.until(lambda: not bench.listener.sessions)
                    await client.until(lambda client=client: client.is_closed)  # type: ignore[misc]
                    del session
                for in_flight in bench.in_flight_requests:
                    in_flight.reply([b"x"])
                bench.in_flight_requests.clear()
                bench.clients.clear()
                return references

            gc.collect()
            gc.disable()
            try:
                await round_of_connections()
                tracemalloc.start()
                await round_of_connections()
                gc.collect()
                before, _ = tracemalloc.get_traced_memory()
                for _ in range(10):
                    references = await round_of_connections()
                await asyncio.sleep(0.05)
                assert [reference() for reference in references] == [None] * len(ends)
                gc.collect()  # asyncio's own transports are cycles
                after, _ = tracemalloc.get_traced_memory()
                assert after - before < 50_000
            finally:
                tracemalloc.stop()
                gc.enable()

    uvloop.run(work())
    asyncio.run(work())


def test_thousands_of_idle_connections_cost_little() -> None:
    """Contract: memory per idle connection stays small; the buffer is shared."""

    async def work() -> None:
        async with Bench() as bench:
            await bench.connect()
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                clients = [await bench.connect() for _ in range(1_000)]
                for client in clients:
                    client.send(b"x" * 1_000)
                    await client.answer()
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            # Both sides of the simulated connections are in it, and the client's own objects.
            assert (after - before) / 1_000 < 12_000

    run_virtual(work())


class SocketTransport(asyncio.Transport):
    """A transport that has a socket, and does nothing with it."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__({"socket": connected, "peername": ("127.0.0.1", 1)})

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is written."""


def test_sockets_are_set_up() -> None:
    """NET-3; a buffer is not made smaller than the system's, as that would cost throughput."""

    async def work(bench: Bench) -> None:
        session = Session(bench.listener)
        with socket.socket() as connected:
            session.connection_made(SocketTransport(connected))
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 212_992
            session.connection_lost(None)

    on_virtual_time(work, receive_buffer_bytes=400_000)


def test_many_connections_at_once() -> None:
    """NET-1, NET-15: more than the backlog, on real sockets, each with its own answers."""

    async def work() -> None:
        async with Bench(RealNetwork(), SystemClock()) as bench:
            clients: list[Client] = await asyncio.gather(*[bench.connect() for _ in range(200)])

            async def talk(number: int, client: Client) -> None:
                for n in range(20):
                    client.send(b"%d-%d" % (number, n), b"z" * (n * 1_000))
                    assert await client.answers(2) == [b"%d-%d" % (number, n), b"z" * (n * 1_000)]

            await asyncio.gather(*[talk(n, client) for n, client in enumerate(clients)])
            assert bench.metrics.connections_open == 200
            names = {sample.name for sample in bench.metrics.samples()}
            assert "barnabas_request_seconds" in names

    uvloop.run(work())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_over_a_rate_is_cut_later_and_not_read(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-612, NET-4: what a flood of them sends stays in their sockets, on either loop."""
    received = 0
    take = Session.buffer_updated

    def buffer_updated(session: Session, size_bytes: int) -> None:
        nonlocal received
        received += size_bytes
        take(session, size_bytes)

    async def work() -> None:
        clock = SystemClock()
        rates = ConnectionRates(clock)
        rates.buckets.update(("",), 0.1)
        async with Bench(RealNetwork(), clock, limits=ConnectionLimits(rates=rates)) as bench:
            port = bench.listener.port
            kept = await asyncio.open_connection("127.0.0.1", port)
            await bench.until(lambda: bench.metrics.connections_open == 1)
            monkeypatch.setattr(Session, "buffer_updated", buffer_updated)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bytes(20_000_000))
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            assert received == 0
            assert bench.metrics.rejected == {"connection-creation-rate": 1}
            assert rates.throttled_count == 1
            assert 0 < rates.throttled_ms <= 1_000
            kept[1].write(framed(b"x"))
            assert await kept[0].readexactly(5) == framed(b"x")
            kept[1].close()
            writer.close()

    run(work())
