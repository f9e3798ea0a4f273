"""When a member of a classic group sends heartbeats, and when it must take itself for stuck.

Pure: times are arguments, in milliseconds of a clock that never goes back.

Source: CON-10 of behaviour.md; KIP-62 (heartbeats beside the program's polls).
"""

from __future__ import annotations


class HeartbeatTimers:
    """The clocks of one membership."""

    __slots__ = (
        "_heartbeat_interval_ms",
        "_max_poll_interval_ms",
        "_next_heartbeat_ms",
        "last_poll_ms",
    )

    def __init__(
        self,
        *,
        heartbeat_interval_ms: int,
        max_poll_interval_ms: int,
        now_ms: int,
    ) -> None:
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        # Written by whoever notices that the program polls; read only.
        self.last_poll_ms = now_ms
        self._next_heartbeat_ms = now_ms

    def restart(self, now_ms: int) -> None:
        """A generation begins: the coordinator has just heard of the member."""
        self._next_heartbeat_ms = now_ms + self._heartbeat_interval_ms

    def sent(self, now_ms: int) -> None:
        """A heartbeat went out."""
        self._next_heartbeat_ms = now_ms + self._heartbeat_interval_ms

    def failed(self, now_ms: int, backoff_ms: int) -> None:
        """No answer: try again soon."""
        self._next_heartbeat_ms = now_ms + min(backoff_ms, self._heartbeat_interval_ms)

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """Whether a heartbeat is to be sent."""
        return now_ms >= self._next_heartbeat_ms

    def is_poll_overdue(self, now_ms: int) -> bool:
        """Whether the program has not polled for max_poll_interval_ms."""
        return now_ms - self.last_poll_ms > self._max_poll_interval_ms

    def wait_ms(self, now_ms: int) -> int:
        """How long nothing is due, at least 1."""
        poll_until_ms = self.last_poll_ms + self._max_poll_interval_ms + 1
        return max(1, min(self._next_heartbeat_ms, poll_until_ms) - now_ms)
