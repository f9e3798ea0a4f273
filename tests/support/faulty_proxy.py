"""A TCP proxy that fails by seed: it changes no byte, but may delay, split, lose or cut them.

A client connects to the addresses that a broker advertises, so the broker behind a proxy must
advertise the proxy's port. Each connection draws its course when it begins; `calm` ends the faults
and every connection that suffers from one, so that a test can look at what is left.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Self

_READ_BYTES = 64 * 1024
_RESET = struct.pack("ii", 1, 0)


class Fault(Enum):
    """What becomes of a connection, after some bytes in one of its directions."""

    NONE = auto()
    CLOSE = auto()
    RESET = auto()
    #: One direction is swallowed from then on, the other goes on.
    SILENCE = auto()
    #: Bytes trickle.
    THROTTLE = auto()
    #: Every piece waits.
    DELAY = auto()
    #: The connection is closed before a byte.
    REFUSE = auto()


ALL_FAULTS = (
    *[Fault.NONE] * 3,
    *[Fault.CLOSE] * 4,
    *[Fault.RESET] * 4,
    Fault.SILENCE,
    Fault.THROTTLE,
    Fault.DELAY,
    Fault.REFUSE,
)


@dataclass(slots=True)
class _Course:
    """What was drawn for one connection."""

    fault: Fault
    is_from_client: bool
    after_bytes: int
    #: Pieces are at most that long; 0: as they come.
    piece_bytes: int


class FaultyProxy:
    """Listens on a port while it is open, and leads to another port of this machine."""

    def __init__(
        self,
        port: int,
        target_port: int,
        rng: random.Random,
        *,
        faults: Sequence[Fault] = ALL_FAULTS,
        after_bytes_max: int = 200_000,
    ) -> None:
        self.port = port
        self.faults = faults
        self.counts: dict[Fault, int] = dict.fromkeys(Fault, 0)
        self._target_port = target_port
        self._rng = rng
        self._after_bytes_max = after_bytes_max
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], _Course] = {}

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=_READ_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all connections."""
        assert self._server is not None
        self._server.close()
        await self.cut(list(self._connections))
        await self._server.wait_closed()

    async def calm(self) -> None:
        """From now on nothing fails; connections that have a fault are ended."""
        self.faults = (Fault.NONE,)
        await self.cut([t for t, course in self._connections.items() if course.fault != Fault.NONE])

    async def cut(self, connections: list[asyncio.Task[None]] | None = None) -> None:
        """End connections, by default all."""
        chosen = list(self._connections) if connections is None else connections
        for connection in chosen:
            connection.cancel()
        await asyncio.gather(*chosen, return_exceptions=True)

    def _draw(self) -> _Course:
        rng = self._rng
        fault = rng.choice(list(self.faults))
        after_bytes = int(self._after_bytes_max ** rng.random())
        return _Course(fault, rng.random() < 0.5, after_bytes, rng.choice([0, 0, 1000, 60_000]))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        course = self._draw()
        self._connections[task] = course
        self.counts[course.fault] += 1
        writers = [writer]
        try:
            if course.fault is Fault.REFUSE:
                return
            there, back = await asyncio.open_connection(
                "127.0.0.1", self._target_port, limit=_READ_BYTES
            )
            writers.append(back)
            pumps = [
                asyncio.ensure_future(self._pump(reader, back, course, from_client=True)),
                asyncio.ensure_future(self._pump(there, writer, course, from_client=False)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the server's own task is not told of it
        finally:
            del self._connections[task]
            for one in writers:
                if course.fault is Fault.RESET:
                    _reset(one)
                one.close()
            for one in writers:
                await _closed(one)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        course: _Course,
        *,
        from_client: bool,
    ) -> None:
        """Carry one direction until it ends, or until the connection's fault strikes."""
        is_faulty = course.is_from_client is from_client
        passed = 0
        while data := await reader.read(_READ_BYTES):
            left = course.after_bytes - passed
            if is_faulty and left < len(data):
                if course.fault in (Fault.CLOSE, Fault.RESET):
                    writer.write(data[: max(left, 0)])
                    await writer.drain()
                    return
                if course.fault is Fault.SILENCE:
                    continue
            passed += len(data)
            await self._write(writer, data, course)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes, course: _Course) -> None:
        rng = self._rng
        size = course.piece_bytes or len(data)
        if course.fault is Fault.THROTTLE:
            size = min(size, 2000)
        at = 0
        while at < len(data):
            length = rng.randint(1, size) if course.piece_bytes else size
            writer.write(data[at : at + length])
            await writer.drain()
            at += length
            if course.fault is Fault.THROTTLE:
                await asyncio.sleep(0.002)
            elif course.fault is Fault.DELAY:
                await asyncio.sleep(rng.random() * 0.03)
            elif course.piece_bytes:
                await asyncio.sleep(0)


def _reset(writer: asyncio.StreamWriter) -> None:
    plain: socket.socket | None = writer.get_extra_info("socket")
    if plain is not None and plain.fileno() >= 0:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
