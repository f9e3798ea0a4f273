"""When a member of a group sends heartbeats, and when its program has stopped polling.

Pure: times are arguments, in milliseconds of a clock that never goes back.

Source: CON-10, CG-3; KIP-62 (heartbeats in the background, beside the program's polls).
"""

from __future__ import annotations


class HeartbeatTimers:
    """The heartbeat timer and the poll timer of one member."""

    __slots__ = (
        "_max_poll_interval_ms",
        "_next_heartbeat_ms",
        "_sent_at_ms",
        "failure_count",
        "last_poll_ms",
    )

    def __init__(self, *, max_poll_interval_ms: int, now_ms: int) -> None:
        self._max_poll_interval_ms = max_poll_interval_ms
        self._next_heartbeat_ms = now_ms
        self._sent_at_ms = now_ms
        #: How many heartbeats in a row got no usable response.
        self.failure_count = 0
        #: Set when the program polls.
        self.last_poll_ms = now_ms

    def restart(self, now_ms: int, interval_ms: int) -> None:
        """The coordinator has just received another request of the member."""
        self._next_heartbeat_ms = now_ms + interval_ms

    def on_sent(self, now_ms: int, interval_ms: int) -> None:
        """A heartbeat was sent."""
        self._sent_at_ms = now_ms
        self._next_heartbeat_ms = now_ms + interval_ms

    def on_success(self, interval_ms: int) -> None:
        """The coordinator took the heartbeat, and may have changed the interval."""
        self.failure_count = 0
        self._next_heartbeat_ms = self._sent_at_ms + interval_ms

    def on_failure(self, now_ms: int, backoff_ms: int, interval_ms: int) -> None:
        """Try again after the backoff, but not later than an interval from now."""
        self.failure_count += 1
        self._next_heartbeat_ms = now_ms + min(backoff_ms, interval_ms)

    def expedite(self) -> None:
        """Send the next heartbeat at once, unless the last one failed: then after its backoff."""
        if self.failure_count == 0:
            self._next_heartbeat_ms = 0

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """Whether a heartbeat is to be sent."""
        return now_ms >= self._next_heartbeat_ms

    def is_poll_overdue(self, now_ms: int) -> bool:
        """Whether the program has not polled for max_poll_interval_ms."""
        return now_ms - self.last_poll_ms > self._max_poll_interval_ms

    def wait_ms(self, now_ms: int, *, is_member: bool) -> int:
        """How long nothing is due, at least 1; only a member's program must poll in time."""
        until_ms = self._next_heartbeat_ms
        if is_member:
            until_ms = min(until_ms, self.last_poll_ms + self._max_poll_interval_ms + 1)
        return max(1, until_ms - now_ms)
