"""Connections, on simulated and on real networks: order, ends, and every way to misbehave."""

import asyncio
import logging
import struct

import pytest

from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ParseError
from tests.broker.network.session_networks import on_every_network, on_virtual_time
from tests.support.session_bench import Bench, framed


def test_frames_of_all_sizes_come_back_in_order() -> None:
    async def work(bench: Bench) -> None:
        client = await bench.connect()
        sizes = [0, 1, 100, 16_384, 16_385, 3, 70_000, 300_000, 5]
        frames = [bytes([n]) * size for n, size in enumerate(sizes)]
        client.send(*frames)
        assert await client.answers(len(frames)) == frames
        assert bench.metrics.bytes_in == bench.metrics.bytes_out == len(framed(*frames))
        assert bench.session.peer == f"127.0.0.1:{bench.session.peer.split(':')[1]}"
        assert bench.session.host == "127.0.0.1"
        assert bench.session.listener_name == "PLAINTEXT"

    on_every_network(work)


def test_responses_wait_for_earlier_ones() -> None:
    """NET-7, with a request of acks=0 in between that gets none."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a", b"b", b"c")
        await bench.until(lambda: len(bench.in_flight_requests) == 3)
        first, second, third = bench.in_flight_requests
        third.reply([b"C", b"!"])
        second.reply_nothing()
        await asyncio.sleep(0)
        assert not client.data
        first.reply([b"A"])
        assert await client.answers(2) == [b"A", b"C!"]
        with pytest.raises(RuntimeError):
            first.reply([b"again"])

    on_every_network(work)


def test_one_write_carries_the_responses_of_a_turn() -> None:
    """architecture.md section 4: one write per connection per turn."""

    async def work(bench: Bench) -> None:
        client = await bench.connect()
        client.send(*[b"x" * 10] * 50)
        assert len(await client.answers(50)) == 50
        assert bench.turn.turn_count <= 2

    on_virtual_time(work)


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
def test_bad_sizes_close_the_connection_after_the_responses_before(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """NET-6: closed, counted, and the log names the peer."""

    async def work(bench: Bench) -> None:
        caplog.clear()
        client = await bench.connect()
        client.transport.write(framed(b"good") + struct.pack(">i", size) + b"rest")
        assert await client.answer() == b"good"
        await client.closed()
        assert sum(bench.metrics.closed.values()) == 1
        assert set(bench.metrics.closed) <= {"negative-size", "oversize"}
        (record,) = [r for r in caplog.records if r.name.startswith("barnabas_broker")]
        assert "127.0.0.1:" in record.getMessage()
        assert str(size) in record.getMessage()

    on_virtual_time(work, request_bytes_max=1_000)


def test_what_dispatch_raises_closes_only_this_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """NET-2, NET-11: garbage inside of a frame, or a failure of ours."""

    async def work(bench: Bench) -> None:
        def dispatch(in_flight: InFlightRequest) -> None:
            if in_flight.frame == b"garbage":
                raise ParseError("bad header", 3)
            if in_flight.frame == b"failure":
                raise ValueError("broken")
            in_flight.reply([bytes(in_flight.frame)])

        bench.dispatch = dispatch
        other = await bench.connect()
        for bad in (b"garbage", b"failure"):
            client = await bench.connect()
            client.send(b"good", bad, b"never seen")
            assert await client.answer() == b"good"
            await client.closed()
            other.send(b"fine")
            assert await other.answer() == b"fine"
        assert bench.metrics.closed == {"malformed-request": 1, "dispatch-failure": 1}
        assert "bad header (at byte 3)" in caplog.text

    on_every_network(work)


def test_half_frames_and_resets_leave_nothing_behind() -> None:
    """NET-13: `Bench` checks the counts when it ends."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        for data in (b"", b"\0", framed(b"abc")[:5], framed(bytes(90_000))[:50_000], framed(b"x")):
            for is_abrupt in (False, True):
                client = await bench.connect()
                client.transport.write(data)
                await bench.until(lambda: bool(bench.listener.sessions))
                session = bench.session
                await bench.until(lambda data=data: bench.metrics.bytes_in >= len(data))  # type: ignore[misc]
                if is_abrupt:
                    client.transport.abort()
                else:
                    client.transport.close()
                await bench.until(lambda: not bench.listener.sessions)
                assert session.is_closed
                assert bench.memory.used_bytes == 0
                bench.metrics.bytes_in = 0
        for in_flight in bench.in_flight_requests:
            in_flight.reply([b"too late"])  # discarded, NET-9

    on_every_network(work)


def test_callbacks_hear_of_the_closing() -> None:
    """Parked operations drop out; one that fails does not keep the others from it."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        seen: list[str] = []
        client = await bench.connect()
        client.send(b"a", b"b")
        await bench.until(lambda: len(bench.in_flight_requests) == 2)
        first, second = bench.in_flight_requests

        bench.session.on_closed(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        bench.session.on_closed(lambda: seen.append("session"))
        first.on_closed(lambda: seen.append("first"))
        second.on_closed(lambda: seen.append("second"))
        first.reply([b"A"])
        await client.answer()
        client.transport.abort()
        await bench.until(lambda: not bench.listener.sessions)
        assert seen == ["session", "second"]

    on_every_network(work)


def test_closing_sends_what_is_ready_and_drops_what_comes_later() -> None:
    """As for acks=0 with an error: the reason is logged, later answers are discarded."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a", b"b", b"c")
        await bench.until(lambda: len(bench.in_flight_requests) == 3)
        bench.in_flight_requests[0].reply([b"A"])
        session = bench.session
        session.close("acks=0 failed")
        session.close("twice")
        bench.in_flight_requests[1].reply([b"B"])
        assert await client.answer() == b"A"
        await client.closed()
        assert not client.data
        assert bench.metrics.closed == {"handler": 1}

    on_every_network(work)


def test_a_log_line_is_not_written_for_each_of_a_thousand_bad_peers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rate-limited: the counter tells the number."""

    async def work(bench: Bench) -> None:
        for _ in range(100):
            client = await bench.connect()
            client.transport.write(b"\xff" * 8)
            await client.closed()
        assert bench.metrics.closed == {"negative-size": 100}
        assert 1 <= len(caplog.records) <= 20
        await asyncio.sleep(20)
        caplog.clear()
        client = await bench.connect()
        client.transport.write(b"\xff" * 8)
        await client.closed()
        assert "90 more lines" in caplog.text

    with caplog.at_level(logging.WARNING):
        on_virtual_time(work)
