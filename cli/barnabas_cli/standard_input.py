"""The standard input: its lines as they come, or its end, without blocking the loop or Ctrl-C.

A daemon thread reads the descriptor, because terminals, pipes and files can all be waited for that
way and a blocked read must not keep the process alive. Invariant: at most CHUNKS_MAX chunks wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator

CHUNK_BYTES = 64 * 1024
CHUNKS_MAX = 16


async def lines_of(descriptor: int) -> AsyncIterator[bytes]:
    """The lines with their newlines; the last one may have none."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_MAX)

    def read() -> None:
        # The loop may be closed while this thread waits for input: then nobody wants it.
        with contextlib.suppress(RuntimeError, OSError):
            while True:
                room.acquire()
                chunk = os.read(descriptor, CHUNK_BYTES)
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                if not chunk:
                    return

    threading.Thread(target=read, name="standard input", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        room.release()
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def terminate_at_its_end() -> None:
    """Have this process end as by SIGTERM when its standard input does."""

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), CHUNK_BYTES):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, name="end of the standard input", daemon=True).start()
