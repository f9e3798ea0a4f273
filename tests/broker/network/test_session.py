"""Connections, on simulated and on real networks: order, bounds, and every way to misbehave."""

import asyncio
import logging
import struct
import sys
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network.exchange import Exchange
from barnabas_broker.network.session import IN_FLIGHT_MAX, UNSENT_BYTES_MAX
from barnabas_protocol.errors import ParseError
from tests.support.session_bench import Bench, framed
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import run_virtual

Work = Callable[[Bench], Awaitable[None]]


# CVE-2024-12254: their asyncio buffers what is written without ever pausing the writer. The broker
# itself runs on uvloop.
NEVER_PAUSES_WRITERS = (3, 12) <= sys.version_info < (3, 12, 9) or (
    (3, 13) <= sys.version_info < (3, 13, 2)
)


def on_every_network(
    work: Work, *, piece_bytes: int = 5, pauses_writers: bool = False, **options: int
) -> None:
    """Run the same claim in memory, in small pieces, and on sockets with both loops."""

    async def simulated(piece_bytes_max: int) -> None:
        async with Bench(SimulatedNetwork(piece_bytes_max), **options) as bench:
            await work(bench)

    async def real() -> None:
        async with Bench(RealNetwork(), SystemClock(), **options) as bench:
            await work(bench)

    run_virtual(simulated(1 << 30))
    run_virtual(simulated(piece_bytes))
    if not (pauses_writers and NEVER_PAUSES_WRITERS):
        asyncio.run(real())
    uvloop.run(real())


def on_virtual_time(work: Work, **options: int) -> None:
    async def run() -> None:
        async with Bench(**options) as bench:
            await work(bench)

    run_virtual(run())


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


def test_answers_wait_for_earlier_ones() -> None:
    """NET-7, with a request of acks=0 in between that gets none."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a", b"b", b"c")
        await bench.until(lambda: len(bench.exchanges) == 3)
        first, second, third = bench.exchanges
        third.reply([b"C", b"!"])
        second.reply_nothing()
        await asyncio.sleep(0)
        assert not client.data
        first.reply([b"A"])
        assert await client.answers(2) == [b"A", b"C!"]
        with pytest.raises(RuntimeError):
            first.reply([b"again"])

    on_every_network(work)


def test_one_write_carries_the_answers_of_a_turn() -> None:
    """architecture.md section 4: one write per connection per turn."""

    async def work(bench: Bench) -> None:
        client = await bench.connect()
        client.send(*[b"x" * 10] * 50)
        assert len(await client.answers(50)) == 50
        assert bench.turn.turn_count <= 2

    on_virtual_time(work)


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
def test_bad_sizes_close_the_connection_after_the_answers_before(
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
        def dispatch(exchange: Exchange) -> None:
            if exchange.frame == b"garbage":
                raise ParseError("bad header", 3)
            if exchange.frame == b"failure":
                raise ValueError("broken")
            exchange.reply([bytes(exchange.frame)])

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
        for exchange in bench.exchanges:
            exchange.reply([b"too late"])  # discarded, NET-9

    on_every_network(work)


def test_a_slow_reader_is_read_no_more_and_gets_everything_in_the_end() -> None:
    """NET-8: memory does not grow with what a peer asks for and does not take."""

    async def work(bench: Bench) -> None:
        large = bytes(100_000)

        def dispatch(exchange: Exchange) -> None:
            bench.exchanges.append(exchange)
            exchange.reply([large])

        bench.dispatch = dispatch
        client = await bench.connect()
        client.transport.pause_reading()
        for _ in range(10):
            client.send(*[b"fetch"] * 40)
        await bench.until(lambda: bench.metrics.write_pauses > 0)
        before = -1
        while before != len(bench.exchanges):  # until nothing moves any more
            before = len(bench.exchanges)
            for _ in range(20):
                await asyncio.sleep(0.001)
        assert len(bench.exchanges) < 400
        client.transport.resume_reading()
        assert len(await client.answers(400)) == 400
        assert len(bench.exchanges) == 400

    on_every_network(work, piece_bytes=30_011, pauses_writers=True)


def test_frames_in_flight_are_bounded() -> None:
    """Contract: at most 64 per connection, by number and by bytes of parked answers."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(*[b"x"] * (3 * IN_FLIGHT_MAX))
        await bench.until(lambda: len(bench.exchanges) == IN_FLIGHT_MAX)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(bench.exchanges) == IN_FLIGHT_MAX
        bench.exchanges[1].reply([bytes(UNSENT_BYTES_MAX + 1)])
        for exchange in bench.exchanges[2:40]:
            exchange.reply([b"y"])
        bench.exchanges[0].reply([b"z"])
        await bench.until(lambda: len(bench.exchanges) > IN_FLIGHT_MAX)
        position = 40
        while position < 3 * IN_FLIGHT_MAX:
            await bench.until(lambda position=position: len(bench.exchanges) > position)  # type: ignore[misc]
            bench.exchanges[position].reply([b"y"])
            position += 1
        answers = await client.answers(3 * IN_FLIGHT_MAX)
        assert [len(answer) for answer in answers[:3]] == [1, UNSENT_BYTES_MAX + 1, 1]

    on_every_network(work, piece_bytes=3_001)


