"""What a session writes to on a TLS connection: small parts joined, large ones in pieces, in turn.

Every write becomes TLS records of its own, so small parts are joined to at most one record. What
is large would be encrypted at one go, a millisecond for each megabyte: it waits here and goes out
in pieces, all connections in turn, so that a turn of the loop encrypts a bounded amount.

Invariants: bytes leave in the order in which they were written; what is given must not change any
more; `close` lets everything leave first, `abort` drops it.

Source: SEC-8 and "What it costs on uvloop" in decision 0034.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from barnabas_broker.env.disk import Buffer

RECORD_BYTES: Final = 16 * 1024
"""The most that one TLS record holds."""
PIECE_BYTES: Final = 64 * 1024
"""So much is encrypted at a time for one connection; uvloop buffers as much beneath TLS."""
TURN_BYTES: Final = 2 * 1024 * 1024
"""So much is encrypted in one turn of the loop, of all connections together."""


class EncryptionTurns:
    """Shares what a turn of the loop may encrypt among the connections of a broker."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "left")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.left = TURN_BYTES
        self._loop = loop
        self._waiting: deque[TlsTransport] = deque()
        self._is_scheduled = False

    def take(self, size: int) -> bool:
        """Count bytes that are to be encrypted now; False where this turn has had its share."""
        if self.left <= 0:
            return False
        self.left -= size
        self._schedule()
        return True

    def wait(self, transport: TlsTransport) -> None:
        """Have the transport send a piece in its turn."""
        self._waiting.append(transport)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self.left = TURN_BYTES
        waiting = self._waiting
        while waiting and self.left > 0:
            transport = waiting.popleft()
            self.left -= transport.send_piece()
            if transport.can_send:
                waiting.append(transport)
            else:
                transport.is_in_turn = False
        if waiting or self.left < TURN_BYTES:
            self._schedule()


class TlsTransport:
    """The transport of a session on TLS, as far as sessions use one."""

    __slots__ = (
        "_inner",
        "_is_blocked",
        "_is_closing",
        "_is_paused",
        "_pause",
        "_queue",
        "_queued_bytes",
        "_resume",
        "_turns",
        "_write_high",
        "_write_low",
        "is_in_turn",
    )

    def __init__(
        self,
        inner: asyncio.Transport,
        turns: EncryptionTurns,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        """`pause` and `resume` are told when too much waits, and when little does again."""
        self._inner = inner
        self._turns = turns
        self._pause = pause
        self._resume = resume
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._is_blocked = False  # what is beneath takes no more
        self._is_paused = False  # the session was told so
        self._is_closing = False
        self.is_in_turn = False
        self._write_high = self._write_low = 0
        inner.set_write_buffer_limits(high=PIECE_BYTES, low=RECORD_BYTES)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the transport beneath."""
        return self._inner.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Say when too much waits."""
        self._write_high, self._write_low = high, low

    def get_write_buffer_size(self) -> int:
        """Bytes that wait here or beneath."""
        return self._queued_bytes + self._inner.get_write_buffer_size()

    def pause_reading(self) -> None:
        """As the transport beneath."""
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """As the transport beneath."""
        self._inner.resume_reading()

    def write(self, data: Buffer) -> None:
        """Send bytes."""
        if self._may_write(len(data)):
            self._inner.write(data)
        else:
            self._enqueue((data,))

    def writelines(self, parts: Sequence[Buffer]) -> None:
        """Send the concatenation of parts."""
        size = sum(map(len, parts))
        if not self._may_write(size):
            self._enqueue(joined(parts))
        elif size <= RECORD_BYTES:
            self._inner.write(b"".join(parts))
        else:
            for data in joined(parts):
                self._inner.write(data)

    def _may_write(self, size: int) -> bool:
        """Whether bytes are encrypted now, and counted then, or have to wait for their turn."""
        return (
            size <= PIECE_BYTES
            and not self._queue
            and not self._is_blocked
            and self._turns.take(size)
        )

    def _enqueue(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            if part:
                self._queue.append(memoryview(part))
                self._queued_bytes += len(part)
        if not self._is_paused and self._queued_bytes > self._write_high:
            self._is_paused = True
            self._pause()
        self._see_to_turn()

    def _see_to_turn(self) -> None:
        if self.can_send and not self.is_in_turn:
            self.is_in_turn = True
            self._turns.wait(self)

    @property
    def can_send(self) -> bool:
        """Whether something waits here that may be sent."""
        return bool(self._queue) and not self._is_blocked

    def send_piece(self) -> int:
        """Encrypt the next piece; returns its size."""
        size, queue = 0, self._queue
        while queue and size < PIECE_BYTES and not self._is_blocked:
            part = queue.popleft()
            room = PIECE_BYTES - size
            if len(part) > room:
                queue.appendleft(part[room:])
                part = part[:room]
            size += len(part)
            self._queued_bytes -= len(part)
            self._inner.write(part)
        if self._is_paused and self._queued_bytes <= self._write_low:
            self._is_paused = False
            self._resume()
        if self._is_closing and size and not queue:
            self._inner.close()
        return size

    def block(self) -> None:
        """What is beneath takes no more."""
        self._is_blocked = True

    def unblock(self) -> None:
        """What is beneath takes more again."""
        self._is_blocked = False
        self._see_to_turn()

    def close(self) -> None:
        """Close when everything has been sent."""
        self._is_closing = True
        if not self._queue:
            self._inner.close()

    def abort(self) -> None:
        """Close at once; nothing more is sent."""
        self.clear()
        self._is_closing = True
        self._inner.abort()

    def clear(self) -> None:
        """Let go of what waits: the connection is lost."""
        self._queue.clear()
        self._queued_bytes = 0


def joined(parts: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer parts: neighbours joined where one TLS record holds them."""
    out: list[Buffer] = []
    run: list[Buffer] = []
    run_bytes = 0
    for part in parts:
        size = len(part)
        if run_bytes + size > RECORD_BYTES:
            if run:
                out.append(run[0] if len(run) == 1 else b"".join(run))
            run, run_bytes = [], 0
            if size >= RECORD_BYTES:
                out.append(part)
                continue
        run.append(part)
        run_bytes += size
    if run:
        out.append(run[0] if len(run) == 1 else b"".join(run))
    return out
