"""The state of one assigned partition: its position, and what its leader last returned.

Not here: which partitions those are (`subscription_state.py`), what is buffered (`fetcher.py`).

Source: KIP-320 for epochs and validation, KIP-392 for the read replica. The phases:

    UNKNOWN     assigned, without a position               -> READY (committed), RESET
    RESET       an offset is being looked up by time       -> READY
    VALIDATING  the leader changed: do the logs agree?     -> READY, RESET
    READY       records are fetched and returned           -> VALIDATING, RESET

A topic that is made anew leads back to UNKNOWN: offsets in the log that was say nothing. A seek
leads from everywhere to READY or RESET.

Invariants: `offset` is that of the next record to return, -1 while UNKNOWN or RESET; `leader_epoch`
is that of the record before it, -1 where not known; records are returned only in READY.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from barnabas_client.cluster.offset_ranges import lag_behind
from barnabas_protocol.ids import ZERO_UUID

EARLIEST: Final = -2
LATEST: Final = -1


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it (-1: not known)."""

    offset: int
    leader_epoch: int = -1


class PositionPhase(Enum):
    """How far a partition is on the way to being read."""

    UNKNOWN = "unknown"
    RESET = "reset"
    VALIDATING = "validating"
    READY = "ready"


class PartitionState:
    """One assigned partition; its owner is `SubscriptionState`."""

    __slots__ = (
        "current_leader_epoch",
        "high_watermark",
        "is_paused",
        "is_pending_revocation",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "offset",
        "phase",
        "preferred_replica_id",
        "preferred_replica_until_ms",
        "reset_timestamp_ms",
        "retry_at_ms",
        "stop_offset",
        "topic_id",
    )

    def __init__(self) -> None:
        self.phase = PositionPhase.UNKNOWN
        self.offset = -1
        self.leader_epoch = -1
        # The leader's epoch when the position was last validated; -1: never.
        self.current_leader_epoch = -1
        # In RESET: EARLIEST, LATEST, a time, or None for the reset policy.
        self.reset_timestamp_ms: int | None = None
        # Look-ups of this partition that failed are not repeated before.
        self.retry_at_ms = 0
        self.is_paused = False
        self.is_pending_revocation = False
        # Nothing is fetched at or behind it; None without such an end.
        self.stop_offset: int | None = None
        # The topic in which the position was fetched from; zero while that is not known.
        self.topic_id = ZERO_UUID
        # From the newest fetch response; -1 before the first one.
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica_id = -1
        self.preferred_replica_until_ms = 0

    @property
    def position(self) -> Position | None:
        """The position; None while it is not known."""
        if self.offset < 0:
            return None
        return Position(self.offset, self.leader_epoch)

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be fetched and returned."""
        return (
            self.phase is PositionPhase.READY
            and not self.is_paused
            and not self.is_pending_revocation
        )

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        """Set the position; with a leader epoch it is validated before the next fetch."""
        self.phase = PositionPhase.READY
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.current_leader_epoch = -1
        self.reset_timestamp_ms = None
        self.retry_at_ms = 0
        self.preferred_replica_id = -1
        self.topic_id = ZERO_UUID

    def forget_position(self) -> None:
        """Drop the position, which was one in another log, as if just assigned."""
        self.request_reset()
        self.phase = PositionPhase.UNKNOWN
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    def request_reset(self, timestamp_ms: int | None = None) -> None:
        """Drop the position and look up another one (None: by the reset policy)."""
        self.phase = PositionPhase.RESET
        self.offset = -1
        self.leader_epoch = -1
        self.current_leader_epoch = -1
        self.reset_timestamp_ms = timestamp_ms
        self.retry_at_ms = 0
        self.preferred_replica_id = -1
        self.topic_id = ZERO_UUID

    def see_leader_epoch(self, leader_epoch: int) -> bool:
        """Note the leader epoch of the metadata; return whether validation is due now.

        Only a position with a leader epoch can be validated.
        """
        if self.phase is not PositionPhase.READY or leader_epoch == self.current_leader_epoch:
            return False
        if leader_epoch < 0 or self.leader_epoch < 0:
            self.current_leader_epoch = leader_epoch
            return False
        self.phase = PositionPhase.VALIDATING
        self.current_leader_epoch = leader_epoch
        self.preferred_replica_id = -1
        return True

    def complete_validation(self, validated: Position) -> bool:
        """Fetch again if the position is still the one that was validated."""
        if self.phase is not PositionPhase.VALIDATING or self.position != validated:
            return False
        self.phase = PositionPhase.READY
        self.retry_at_ms = 0
        return True

    def advance(self, offset: int, leader_epoch: int) -> None:
        """All records below `offset` were returned, unless the log is another one by now."""
        if self.phase is PositionPhase.UNKNOWN:
            return
        self.offset = offset
        self.leader_epoch = leader_epoch

    def read_replica(self, now_ms: int) -> int:
        """The preferred read replica that the leader has named; -1 if none or no longer."""
        if self.preferred_replica_id >= 0 and now_ms >= self.preferred_replica_until_ms:
            self.preferred_replica_id = -1
        return self.preferred_replica_id

    def lag(self, *, read_committed: bool) -> int | None:
        """How many offsets are left to read, by the newest fetch response; None: unknown."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        if end < 0 or self.offset < 0:
            return None
        return lag_behind(end, self.offset)
