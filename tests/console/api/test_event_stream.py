"""`event_stream`: a browser that does not read holds up who sends, and one that is gone ends it."""

import asyncio

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestClient, TestServer

from barnabas_console.api import long_response
from barnabas_console.api.event_stream import EventStream

CHUNK = "x" * 10_000
SENT_MAX = 1_000


def test_what_is_unsent_stays_small_and_the_end_of_the_browser_is_told() -> None:
    """CON-161: a reader that stops."""
    sent = 0
    ended = asyncio.Event()

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        stream = EventStream(request)
        await stream.begin()
        try:
            while True:
                await stream.send("record", CHUNK)
                sent += 1
        except (ConnectionError, asyncio.CancelledError):
            ended.set()
            raise

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/", flood)
        async with TestClient(TestServer(app)) as client:
            response = await client.get("/")
            assert response.headers["Content-Type"] == "text/event-stream"
            first = await response.content.readuntil(b"\n\n")
            assert first == f'event: record\ndata: "{CHUNK}"\n\n'.encode()
            seen = -1
            async with asyncio.timeout(20):
                while seen != sent:  # until the kernel's buffers are full
                    seen = sent
                    await asyncio.sleep(0.3)
            assert sent < SENT_MAX
            response.close()
            async with asyncio.timeout(20):
                await ended.wait()

    asyncio.run(run())


@pytest.mark.parametrize("name", ["record", "end"])
def test_events_are_lines_whatever_they_say(name: str) -> None:
    """A line break in a value is no line break of the stream."""

    async def one(request: web.Request) -> web.StreamResponse:
        stream = EventStream(request)
        await stream.begin()
        await stream.send(name, {"value": "a\n\nevent: end\ndata: 1\r\n\ud800"})
        return await stream.end()

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/", one)
        async with TestClient(TestServer(app)) as client, client.get("/") as response:
            body = await response.read()
            assert body.count(b"\n\n") == 1
            assert body.startswith(f"event: {name}\ndata: ".encode())

    asyncio.run(run())


def test_a_browser_that_does_not_read_is_waited_for_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CON-161: of the hundred streams that there are, none is held for ever."""
    monkeypatch.setattr(long_response, "SEND_SECONDS_MAX", 0.2)
    ended = asyncio.Event()

    async def flood(request: web.Request) -> web.StreamResponse:
        stream = EventStream(request)
        await stream.begin()
        try:
            while True:
                await stream.send("record", CHUNK)
        except TimeoutError:
            stream.let_go()
            ended.set()
        return stream.response

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/", flood)
        async with TestClient(TestServer(app)) as client:
            response = await client.get("/")
            async with asyncio.timeout(20):
                await ended.wait()
            with pytest.raises(ClientPayloadError):
                await response.read()

    asyncio.run(run())
