"""Peers that send without end, end without sending, or do not read: the others go on."""

import asyncio

from barnabas_broker.network.listener import FRAME_MS_MAX, SWEEP_MS_MAX, UNREAD_MS_MAX
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


def test_answers_that_nobody_reads_have_a_deadline() -> None:
    """Attack: a hundred connections held 5.6 GB of fetched records for ever."""

    async def work(bench: Bench) -> None:
        bench.dispatch = lambda exchange: exchange.reply([bytes(3_000_000)])
        client = await bench.connect()
        client.transport.pause_reading()
        client.send(b"x")
        await bench.until(lambda: bench.memory.unsent_bytes > 0)
        assert bench.memory.answer_bytes_max < bench.memory.unsent_bytes_max
        await asyncio.sleep((UNREAD_MS_MAX + 2 * SWEEP_MS_MAX) / 1000)
        await bench.until(lambda: bench.metrics.connections_open == 0)
        assert bench.memory.unsent_bytes == 0

    on_virtual_time(work)
