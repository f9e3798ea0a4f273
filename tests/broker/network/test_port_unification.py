"""One port for clients with TLS and without, while they change from one to the other."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.network.listener import Listener
from barnabas_broker.network.session import SessionSettings
from barnabas_protocol.connection.framing import SharedBuffer
from tests.support.secure_bench import SecureBench, on_both_loops
from tests.support.session_bench import framed

BODY = bytes(100)


class UnifiedBench(SecureBench):
    """A listener with TLS that hands connections without it to another."""

    def __init__(self, directory: Path, **options: Any) -> None:
        super().__init__(directory, **options)
        self.plaintext = self.listener.plaintext = Listener(
            name=self.listener.name,
            host="",
            port=0,
            network=self.network,
            loop=self.listener.loop,
            turn=self.turn,
            clock=self.listener.clock,
            dispatch=lambda in_flight: self.dispatch(in_flight),
            settings=SessionSettings(),
            limits=self.limits,
            memory=self.memory,
            metrics=self.metrics,
            shared_buffer=SharedBuffer(),
            handshakes=self.handshakes,
        )

    async def __aexit__(self, *error: object) -> None:
        await self.listener.stop_accepting()
        await self.plaintext.close(1_000)
        await super().__aexit__(*error)

    async def echoes_plain(self, body: bytes = BODY) -> None:
        async with self.streams(None) as (reader, writer):
            writer.write(framed(body))
            assert await reader.readexactly(4 + len(body)) == framed(body)


def test_both_kinds_are_served_at_once(tmp_path: Path) -> None:
    """SEC-89: each by what its first byte is, and counted where it belongs."""

    async def work(bench: UnifiedBench) -> None:
        async with bench.streams(None) as (reader, writer):
            writer.write(framed(BODY))
            assert await reader.readexactly(104) == framed(BODY)
            await bench.echoes(bench.context())
            assert len(bench.plaintext.sessions) == 1
            (session,) = bench.plaintext.sessions
            assert str(session.principal) == "User:ANONYMOUS"
            assert session.host == "127.0.0.1"
            assert bench.half_open.total == 0
        assert bench.outcomes() == {"completed": 1}
        await bench.until(lambda: not bench.plaintext.sessions)
        assert bench.metrics.connections_accepted == 2

    on_both_loops(UnifiedBench, tmp_path, work)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", "speaks HTTP, not TLS"),
        (b"\xff\xff\xff\xff", "does not speak TLS"),
        (b"\x01\x00\x00\x00", "does not speak TLS"),
    ],
)
def test_nothing_else_is_taken_for_a_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes, words: str
) -> None:
    """SEC-8: a size of 16 MiB and more is no first request of a client."""

    async def work(bench: UnifiedBench) -> None:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            async with bench.streams(None) as (reader, writer):
                writer.write(sent)
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
        (line,) = [record.getMessage() for record in caplog.records]
        assert words in line
        assert not bench.plaintext.sessions

    on_both_loops(UnifiedBench, tmp_path, work)


def test_many_of_one_address_come_at_once(tmp_path: Path) -> None:
    """SEC-8: those without TLS take no part of the turns that handshakes have."""

    async def work(bench: UnifiedBench) -> None:
        many = bench.silent(framed(BODY), count=40)
        await bench.until(lambda: len(bench.plaintext.sessions) == 40)
        await bench.echoes(bench.context())
        assert bench.half_open.total == 0
        for one in many:
            one.close()

    on_both_loops(UnifiedBench, tmp_path, work)


def test_limits_hold_for_both_together(tmp_path: Path) -> None:
    """NET-4: who comes without TLS takes a place like everybody else, once."""

    async def work(bench: UnifiedBench) -> None:
        bench.limits.update(3, 1_000, {})
        async with bench.streams(None) as (_, first), bench.streams(None) as (_, second):
            first.write(framed(BODY))
            second.write(framed(BODY))
            await bench.until(lambda: len(bench.plaintext.sessions) == 2)
            assert bench.limits.total == 2
            await bench.echoes(bench.context())
            await bench.until(lambda: bench.limits.total == 2)
            async with bench.streams(None) as (_, third):
                third.write(framed(BODY))
                await bench.until(lambda: len(bench.plaintext.sessions) == 3)
                async with bench.streams(None) as (reader, _):
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
        await bench.until(lambda: bench.limits.total == 0)

    on_both_loops(UnifiedBench, tmp_path, work)


def test_a_stop_takes_both_with_it(tmp_path: Path) -> None:
    """NET-6: what waits for its first byte, and what is served without TLS."""

    async def work(bench: UnifiedBench) -> None:
        async with bench.streams(None) as (reader, writer):
            writer.write(framed(BODY))
            assert await reader.readexactly(104) == framed(BODY)
            silent = bench.silent()
            await bench.until(lambda: bench.half_open.total == 1)
            await bench.listener.close()
            await bench.plaintext.close()
            assert await reader.read() == b""
            assert bench.half_open.total == 0
            silent[0].close()

    on_both_loops(UnifiedBench, tmp_path, work)