def test_parked_answers_stop_intake() -> None:
    """Answers behind a slow one are memory, too."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a", b"b")
        await bench.until(lambda: len(bench.exchanges) == 2)
        bench.exchanges[1].reply([bytes(UNSENT_BYTES_MAX + 1)])
        client.send(b"c")
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(bench.exchanges) == 2
        bench.exchanges[0].reply([b"A"])
        await bench.until(lambda: len(bench.exchanges) == 3)
        bench.exchanges[2].reply([b"C"])
        assert [len(a) for a in await client.answers(3)] == [1, UNSENT_BYTES_MAX + 1, 1]

    on_every_network(work, piece_bytes=3_001)


def test_a_held_session_hands_out_nothing_until_it_is_released() -> None:
    """NET-7: an asynchronous handler is at work; frames wait in order, and holds nest."""

    async def work(bench: Bench) -> None:
        frames = [b"%d" % n * 50 for n in range(200)]

        def dispatch(exchange: Exchange) -> None:
            bench.exchanges.append(exchange)
            exchange.session.hold()

        bench.dispatch = dispatch
        client = await bench.connect()
        client.send(*frames)
        for n in range(200):
            await bench.until(lambda n=n: len(bench.exchanges) > n)  # type: ignore[misc]
            assert len(bench.exchanges) == n + 1
            exchange = bench.exchanges[n]
            exchange.session.hold()
            exchange.session.release()
            await asyncio.sleep(0)
            assert len(bench.exchanges) == n + 1
            exchange.reply([bytes(exchange.frame)])
            exchange.session.release()
        assert await client.answers(200) == frames

    on_every_network(work)


def test_an_exclusive_session_has_one_request_in_flight() -> None:
    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a")
        await bench.until(lambda: len(bench.exchanges) == 1)
        bench.session.exclusive = True
        client.send(b"b", b"c")
        for n in range(3):
            await bench.until(lambda n=n: len(bench.exchanges) > n)  # type: ignore[misc]
            await asyncio.sleep(0.002)
            assert len(bench.exchanges) == n + 1
            bench.exchanges[n].reply([b"ok"])
        assert len(await client.answers(3)) == 3

    on_every_network(work)


def test_a_muted_session_waits_for_its_time() -> None:
    """NET-7: throttled means muted until the delay ends; the longest mute counts."""

    async def work(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        client = await bench.connect()
        client.send(b"a")
        assert await client.answer() == b"a"
        start = loop.time()
        bench.session.mute(500)
        bench.session.mute(100)
        bench.session.mute(800)
        client.send(b"b")
        assert await client.answer() == b"b"
        assert 0.8 <= loop.time() - start < 0.9
        assert bench.metrics.mutes == 2
        bench.session.mute(1_000_000)
        client.transport.close()
        await bench.until(lambda: not bench.listener.sessions)

    on_virtual_time(work)


def test_callbacks_hear_of_the_closing() -> None:
    """Parked operations drop out; one that fails does not keep the others from it."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        seen: list[str] = []
        client = await bench.connect()
        client.send(b"a", b"b")
        await bench.until(lambda: len(bench.exchanges) == 2)
        first, second = bench.exchanges

        def forgotten() -> None:
            seen.append("forgotten")

        bench.session.on_closed(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        bench.session.on_closed(lambda: seen.append("session"))
        bench.session.on_closed(forgotten)
        bench.session.forget_on_closed(forgotten)
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
        await bench.until(lambda: len(bench.exchanges) == 3)
        bench.exchanges[0].reply([b"A"])
        session = bench.session
        session.close("acks=0 failed")
        session.close("twice")
        bench.exchanges[1].reply([b"B"])
        assert await client.answer() == b"A"
        await client.closed()
        assert not client.data
        assert bench.metrics.closed == {"handler": 1}

    on_every_network(work)


def test_memory_of_requests_is_bounded_over_all_connections() -> None:
    """KIP-72: over queued.max.request.bytes nobody is read; answers let the others go on."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        clients = [await bench.connect() for _ in range(6)]
        for client in clients:
            client.send(bytes(40_000), bytes(40_000))
        for answered in range(12):
            await bench.until(lambda answered=answered: len(bench.exchanges) > answered)  # type: ignore[misc]
            assert bench.memory.used_bytes <= 100_000 + 6 * 256 * 1024
            assert bench.memory.request_count <= 3
            bench.exchanges[answered].reply([b"ok"])
        for client in clients:
            assert await client.answers(2) == [b"ok", b"ok"]
        assert bench.memory.wait_count > 0

    on_every_network(work, memory_bytes=100_000)


def test_memory_that_comes_while_a_session_is_held_is_asked_for_again() -> None:
    """A wake-up that a hold has swallowed must not be the last one."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        held, other = await bench.connect(), await bench.connect()
        held.send(bytes(600))
        await bench.until(lambda: len(bench.exchanges) == 1)
        session = bench.exchanges[0].session
        session.hold()
        held.send(bytes(500))
        await bench.until(lambda: bench.memory.used_bytes > 1_000)
        bench.exchanges[0].reply([b"1"])
        other.send(bytes(700))
        await bench.until(lambda: len(bench.exchanges) == 2)
        session.release()
        await asyncio.sleep(0.01)
        assert len(bench.exchanges) == 2
        bench.exchanges[1].reply([b"2"])
        await bench.until(lambda: len(bench.exchanges) == 3)
        bench.exchanges[2].reply([b"3"])
        assert await held.answers(2) == [b"1", b"3"]

    on_every_network(work, memory_bytes=1_000, piece_bytes=1_000)


def test_partial_frames_that_hold_all_memory_do_not_stop_everybody() -> None:
    """A slow timer passes on who may exceed the limit; the complete ones are answered."""

    async def work(bench: Bench) -> None:
        stuck = [await bench.connect() for _ in range(3)]
        for client in stuck:
            client.transport.write(framed(bytes(200_000))[:60_000])
        await bench.until(lambda: bench.memory.used_bytes > 179_000)
        late = await bench.connect()
        late.send(b"x" * 50_000)
        assert await late.answer() == b"x" * 50_000
        stuck[2].transport.write(framed(bytes(200_000))[60_000:])
        assert len(await stuck[2].answer()) == 200_000

    on_virtual_time(work, memory_bytes=100_000, idle_ms_max=10_000)


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
