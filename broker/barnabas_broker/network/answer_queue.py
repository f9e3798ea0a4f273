"""The answers of one connection, put into the order of its requests.

An answer that is ready before an earlier one waits for it; those at the front are lined up for the
next write. Pure: no transport, no clock.

Invariant: what `take` gives, over time, is each answer once, in the order in which the exchanges
were added, each behind its size.
"""

import struct
from collections import deque
from collections.abc import Sequence

from barnabas_broker.env.disk import Buffer
from barnabas_broker.network.exchange import Exchange

_SIZE = struct.Struct(">i").pack
ANSWER_BYTES_MAX = 1024 * 1024 * 1024
"""No answer of a broker is meant to be larger, and beyond twice this its size would be negative."""
JOIN_BYTES_MAX = 16 * 1024
"""Parts up to this are joined: one copy is cheaper than one more entry of a writev."""


class AnswerQueue:
    """Exchanges in flight and answers that are ready."""

    __slots__ = ("_out", "finished", "is_broken", "out_bytes", "parked_bytes", "pending")

    def __init__(self) -> None:
        self.pending: deque[Exchange] = deque()  # in order; the front one has no answer yet
        self.finished: list[Exchange] = []  # their answers were lined up; for the metrics
        self._out: list[Buffer] = []
        self.out_bytes = 0  # lined up
        self.parked_bytes = 0  # of answers that wait for earlier ones
        self.is_broken = False  # an answer was too large to be sent: nothing behind it is

    def answer(self, exchange: Exchange, parts: Sequence[Buffer] | None) -> None:
        """Take the answer of a pending exchange; None is one of acks=0."""
        pending = self.pending
        if pending[0] is not exchange:
            exchange.parts = parts
            self.parked_bytes += _size_of(parts)
            return
        pending.popleft()
        self._line_up(exchange, parts)
        while pending and pending[0].is_done:
            earlier = pending.popleft()
            self.parked_bytes -= _size_of(earlier.parts)
            self._line_up(earlier, earlier.parts)
            earlier.parts = None

    def _line_up(self, exchange: Exchange, parts: Sequence[Buffer] | None) -> None:
        self.finished.append(exchange)
        if parts is None:
            return
        size = _size_of(parts)
        if size > ANSWER_BYTES_MAX or self.is_broken:
            self.is_broken = True
            return
        self._out.append(_SIZE(size))
        self._out += parts
        self.out_bytes += size + 4

    def take(self) -> Sequence[Buffer]:
        """What is lined up, as few buffers; large parts are as they were given, not copied."""
        out, self._out = self._out, []
        size, self.out_bytes = self.out_bytes, 0
        return (b"".join(out),) if size <= JOIN_BYTES_MAX else _joined(out)

    def clear(self) -> None:
        """Forget everything."""
        for exchange in self.pending:
            exchange.parts = None
        self.pending.clear()
        self.finished.clear()
        self._out.clear()
        self.out_bytes = self.parked_bytes = 0


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
