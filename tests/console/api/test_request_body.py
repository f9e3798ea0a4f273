"""`request_body`: whatever a body holds, what is refused is refused in words (CON-161)."""

import asyncio
import io
from collections.abc import AsyncIterator

import pytest

from barnabas_console.api import request_body
from tests.support.console_server import OWN, running_console


def test_bodies_are_bounded_and_what_is_no_json_is_refused_in_words() -> None:
    """CON-161."""

    async def run() -> None:
        async with running_console() as client:
            for body, kind, status in (
                (b"x" * (2 * 1024 * 1024 + 1), "application/json", 413),
                (b"{", "application/json", 400),
                (b"[" * 100_000, "application/json", 400),
                (b"[]", "application/json", 400),
                (b'{"path": [' + b"[]," * 600_000 + b"0]}", "application/json", 400),
                (b'{"path": "\xff"}', "application/json", 400),
                (b'{"path": 1}', "application/json", 400),
                (b"path=x", "application/x-www-form-urlencoded", 415),
            ):
                headers = {**OWN, "Content-Type": kind}
                async with client.post(
                    "/api/v1/tickets", data=io.BytesIO(body), headers=headers
                ) as response:
                    assert response.status == status
                    assert set(await response.json()) == {"error", "message", "hint", "broker"}

    asyncio.run(run())


def test_a_body_that_does_not_come_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """CON-172: so few may ask at once that slow senders would shut everybody out."""
    monkeypatch.setattr(request_body, "READ_SECONDS_MAX", 0.05)

    async def run() -> None:
        never = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"{"
            await never.wait()

        async with running_console() as client:
            headers = {**OWN, "Content-Type": "application/json"}
            async with client.post("/api/v1/tickets", data=body(), headers=headers) as response:
                assert response.status == 408

    asyncio.run(run())
