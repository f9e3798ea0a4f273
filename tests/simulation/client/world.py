"""A virtual loop, brokers to talk to, and wires between them and the clients under test.

The clients are unchanged: what they take from outside (clock, randomness, connecting sockets) is
replaced while a world runs. A wire keeps the order of its bytes; requests of one wire are handled
one after the other, as Kafka's brokers do. Each client may run in a process of its own, which can
be stopped or killed.
"""

import asyncio
import contextlib
import errno
import gc
import random
import ssl
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from typing import Any
from weakref import WeakSet

from barnabas_client.env import Environment
from barnabas_protocol import codec
from barnabas_protocol.schema import Message
from tests.support.client_seams import client_seams
from tests.support.process_loop import PROCESS, Process, ProcessLoop
from tests.support.virtual_loop import VirtualClock

ENDING_SECONDS = 300.0
Answer = Message | asyncio.Future[Any] | None


class Lost(Exception):
    """The connection goes, and with it the answer."""


class Wire(asyncio.Transport):
    """A client's side of a connection to one broker."""

    def __init__(self, world: "World", node_id: int, protocol: Any) -> None:
        super().__init__()
        self.world = world
        self.node_id = node_id
        self.process = PROCESS.get()
        self.is_lost = False
        self.is_busy = False
        self.requests: deque[bytes] = deque()
        self._protocol = protocol
        self._context = copy_context()
        self._sent = bytearray()
        self._there_at = self._back_at = 0.0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        sent = self._sent
        sent += data
        while len(sent) >= 4:
            (size,) = struct.unpack_from(">I", sent)
            if len(sent) < 4 + size:
                break
            frame = bytes(sent[4 : 4 + size])
            del sent[: 4 + size]
            self._there_at = self.world.due(self._there_at)
            self.world.at(self._there_at, self._arrive, frame)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.is_lost

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """End the connection; requests that have arrived may still be carried out."""
        if not self.is_lost:
            self.is_lost = True
            self.world.wires.pop(self, None)
            if self.process is None or self.process.life.name != "IS_DEAD":
                context = self._context.copy()
                self.world.loop.call_soon(self._protocol.connection_lost, error, context=context)

    def reset(self) -> None:
        """The broker, or something in between, ends the connection."""
        self.lose(ConnectionResetError(errno.ECONNRESET, "reset by the peer"))

    def _arrive(self, frame: bytes) -> None:
        # What was sent before the connection was lost may arrive all the same.
        self.requests.append(frame)
        if not self.is_busy:
            self.world.serve(self)

    def answer(self, frame: bytes, delay_seconds: float) -> None:
        """Send a response; it arrives behind those before it."""
        self._back_at = self.world.due(self._back_at) + delay_seconds
        data = struct.pack(">I", len(frame)) + frame
        self.world.loop.call_at_true(
            self._back_at, self._deliver, data, context=self._context.copy()
        )

    def _deliver(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.is_lost:
            room = memoryview(self._protocol.get_buffer(len(view)))
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self._protocol.buffer_updated(count)


class World:
    """One story's loop, randomness and wires; `handle` is the brokers' side of them."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(f"world {seed}")
        self._client_random = random.Random(f"clients {seed}")
        self.loop = ProcessLoop()
        self.loop.set_exception_handler(self._unhandled)
        self.clock = VirtualClock(self.loop)
        self.wires: dict[Wire, None] = {}
        self.hosts: dict[str, int] = {}
        self.down: set[int] = set()
        self.latency_ms = 1.0
        self.complaints: list[str] = []
        self.timeline: list[tuple[float, str]] = []
        self.request_count = 0
        # What processes that were killed were at: nobody is left to look at how it ends.
        self._abandoned: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._has_killed = False
        # Whether the next response comes twice.
        self.repeats = False
        self.handle: Callable[[Wire, int, int, Message], Answer] = _nobody
        self.on_answer: Callable[[Wire, int, int, Message], float] = _at_once

    # Time.

    def due(self, not_before: float) -> float:
        """When what is sent now arrives."""
        latency = self.latency_ms * (0.5 + self.random.random()) / 1000
        return max(self.loop.true_seconds + latency, not_before + 1e-6)

    def at(self, when: float, act: Callable[..., None], *arguments: Any) -> None:
        """Let something happen that belongs to no client."""
        self.loop.call_at_true(when, act, *arguments, context=Context())

    def later(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        """The same, so many seconds from now."""
        self.at(self.loop.true_seconds + seconds, act, *arguments)

    def tell(self, *words: object) -> None:
        """Remember what happened."""
        self.timeline.append((self.loop.true_seconds, " ".join(map(str, words))))

    def environment(self) -> Environment:
        """What clients take from outside."""
        drawn = random.Random(self._client_random.getrandbits(64))
        return Environment(clock=self.clock, random=drawn)

    # Connections.

    async def connect(self, host: str, port: int, **_: Any) -> Any:
        """What stands in for a connected socket: a node's number."""
        await asyncio.sleep(self.latency_ms / 1000)
        node_id = self.hosts[host]
        if node_id in self.down:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
        return node_id

    async def start(
        self, protocol: Any, opened: Any, tls: ssl.SSLContext | None, host: str
    ) -> None:
        """Join a client's protocol with a wire."""
        wire = Wire(self, opened, protocol)
        self.wires[wire] = None
        protocol.connection_made(wire)
        await asyncio.sleep(0)

    def serve(self, wire: Wire) -> None:
        """Carry out the next request of a wire."""
        while wire.requests and not wire.is_busy:
            frame = wire.requests.popleft()
            header = codec.read_request_header(frame)
            key, version = header.api_key, header.api_version
            body, _ = codec.decode(codec.request_class(key), frame, version, header.position)
            self.request_count += 1
            try:
                answer = self.handle(wire, key, version, body)
            except Lost:
                wire.requests.clear()
                wire.reset()
                return
            if isinstance(answer, asyncio.Future):
                wire.is_busy = True
                answer.add_done_callback(
                    lambda done, at=(key, version, header.correlation_id): self._late(
                        wire, *at, done
                    ),
                    context=Context(),
                )
            else:
                self._answer(wire, key, version, header.correlation_id, answer)

    def _late(
        self, wire: Wire, key: int, version: int, number: int, done: asyncio.Future[Any]
    ) -> None:
        wire.is_busy = False
        self._answer(wire, key, version, number, done.result())
        self.serve(wire)

    def _answer(
        self, wire: Wire, key: int, version: int, number: int, answer: Message | None
    ) -> None:
        if answer is None or wire.is_lost:
            return
        try:
            delay = self.on_answer(wire, key, version, answer)
        except Lost:
            wire.reset()
            return
        if delay >= 0:
            frame = codec.encode_response(answer, key, version, number)
            wire.answer(frame, delay)
            if self.repeats:
                self.repeats = False
                wire.answer(frame, 0.0)

    # Running.

    def kill(self, process: Process) -> None:
        """SIGKILL: its connections end without a word from it."""
        self._has_killed = True
        self._abandoned.update(process.tasks)
        self._end(process)

    def _end(self, process: Process) -> None:
        self.loop.kill(process)
        for wire in [wire for wire in self.wires if wire.process is process]:
            wire.is_lost = True
            del self.wires[wire]

    async def finish(self, process: Process, main: asyncio.Task[Any]) -> None:
        """Wait for the end of a program, and end its other tasks as `asyncio.run` does."""
        await asyncio.wait([main])
        if main.cancelled():
            raise AssertionError(f"the program {process.name} was cancelled")
        error = main.exception()
        if error is not None:
            raise error
        left = [one for one in process.tasks if not one.done()]
        for one in left:
            one.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=ENDING_SECONDS)
            assert not stuck, f"the program {process.name} does not end: {stuck}"
        await asyncio.sleep(0.01)
        left = [one for one in process.tasks if not one.done()]
        assert not left, f"the program {process.name} leaves {left}"
        self._end(process)  # what it did not close goes with it

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a story; what is left of it is closed."""
        with self._seams():
            try:
                self.loop.run_until_complete(work())
            finally:
                for process_task in asyncio.all_tasks(self.loop):
                    process_task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with contextlib.suppress(BaseException):
                        process_task.get_coro().close()  # type: ignore[union-attr]
                with contextlib.suppress(Exception):
                    self.loop.run_until_complete(self.loop.shutdown_asyncgens())
                self.loop.close()

    @contextlib.contextmanager
    def _seams(self) -> Iterator[None]:
        was_collecting = gc.isenabled()
        gc.disable()
        try:
            with client_seams(self.connect, self.start, self.environment):
                yield
        finally:
            if was_collecting:
                gc.enable()

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        ended = context.get("task") or context.get("future")
        # Whose a mere future is cannot be told.
        is_task = isinstance(ended, asyncio.Task)
        is_abandoned = ended in self._abandoned if is_task else self._has_killed
        if not (is_abandoned and "never retrieved" in str(context.get("message"))):
            self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")


def _nobody(wire: Wire, key: int, version: int, request: Message) -> Answer:
    raise Lost


def _at_once(wire: Wire, key: int, version: int, answer: Message) -> float:
    return 0.0
