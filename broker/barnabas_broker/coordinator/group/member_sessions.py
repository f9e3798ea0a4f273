"""Sessions of the members of newer groups: who has been silent for too long is removed.

Not here: what a removal is (`fence`), how long a session lasts. Source: CG-5, SHR-28. Sessions are
never cancelled: one that ends looks at who is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.runtime.shard import Instant, Result, TimerAction, no_change
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_protocol.errors import KafkaError

# When the log has refused to take that a member is gone.
FENCE_RETRY_MS = 5_000

# Takes a member out of its group; None if it is not there any more.
Fence = Callable[[str, str, Instant], Result[None] | None]


class MemberSessions:
    """The sessions of all members of one kind of groups of a shard."""

    def __init__(
        self, kind: str, timers: ShardTimers[TimerAction], metrics: GroupMetrics, fence: Fence
    ) -> None:
        """Make one; `kind` tells its timers from those of others."""
        self._kind = kind
        self._timers = timers
        self._metrics = metrics
        self._fence = fence

    def touch(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Count a request of the member as a sign of life."""
        key = self._key(group_id, member_id)
        if key in self._timers:
            self._timers.postpone(key, now.monotonic_ms + timeout_ms)
        else:
            self.start(group_id, member_id, timeout_ms, now)

    def ensure(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Begin a session if none runs: the last one ended while its member seemed to be gone."""
        if self._key(group_id, member_id) not in self._timers:
            self.start(group_id, member_id, timeout_ms, now)

    def start(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Begin the session anew."""

        def fire(fired: Instant) -> Result[None]:
            return self.expire(group_id, member_id, fired)

        key = self._key(group_id, member_id)
        self._timers.schedule(key, now.monotonic_ms + timeout_ms, fire)

    def expire(self, group_id: str, member_id: str, now: Instant) -> Result[None]:
        """Remove a member whose time is over; tried again later if the log refuses it."""
        result = self._fence(group_id, member_id, now)
        if result is None:
            return no_change()
        self._metrics.expired_member_count += 1
        carry_on = result.on_append

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            if error is not None:
                self._metrics.append_failure_count += 1
                self.start(group_id, member_id, FENCE_RETRY_MS, then)
            return no_change() if carry_on is None else carry_on(error, then)

        result.on_append = on_append
        return result

    def _key(self, group_id: str, member_id: str) -> Hashable:
        return (self._kind, "session", group_id, member_id)
