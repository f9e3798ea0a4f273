"""What a swap has come to and whether a leader has expired, without a store, a clock or a network.

Rules 7 and 8 of the control plane (`docs/formats/arbiter.md`): a swap whose fate is not known is
judged by what is stored; expiry is judged by the observer's own clock. Not here: who may swap what
(`metadata.quorum.node`).
"""

from __future__ import annotations

from enum import Enum

from barnabas_broker.arbiter.arbiter import ArbiterRecord, Stored, SwapOutcome


class ForeignClusterError(Exception):
    """The store holds the record of another cluster."""


class Verdict(Enum):
    """What a tried swap has come to."""

    WON = "won"
    LOST = "lost"  # another's epoch or leader is stored: step down at once
    TRY_AGAIN = "try again"  # nothing is stored of what was tried


def judge(tried: ArbiterRecord, outcome: SwapOutcome, read_back: Stored) -> Verdict:
    """What a swap has come to, by its outcome and what was read afterwards (rule 7).

    A conflict or a lost reply does not mean that nothing was stored: an earlier try of the same
    record may have been.
    """
    if outcome is SwapOutcome.STORED:
        return Verdict.WON
    now = read_back.record
    if now == tried:
        return Verdict.WON
    if now is not None:
        if now.controller_epoch > tried.controller_epoch:
            return Verdict.LOST
        if now.controller_epoch == tried.controller_epoch and now.leader != tried.leader:
            return Verdict.LOST
    return Verdict.TRY_AGAIN


class Expiry:
    """Judges by the observer's own clock whether a leader has stopped renewing (rule 8).

    For liveness only: a leader that is thought gone wrongly still cannot commit anything that is
    lost, because a new leader's epoch is higher. An observer that has not looked for the whole time
    to live, because it was paused or the store was away, begins to count anew: the leader may have
    been unable to renew for the same reason. It does so once, lest one that always looks that
    seldom never finds a leader gone.
    """

    __slots__ = ("_has_begun_anew", "_looked_ms", "_seen", "_since_ms", "_time_to_live_ms")

    def __init__(self, time_to_live_ms: int) -> None:
        self._time_to_live_ms = time_to_live_ms
        self._seen: Stored | None = None
        self._since_ms = 0
        self._looked_ms = 0
        self._has_begun_anew = False

    def observe(self, stored: Stored, now_ms: int) -> bool:
        """Take note of what was read at a monotonic time; returns whether nobody leads.

        That is so when there is no leader, or when nothing has changed for the time to live.
        """
        looked_ms = now_ms if self._seen is None else self._looked_ms
        was_blind = now_ms - looked_ms >= self._time_to_live_ms
        if stored != self._seen or (was_blind and not self._has_begun_anew):
            self._since_ms = now_ms
        self._has_begun_anew = was_blind
        self._seen, self._looked_ms = stored, now_ms
        if stored.record is None or stored.record.leader is None:
            return True
        return now_ms - self._since_ms >= self._time_to_live_ms
