"""The memory that requests may hold together: what arrived, until its response is ready.

Counts bytes as they arrive, not as a size prefix claims them. Over the limit connections stop
reading and wait here; nothing is dropped. It allocates nothing itself.

Invariant: there is always somebody who may go on. If everything that is counted belongs to frames
that have only partly arrived, no response will ever free it; then one connection at a time may
exceed the limit until its frame is complete (and a slow timer passes that right on). Besides, each
connection has a small share that it may use whatever the others hold: who sends little is not kept
out by who sends much and does not end.

Source: Kafka's queued.max.request.bytes (KIP-72), which reserves by the claimed size instead.
"""

import sys
from collections import deque
from typing import Protocol

SHARE_BYTES_MIN = 64 * 1024
UNSENT_BYTES_MAX = 512 * 1024 * 1024
"""Responses made and not read, of all connections: beyond, fetches get a batch at a time."""


class Waiting(Protocol):
    """Somebody who stopped reading: a session."""

    def memory_available(self) -> None:
        """Go on; there may be memory."""
        ...


class RequestMemory:
    """Bytes in use by the requests of all connections of a broker."""

    __slots__ = (
        "favoured",
        "limit_bytes",
        "request_count",
        "share_bytes",
        "unsent_bytes",
        "unsent_bytes_max",
        "used_bytes",
        "wait_count",
        "waiting",
    )

    def __init__(self, limit_bytes: int = -1) -> None:
        """Make one; -1 is Kafka's "no limit"."""
        self.limit_bytes = limit_bytes if limit_bytes > 0 else sys.maxsize
        self.used_bytes = 0
        self.share_bytes = 0
        self.divide(1)
        self.unsent_bytes = 0  # of large responses, in the buffers of transports
        self.unsent_bytes_max = UNSENT_BYTES_MAX
        self.request_count = 0  # complete requests without a response: they will free memory
        self.favoured: Waiting | None = None  # who may go on although the limit is reached
        self.wait_count = 0
        self.waiting: deque[Waiting] = deque()  # those that have stopped reading

    def divide(self, connection_count: int) -> None:
        """Give each of so many connections its share of a quarter of the limit."""
        least = min(SHARE_BYTES_MIN, self.limit_bytes // 1024)
        self.share_bytes = max(least, self.limit_bytes // 4 // max(connection_count, 1))

    @property
    def response_bytes_max(self) -> int:
        """How large one more response may be: little, while many are not read."""
        left = self.unsent_bytes_max - self.unsent_bytes
        return max(left, SHARE_BYTES_MIN)

    def wait(self, waiting: Waiting) -> None:
        """Have `memory_available` called when there is some."""
        self.wait_count += 1
        self.waiting.append(waiting)
        self._favour_one()

    def forget(self, waiting: Waiting) -> None:
        """Take out somebody who is gone or has completed the frame it was favoured for."""
        if waiting is self.favoured:
            self.favoured = None
        if waiting in self.waiting:
            self.waiting.remove(waiting)
        if self.waiting:
            self.wake()

    def wake(self) -> None:
        """Let those go on for whom there is memory; call it after bytes were given back."""
        if self.used_bytes > self.limit_bytes:
            self._favour_one()
            return
        # Each may find the limit reached again and come back, but not in this round.
        for _ in range(len(self.waiting)):
            self.waiting.popleft().memory_available()
            if self.used_bytes > self.limit_bytes:
                return

    def rotate(self) -> None:
        """Pass the right to exceed the limit on; called by a slow timer."""
        if self.waiting:
            self.favoured = None
            self.wake()

    def _favour_one(self) -> None:
        if self.favoured is None and not self.request_count and self.waiting:
            self.favoured = self.waiting.popleft()
            self.favoured.memory_available()
