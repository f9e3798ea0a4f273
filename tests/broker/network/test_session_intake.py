"""When a session reads on: slow readers, requests in flight, memory, holding and muting."""

import asyncio

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.network.frame_turns import FrameTurns
from barnabas_broker.network.session import IN_FLIGHT_MAX, UNSENT_BYTES_MAX, InFlightRequest
from tests.broker.network.session_networks import on_every_network, on_virtual_time
from tests.support.session_bench import Bench, framed


class SettableClock(SystemClock):
    """The system's clock, but that its time passes when it is told so."""

    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


def test_a_slow_reader_is_read_no_more_and_gets_everything_in_the_end() -> None:
    """NET-8: memory does not grow with what a peer asks for and does not take."""

    async def work(bench: Bench) -> None:
        large = bytes(100_000)

        def dispatch(in_flight: InFlightRequest) -> None:
            bench.in_flight_requests.append(in_flight)
            in_flight.reply([large])

        bench.dispatch = dispatch
        client = await bench.connect()
        client.transport.pause_reading()
        for _ in range(10):
            client.send(*[b"fetch"] * 40)
        await bench.until(lambda: bench.metrics.write_pauses > 0)
        before = -1
        while before != len(bench.in_flight_requests):  # until nothing moves any more
            before = len(bench.in_flight_requests)
            for _ in range(20):
                await asyncio.sleep(0.001)
        assert len(bench.in_flight_requests) < 400
        client.transport.resume_reading()
        assert len(await client.answers(400)) == 400
        assert len(bench.in_flight_requests) == 400

    on_every_network(work, piece_bytes=30_011, pauses_writers=True)


def test_frames_in_flight_are_bounded() -> None:
    """Contract: at most 64 per connection, by number and by bytes of parked answers."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(*[b"x"] * (3 * IN_FLIGHT_MAX))
        await bench.until(lambda: len(bench.in_flight_requests) == IN_FLIGHT_MAX)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(bench.in_flight_requests) == IN_FLIGHT_MAX
        bench.in_flight_requests[1].reply([bytes(UNSENT_BYTES_MAX + 1)])
        for in_flight in bench.in_flight_requests[2:40]:
            in_flight.reply([b"y"])
        bench.in_flight_requests[0].reply([b"z"])
        await bench.until(lambda: len(bench.in_flight_requests) > IN_FLIGHT_MAX)
        position = 40
        while position < 3 * IN_FLIGHT_MAX:
            await bench.until(lambda position=position: len(bench.in_flight_requests) > position)  # type: ignore[misc]
            bench.in_flight_requests[position].reply([b"y"])
            position += 1
        answers = await client.answers(3 * IN_FLIGHT_MAX)
        assert [len(answer) for answer in answers[:3]] == [1, UNSENT_BYTES_MAX + 1, 1]

    on_every_network(work, piece_bytes=3_001)


def test_very_many_small_requests_leave_others_their_turns() -> None:
    """NET-6: a connection has ten thousand read at a time, and each takes some microseconds."""

    async def work(bench: Bench) -> None:
        clock = SettableClock()
        order: list[bytes] = []

        def dispatch(in_flight: InFlightRequest) -> None:
            clock.now_ns += 1_000_000
            order.append(bytes(in_flight.frame))
            in_flight.reply([in_flight.frame])

        bench.dispatch = dispatch
        bench.listener.frame_turns = FrameTurns(asyncio.get_running_loop(), clock)
        hostile, other = await bench.connect(), await bench.connect()
        hostile.send(*[b"x"] * 1_000)
        other.send(b"y")
        assert await other.answer() == b"y"
        assert order.index(b"y") < 100
        assert len(await hostile.answers(1_000)) == 1_000

    on_virtual_time(work)


def test_parked_responses_stop_intake() -> None:
    """Answers behind a slow one are memory, too."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a", b"b")
        await bench.until(lambda: len(bench.in_flight_requests) == 2)
        bench.in_flight_requests[1].reply([bytes(UNSENT_BYTES_MAX + 1)])
        client.send(b"c")
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(bench.in_flight_requests) == 2
        bench.in_flight_requests[0].reply([b"A"])
        await bench.until(lambda: len(bench.in_flight_requests) == 3)
        bench.in_flight_requests[2].reply([b"C"])
        assert [len(a) for a in await client.answers(3)] == [1, UNSENT_BYTES_MAX + 1, 1]

    on_every_network(work, piece_bytes=3_001)


