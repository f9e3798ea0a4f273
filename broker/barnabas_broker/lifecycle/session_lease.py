"""How long a broker may take for granted that the controller has not given its places to others.

A controller fences a broker, and has others lead its partitions, when it has heard nothing of it
for `broker.session.timeout.ms`. So what a leader does within that time after the sending of a
heartbeat that was answered, no successor can know of yet. Where the controller is in this very
process, it counts from when a majority was last heard (`broker_lifecycle_manager`). Appends need
no lease: they are bound to the ISR and to epochs. What a leader gives out of its memory alone
needs one.

Not here: leaders that are replaced while their sessions last (elections, reassignments), which
learn of it with the metadata; the refusal of connections (decision 0008), which no live broker
meets. Pure; times are monotonic milliseconds.

Source: Gray and Cheriton, "Leases" (1989). The controller's clock may be the faster one.
"""

from __future__ import annotations

from typing import Final

SESSION_SHARE: Final = 0.9
"""Of a session: two clocks that are 5 % off agree on the rest."""


class SessionLease:
    """The lease that lasts with a broker's session, and how often it was lost."""

    __slots__ = ("_duration_ms", "_end_ms", "_number")

    def __init__(self, session_timeout_ms: int) -> None:
        self._duration_ms = int(session_timeout_ms * SESSION_SHARE)
        self._end_ms: int | None = None
        self._number = 0

    def number(self, now_ms: int) -> int | None:
        """Return the number of the lease that is held, which is another after each loss, or None.

        Whoever had the same number before, and has it now, held it all the time between.
        """
        return self._number if self._end_ms is not None and now_ms < self._end_ms else None

    def renew(self, sent_ms: int, now_ms: int) -> None:
        """A heartbeat of a broker that is not fenced, sent at that time, was answered."""
        if self.number(now_ms) is None:
            self._number += 1
        self._end_ms = sent_ms + self._duration_ms

    def lose(self) -> None:
        """The controller has fenced this broker, or does not know it."""
        self._end_ms = None
