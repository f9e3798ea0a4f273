"""One outbound connection to another broker: calls out, answers in, in order.

Knows frames and correlation ids, not what they mean to the caller. Calls that come while the
connection is being made are sent in their order once it is. Answers come in the order of the
calls, as every server of Kafka's protocol gives them; anything else ends the connection.

Invariants:
- Each call ends once: with its answer, or with `PeerLostError` when the connection is refused, lost
  or silent for too long. A call that is late ends the connection: what comes behind it cannot be
  earlier, and a stream cannot be cut in its middle.
- A call whose caller has gone keeps its place and its deadline, since its answer still comes.
- Not more than `CALLS_MAX` calls wait.

Source: KIP-595 and Kafka's inter-broker channels send one request after the other in the same way.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from barnabas_broker.env.network import Network
from barnabas_broker.network.frame_receiver import FrameError, FrameReceiver, SharedBuffer
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ParseError

_SIZE = struct.Struct(">i")
CALLS_MAX = 1_000
"""More would wait longer than anybody listens."""


class PeerLostError(Exception):
    """The connection has ended or never came about; `was_refused`: nobody listens there.

    `was_sent`: the request may have reached the peer.
    """

    def __init__(self, reason: str, *, was_refused: bool = False, was_sent: bool = True) -> None:
        super().__init__(reason)
        self.was_refused = was_refused
        self.was_sent = was_sent


class _Call:
    """A request and who waits for its answer."""

    __slots__ = ("correlation_id", "deadline", "frame", "key", "reply", "version")

    def __init__(
        self, key: ApiKey, version: int, correlation_id: int, frame: bytes, reply: Any
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.frame: bytes | None = frame  # None: sent
        self.reply: asyncio.Future[Any] = reply
        self.deadline: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        """Tell the caller, unless it has gone."""
        if self.deadline is not None:
            self.deadline.cancel()
        if not self.reply.done():
            self.reply.set_exception(error)
            # The caller may have been cancelled between now and its turn to hear of it.
            self.reply.exception()


class PeerConnection(asyncio.BufferedProtocol):
    """A connection from its first attempt to its end; it is never made again."""

    def __init__(
        self,
        network: Network,
        address: tuple[str, int],
        shared_buffer: SharedBuffer,
        *,
        client_id: str,
        response_bytes_max: int,
        on_end: Callable[[PeerLostError], None],
        on_answer: Callable[[], None] = lambda: None,
        failure: Callable[[PeerLostError], Exception] = lambda error: error,
    ) -> None:
        """Begin to connect; `on_end` is called once, when it is over, unless `close` ended it.

        `on_answer` is called with each answer; `failure` makes what a caller gets for an error.
        """
        self.address = address
        self.is_ended = False
        self._client_id = client_id
        self._receiver = FrameReceiver(shared_buffer, response_bytes_max)
        self._on_end = on_end
        self._on_answer = on_answer
        self._failure = failure
        self._transport: asyncio.Transport | None = None
        self._calls: deque[_Call] = deque()
        self._correlation_id = 0
        self._loop = asyncio.get_running_loop()
        self._is_gone = asyncio.Event()  # nothing of it is left in the loop
        attempt = self._loop.create_task(network.connect(lambda: self, *address))
        attempt.add_done_callback(self._connected)
        self._connecting: asyncio.Task[Any] | None = attempt

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, down to the socket."""
        return self._is_gone.is_set()

    def call(self, message: Any, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        """Send a request, at once or when connected; the future is its decoded answer.

        Its exception is what `failure` makes of a PeerLostError.
        Raises: PeerLostError if too many calls wait.
        """
        reply: asyncio.Future[Any] = self._loop.create_future()
        if self.is_ended or len(self._calls) >= CALLS_MAX:
            reason = "it has ended" if self.is_ended else "too many requests wait"
            raise PeerLostError(reason, was_sent=False)
        key = codec.api_key_of(type(message))
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = codec.encode_request(message, key, version, correlation_id, self._client_id)
        call = _Call(key, version, correlation_id, frame, reply)
        call.deadline = self._loop.call_later(timeout_ms / 1000, self._late, call, timeout_ms)
        self._calls.append(call)
        if self._transport is not None:
            self._send(call)
        return reply

    def _send(self, call: _Call) -> None:
        frame, call.frame = call.frame, None
        assert frame is not None
        assert self._transport is not None
        self._transport.writelines((_SIZE.pack(len(frame)), frame))

    def _late(self, call: _Call, timeout_ms: int) -> None:
        call.deadline = None
        done = "no connection" if self._transport is None else "no answer"
        self._end(PeerLostError(f"{done} to {call.key.name} within {timeout_ms} ms"))

    def _connected(self, attempt: asyncio.Task[Any]) -> None:
        # A callback, since a task that is cancelled before its first step runs none of its code.
        self._connecting = None
        error = None if attempt.cancelled() else attempt.exception()
        if self._transport is None or attempt.cancelled() or error is not None:
            # An attempt that fails or is cancelled takes its transport with it, also one that was
            # handed over already: uvloop then calls connection_lost no more.
            self._is_gone.set()
        if error is not None:
            was_refused = isinstance(error, ConnectionRefusedError)
            self._end(PeerLostError(f"no connection: {error}", was_refused=was_refused))

    # The transport's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what has waited for this."""
        self._transport = cast(asyncio.Transport, transport)
        if self.is_ended:
            self._transport.abort()
            return
        for call in self._calls:
            self._send(call)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for the kernel to write to."""
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand every answer that is complete now to its caller."""
        if self.is_ended:
            return
        receiver = self._receiver
        receiver.received(nbytes)
        try:
            while not self.is_ended and (frame := receiver.next_frame()) is not None:
                self._answered(frame)
            receiver.keep()
        except (FrameError, ParseError) as error:
            self._end(PeerLostError(f"its answer cannot be read: {error}"))

    def _answered(self, frame: memoryview) -> None:
        if not self._calls:
            raise ParseError("nothing was asked")
        call = self._calls[0]
        correlation_id, response = codec.decode_response(frame, call.key, call.version)
        if correlation_id != call.correlation_id:
            raise ParseError(f"correlation id {correlation_id} instead of {call.correlation_id}")
        self._calls.popleft()
        if call.deadline is not None:
            call.deadline.cancel()
        self._on_answer()
        if not call.reply.done():
            call.reply.set_result(response)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell everybody who still waits."""
        self._is_gone.set()
        self._end(PeerLostError(f"the connection was lost: {exc or 'closed by the peer'}"))

    # The end.

    def close(self) -> None:
        """End it from here: who still waits hears of it, `on_end` does not."""
        self._on_end = _ignore
        self._end(PeerLostError("closed here"))

    def _end(self, error: PeerLostError) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._receiver.clear()
        calls, self._calls = self._calls, deque()
        unsent = PeerLostError(str(error), was_refused=error.was_refused, was_sent=False)
        for call in calls:
            call.fail(self._failure(error if call.frame is None else unsent))
        on_end, self._on_end = self._on_end, _ignore
        on_end(error)

    async def wait_ended(self) -> None:
        """Return when nothing of it is left in the loop; call it after the end."""
        await self._is_gone.wait()


def _ignore(error: PeerLostError) -> None:
    """Nobody wants to hear of it."""
