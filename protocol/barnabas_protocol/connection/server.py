"""The server's side of a connection: requests in as frames, responses out in the same order.

A response that is ready before an earlier one waits for it; those at the front are lined up for the
next write. Pure: no transport, no clock. Whoever takes the requests decides how many may be in
flight and how much may wait; the numbers to decide by are here.

    receiver.buffer, receiver.received         bytes in
    receiver.next_frame, begin                 a request out, in flight from now on
    respond                                    its response in, in any order
    data_to_send                               bytes out

Invariant: what `data_to_send` gives, over time, is each response once, in the order in which the
requests were begun, each behind its size.
"""

import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from barnabas_protocol.connection.framing import FrameReceiver
from barnabas_protocol.primitives import Buffer

_SIZE: Final = struct.Struct(">i").pack
RESPONSE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""No response of a broker is meant to be larger; beyond twice this its size would be negative."""
JOIN_BYTES_MAX: Final = 16 * 1024
"""Parts up to this are joined: one copy is cheaper than one more entry of a writev."""


class PendingRequest(Protocol):
    """A request in flight; `parts` is for a response that waits for earlier ones."""

    is_done: bool
    parts: Sequence[Buffer] | None


RequestT = TypeVar("RequestT", bound=PendingRequest)


class ServerConnection(Generic[RequestT]):
    """Requests in flight and responses that are ready."""

    __slots__ = (
        "_out",
        "begin",
        "finished",
        "is_broken",
        "out_bytes",
        "parked_bytes",
        "pending",
        "receiver",
    )

    def __init__(self, receiver: FrameReceiver) -> None:
        self.receiver = receiver
        self.pending: deque[RequestT] = deque()  # in order; the front one has no response yet
        self.begin = self.pending.append
        """Take a request that was cut out of the stream: it gets the next place in the order."""
        self.finished: list[RequestT] = []  # their responses were lined up; for the metrics
        self._out: list[Buffer] = []
        self.out_bytes = 0  # lined up
        self.parked_bytes = 0  # of responses that wait for earlier ones
        self.is_broken = False  # a response was too large to be sent: nothing behind it is

    def respond(self, request: RequestT, parts: Sequence[Buffer] | None) -> None:
        """Take the response to a request in flight, without its size; None is one of acks=0."""
        pending = self.pending
        if pending[0] is not request:
            request.parts = parts
            self.parked_bytes += _size_of(parts)
            return
        pending.popleft()
        self._line_up(request, parts)
        while pending and pending[0].is_done:
            earlier = pending.popleft()
            self.parked_bytes -= _size_of(earlier.parts)
            self._line_up(earlier, earlier.parts)
            earlier.parts = None

    def _line_up(self, request: RequestT, parts: Sequence[Buffer] | None) -> None:
        self.finished.append(request)
        if parts is None:
            return
        size = _size_of(parts)
        if size > RESPONSE_BYTES_MAX or self.is_broken:
            self.is_broken = True
            return
        self._out.append(_SIZE(size))
        self._out += parts
        self.out_bytes += size + 4

    def data_to_send(self) -> Sequence[Buffer]:
        """What is lined up, as few buffers; large parts are as they were given, not copied."""
        out, self._out = self._out, []
        size, self.out_bytes = self.out_bytes, 0
        return (b"".join(out),) if size <= JOIN_BYTES_MAX else _joined(out)

    def clear(self) -> None:
        """Forget everything, received and to be sent."""
        for request in self.pending:
            request.parts = None
        self.pending.clear()
        self.finished.clear()
        self._out.clear()
        self.out_bytes = self.parked_bytes = 0
        self.receiver.clear()


def _size_of(parts: Sequence[Buffer] | None) -> int:
    if parts is None:
        return 0
    return len(parts[0]) if len(parts) == 1 else sum(map(len, parts))


def _joined(parts: list[Buffer]) -> list[Buffer]:
    """The same bytes with neighbouring small parts joined."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) <= JOIN_BYTES_MAX:
            small.append(part)
            continue
        if small:
            joined.append(b"".join(small))
            small.clear()
        joined.append(part)
    if small:
        joined.append(b"".join(small))
    return joined
