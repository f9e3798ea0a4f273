"""Peers that send without end, end without sending, or do not read: the others go on."""

import asyncio

import pytest

from barnabas_broker.network.listener import FRAME_MS_MAX, SWEEP_MS_MAX, UNREAD_MS_MAX
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.connection import server
from tests.broker.network.session_networks import on_virtual_time
from tests.support.session_bench import Bench


def test_frames_that_never_end_keep_no_small_request_out() -> None:
    """Attack: two connections that stop 70 MB into a frame let one produce pass in 30 s."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.echo
        hogs = [await bench.connect() for _ in range(3)]
        for hog in hogs:
            hog.transport.write((900_000).to_bytes(4, "big") + bytes(600_000))
        await bench.until(lambda: bench.memory.used_bytes > bench.memory.limit_bytes)
        client = await bench.connect()
        for _ in range(20):
            client.send(bytes(1000))
            assert await client.answer() == bytes(1000)
        assert bench.memory.used_bytes > bench.memory.limit_bytes

    on_virtual_time(work, memory_bytes=1_000_000)


def test_a_frame_has_a_deadline() -> None:
    async def work(bench: Bench) -> None:
        slow, client = await bench.connect(), await bench.connect()
        slow.transport.write((900_000).to_bytes(4, "big") + bytes(40_000))
        for _ in range((FRAME_MS_MAX + 2 * SWEEP_MS_MAX) // 1000):
            slow.transport.write(b"x")  # not idle
            await asyncio.sleep(1)
        assert slow.is_closed
        assert not client.is_closed
        assert bench.metrics.closed["too-slow"] == 1

    on_virtual_time(work)


def test_responses_that_nobody_reads_have_a_deadline() -> None:
    """Attack: a hundred connections held 5.6 GB of fetched records for ever."""

    async def work(bench: Bench) -> None:
        bench.dispatch = lambda in_flight: in_flight.reply([bytes(3_000_000)])
        client = await bench.connect()
        client.transport.pause_reading()
        client.send(b"x")
        await bench.until(lambda: bench.memory.unsent_bytes > 0)
        assert bench.memory.response_bytes_max < bench.memory.unsent_bytes_max
        await asyncio.sleep((UNREAD_MS_MAX + 2 * SWEEP_MS_MAX) / 1000)
        await bench.until(lambda: bench.metrics.connections_open == 0)
        assert bench.memory.unsent_bytes == 0

    on_virtual_time(work)


def test_a_response_that_is_too_large_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: 5,400 times one group gave an answer with a negative size in front."""
    monkeypatch.setattr(server, "RESPONSE_BYTES_MAX", 100_000)

    async def work(bench: Bench) -> None:
        large = bytes(50_000)
        parts = {b"fits": [large, large], b"large": [large, large, b"x"]}
        held: list[InFlightRequest] = []

        def answer(in_flight: InFlightRequest) -> None:
            if in_flight.frame == b"held":
                held.append(in_flight)
            else:
                in_flight.reply(parts[bytes(in_flight.frame)])

        bench.dispatch = answer
        client, parked = await bench.connect(), await bench.connect()
        client.send(b"fits", b"large", b"fits")
        assert await client.answer() == large + large
        await client.until(lambda: client.is_closed)
        assert client.data == b""
        parked.send(b"held", b"large", b"fits")
        await bench.until(lambda: bool(held))
        held[0].reply([b"first"])
        assert await parked.answer() == b"first"
        await parked.until(lambda: parked.is_closed)
        assert parked.data == b""
        assert bench.metrics.closed["oversize-response"] == 2
        assert bench.memory.used_bytes == bench.memory.unsent_bytes == 0

    on_virtual_time(work)


def test_who_has_not_logged_in_may_send_little() -> None:
    """The limit before log-in, which whoever logs a connection in raises."""

    async def work(bench: Bench) -> None:
        def log_in(in_flight: InFlightRequest) -> None:
            in_flight.session.limit_frames(1_000_000)
            in_flight.reply([in_flight.frame])

        bench.dispatch = log_in
        guest, user = await bench.connect(), await bench.connect()
        guest.send(bytes(64 * 1024 + 1))
        await guest.until(lambda: guest.is_closed)
        for size in (64 * 1024, 500_000):
            user.send(bytes(size))
            assert len(await user.answer()) == size

    on_virtual_time(work, first_request_bytes_max=64 * 1024)
