"""The newest batches of all logs, as they were appended: readers at the tail touch no file.

One `TailCache` bounds the memory of all logs; each log has a `Tail` in it. The buffers are those
the requests were received in: nothing is copied. What is oldest over all logs goes first.

Not here: reading from files (`log_reader.py`). Source: architecture.md, section 4. Invariants: a
tail holds the end of its log without a hole, or nothing (a follower's: hardly anybody reads there);
its buffers are whole batches, one each, in order.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable

from barnabas_broker.env.disk import Buffer

TAIL_CACHE_BYTES = 64 * 1024 * 1024
# What an entry costs beside its bytes: buffer and view objects, list places, two integers.
ENTRY_OVERHEAD_BYTES = 400
# Emptied places at the front of a tail's lists are cut off when there are this many.
_COMPACT_COUNT = 512


class LogRead:
    """Whole batches from a log, in order; only the last may be cut."""

    __slots__ = ("buffers", "size_bytes")

    def __init__(self, buffers: list[Buffer], size_bytes: int) -> None:
        self.buffers = buffers
        self.size_bytes = size_bytes


class TailCache:
    """The bound over all tails. `size_bytes` includes an overhead for each batch."""

    __slots__ = (
        "_order",
        "_released_count",
        "appended_bytes",
        "limit_bytes",
        "look_at_bytes",
        "on_look",
        "size_bytes",
    )

    def __init__(self, limit_bytes: int = TAIL_CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self.appended_bytes = 0  # to all logs since the start; only ever rises
        # Called when `appended_bytes` has reached `look_at_bytes`, which the callee raises.
        self.look_at_bytes = sys.maxsize
        self.on_look: Callable[[], None] = lambda: None
        # Which tail each batch is in, oldest first; batches of cleared tails keep their place.
        self._order: deque[Tail] = deque()
        self._released_count = 0

    @property
    def entry_count(self) -> int:
        """Places in the order of eviction, those of batches that were let go of included."""
        return len(self._order)

    def tail(self) -> Tail:
        """A new, empty tail for one log."""
        return Tail(self)

    def add(self, tail: Tail, size: int) -> None:
        """Count a batch that `tail` took, and let go of the oldest ones over the limit."""
        self._order.append(tail)
        self.count(size)
        self.size_bytes += size + ENTRY_OVERHEAD_BYTES
        while self.size_bytes > self.limit_bytes and self._order:
            oldest = self._order.popleft()
            if oldest.take_released():
                self._released_count -= 1
            else:
                self.size_bytes -= oldest.release_oldest() + ENTRY_OVERHEAD_BYTES

    def count(self, size: int) -> None:
        """Count bytes that were appended to a log."""
        self.appended_bytes += size
        if self.appended_bytes >= self.look_at_bytes:
            self.on_look()

    def forget(self, size: int, count: int) -> None:
        """Stop counting `count` batches of `size` bytes, whose tail was cleared."""
        self.size_bytes -= size + count * ENTRY_OVERHEAD_BYTES
        self._released_count += count
        if self._released_count > _COMPACT_COUNT + len(self._order) // 2:
            self._order = deque(tail for tail in self._order if not tail.take_released())
            self._released_count = 0


class Tail:
    """The newest batches of one log, from `start_offset` to the log end offset."""

    __slots__ = ("_bounds", "_buffers", "_cache", "_first", "_lasts", "_released", "start_offset")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self.start_offset = 0
        self._buffers: list[Buffer] = []
        self._lasts: list[int] = []  # the last offset of each batch
        # Where each batch begins in the stream of appended bytes, and at the end where that ends.
        self._bounds: list[int] = [0]
        self._first = 0
        # Batches that went by `clear`, but still have their place in the cache's order.
        self._released = 0

    def append(self, buffer: Buffer, size: int, base_offset: int, last_offset: int) -> None:
        """Add the batch that was just appended to the log."""
        if self._first == len(self._lasts):
            self.start_offset = base_offset
        self._buffers.append(buffer)
        self._lasts.append(last_offset)
        self._bounds.append(self._bounds[-1] + size)
        self._cache.add(self, size)

    def skip(self, size: int) -> None:
        """Count a batch that was appended to the log, but is not kept; the tail is empty."""
        self._cache.count(size)

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool
    ) -> LogRead | None:
        """The batches from the one that holds `offset` on; None if they are not all here.

        Whole batches only: at most `max_bytes`, but the first in any case if `at_least_one`, and
        none that reaches up to `limit_offset`.
        """
        lasts, first = self._lasts, self._first
        count = len(lasts)
        if offset < self.start_offset or first == count:
            return None
        begin = bisect_left(lasts, offset, first)
        end = count if limit_offset > lasts[-1] else bisect_left(lasts, limit_offset, first)
        if begin >= end:
            return LogRead([], 0)
        bounds = self._bounds
        start = bounds[begin]
        if bounds[end] - start > max_bytes:
            end = bisect_right(bounds, start + max_bytes, begin + 1, end) - 1
            if end == begin:
                if not at_least_one:
                    return LogRead([], 0)
                end += 1
        return LogRead(self._buffers[begin:end], bounds[end] - start)

    def size_between(self, offset: int, limit_offset: int) -> int | None:
        """How many bytes `read` without a maximum would give; None if they are not all here."""
        lasts, first = self._lasts, self._first
        if offset < self.start_offset or first == len(lasts):
            return None
        begin = bisect_left(lasts, offset, first)
        end = bisect_left(lasts, limit_offset, begin)
        return self._bounds[end] - self._bounds[begin]

    def clear(self) -> None:
        """Let go of everything: the log was cut, closed or failed."""
        count = len(self._lasts) - self._first
        if count:
            self._released += count
            size = self._bounds[-1] - self._bounds[self._first]
            self._buffers, self._lasts, self._bounds, self._first = [], [], [0], 0
            self._cache.forget(size, count)

    def release_oldest(self) -> int:
        """Let go of the oldest batch; returns its bytes. For the cache."""
        first = self._first
        size = self._bounds[first + 1] - self._bounds[first]
        self.start_offset = self._lasts[first] + 1
        self._buffers[first] = b""
        self._first = first = first + 1
        if first >= _COMPACT_COUNT and first * 2 >= len(self._lasts):
            del self._buffers[:first], self._lasts[:first], self._bounds[:first]
            self._first = 0
        return size

    def take_released(self) -> bool:
        """Whether the oldest place in the cache's order was of a cleared batch. For the cache."""
        if not self._released:
            return False
        self._released -= 1
        return True
