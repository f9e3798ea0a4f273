"""Requests and responses between the nodes of the metadata log, as frozen values.

Not here: how they are put on the wire. Every one carries the controller epoch (rule 5). A response
to a fetch repeats what was requested, so that one that comes late, twice or out of order is known.
`docs/decisions/0005-metadata-log-by-pull.md` tells what they mean for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.voters import Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseRequest:
    """The winner of an epoch asks that no lower one be obeyed, and where the log ends."""

    controller_epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseResponse:
    """The promise, if both epochs are equal; else it is refused, for a higher one was promised."""

    controller_epoch: int  # as requested
    promised_epoch: int
    voter: Voter
    end: LogEnd  # of the log, all of which is flushed; of no meaning in a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFetchRequest:
    """Records are wanted from an offset on: all below it is on the asker's disk."""

    controller_epoch: int
    voter: Voter
    end: LogEnd  # of the asker's log: the offset, and the last fetched epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsResponse:
    """Records follow, from the requested offset to `end_offset`; none if the two are equal."""

    controller_epoch: int
    source: Voter
    requested: LogEnd
    end_offset: int
    high_watermark: int  # may be above `end_offset`

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing new."""
        return self.end_offset == self.requested.end_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceResponse:
    """The logs part: who fetches has to truncate to the end of this epoch, and to fetch again."""

    controller_epoch: int
    source: Voter
    requested: LogEnd
    diverging: LogEnd  # the largest epoch here that is not above the requested one, and its end


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResponse:
    """The records are only in the snapshot that ends here."""

    controller_epoch: int
    source: Voter
    requested: LogEnd
    snapshot: LogEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRefused:
    """Not the leader of the requested epoch; says what is known of the newest epoch."""

    controller_epoch: int
    source: Voter
    leader_id: int | None


QuorumFetchResponse = RecordsResponse | DivergenceResponse | SnapshotResponse
Message = PromiseRequest | PromiseResponse | QuorumFetchRequest | QuorumFetchResponse | FetchRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterView:
    """The arbiter's record as it was read, with its token.

    Tokens rise as long as the record exists. Without a record: epoch 0 and no members.
    """

    token: int
    controller_epoch: int
    leader_id: int | None
    members: frozenset[Voter]
    # What was committed and on the disk of a member when the record was stored, or before.
    ends: tuple[tuple[Voter, LogEnd], ...] = ()

    @property
    def age(self) -> tuple[int, int]:
        """Greater in what was stored later."""
        return self.controller_epoch, self.token


UNKNOWN_RECORD: Final = ArbiterView(
    token=-1, controller_epoch=0, leader_id=None, members=frozenset()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the arbiter's record is to become; address and time are filled in by who sends it."""

    controller_epoch: int
    leader_id: int | None
    members: frozenset[Voter]