def test_a_held_session_hands_out_nothing_until_it_is_released() -> None:
    """NET-7: an asynchronous handler is at work; frames wait in order, and holds nest."""

    async def work(bench: Bench) -> None:
        frames = [b"%d" % n * 50 for n in range(200)]

        def dispatch(in_flight: InFlightRequest) -> None:
            bench.in_flight_requests.append(in_flight)
            in_flight.session.hold()

        bench.dispatch = dispatch
        client = await bench.connect()
        client.send(*frames)
        for n in range(200):
            await bench.until(lambda n=n: len(bench.in_flight_requests) > n)  # type: ignore[misc]
            assert len(bench.in_flight_requests) == n + 1
            in_flight = bench.in_flight_requests[n]
            in_flight.session.hold()
            in_flight.session.release()
            await asyncio.sleep(0)
            assert len(bench.in_flight_requests) == n + 1
            in_flight.reply([bytes(in_flight.frame)])
            in_flight.session.release()
        assert await client.answers(200) == frames

    on_every_network(work)


def test_an_exclusive_session_has_one_request_in_flight() -> None:
    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        client = await bench.connect()
        client.send(b"a")
        await bench.until(lambda: len(bench.in_flight_requests) == 1)
        bench.session.exclusive = True
        client.send(b"b", b"c")
        for n in range(3):
            await bench.until(lambda n=n: len(bench.in_flight_requests) > n)  # type: ignore[misc]
            await asyncio.sleep(0.002)
            assert len(bench.in_flight_requests) == n + 1
            bench.in_flight_requests[n].reply([b"ok"])
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
        assert bench.session.muted_ms == 0
        bench.session.mute(500)
        bench.session.mute(100)
        bench.session.mute(800)
        assert 799 <= bench.session.muted_ms <= 801
        client.send(b"b")
        assert await client.answer() == b"b"
        assert bench.session.muted_ms == 0
        assert 0.8 <= loop.time() - start < 0.9
        assert bench.metrics.mutes == 2
        bench.session.mute(1_000_000)
        client.transport.close()
        await bench.until(lambda: not bench.listener.sessions)

    on_virtual_time(work)


def test_memory_of_requests_is_bounded_over_all_connections() -> None:
    """KIP-72: over queued.max.request.bytes nobody is read; answers let the others go on."""

    async def work(bench: Bench) -> None:
        bench.dispatch = bench.collect
        clients = [await bench.connect() for _ in range(6)]
        for client in clients:
            client.send(bytes(40_000), bytes(40_000))
        for answered in range(12):
            await bench.until(lambda answered=answered: len(bench.in_flight_requests) > answered)  # type: ignore[misc]
            assert bench.memory.used_bytes <= 100_000 + 6 * 256 * 1024
            assert bench.memory.request_count <= 3
            bench.in_flight_requests[answered].reply([b"ok"])
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
        await bench.until(lambda: len(bench.in_flight_requests) == 1)
        session = bench.in_flight_requests[0].session
        session.hold()
        held.send(bytes(500))
        await bench.until(lambda: bench.memory.used_bytes > 1_000)
        bench.in_flight_requests[0].reply([b"1"])
        other.send(bytes(700))
        await bench.until(lambda: len(bench.in_flight_requests) == 2)
        session.release()
        await asyncio.sleep(0.01)
        assert len(bench.in_flight_requests) == 2
        bench.in_flight_requests[1].reply([b"2"])
        await bench.until(lambda: len(bench.in_flight_requests) == 3)
        bench.in_flight_requests[2].reply([b"3"])
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
