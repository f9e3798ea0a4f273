"""Where a follower cuts its log so that it becomes the beginning of its leader's.

Pure: the state of a log and a response in, an offset out. Source: KIP-101 (truncate by leader
epoch, never by a high watermark that may be stale), KIP-279 (fast leader changes: go back epoch by
epoch), REP-12 to REP-16. Invariant: an offset that is not below the log end means that the response
leads no further; the caller must then wait, or it would send the same request for ever.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas_broker.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs


class LogEnds(NamedTuple):
    """What decides about truncation in one's own log."""

    log_end_offset: int
    high_watermark: int


def diverging_offset(
    epochs: LeaderEpochs, own: LogEnds, leader_epoch: int, leader_end_offset: int
) -> int:
    """Where to cut when the leader's log has `leader_epoch` end at `leader_end_offset`.

    The leader names the largest epoch it has that is not above our last one. Where we do not have
    that epoch either, we go back to the end of our next lower one, and the next response leads on
    (REP-16).
    """
    if leader_end_offset == UNDEFINED_OFFSET:
        return min(own.high_watermark, own.log_end_offset)
    if leader_epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, own.log_end_offset)
    epoch, end_offset = epochs.end_offset_for(leader_epoch, own.log_end_offset)
    if epoch == UNDEFINED_EPOCH or end_offset == UNDEFINED_OFFSET:
        return min(leader_end_offset, own.log_end_offset)
    if epoch == leader_epoch:
        return min(end_offset, leader_end_offset, own.log_end_offset)
    return min(end_offset, own.log_end_offset)


class OutOfRange(Enum):
    """What a follower does whose offset its leader does not have (REP-12)."""

    TRUNCATE = "truncate to the leader's end"
    START_ANEW = "drop everything and start where the leader's log starts"
    GO_ON = "fetch again"


def out_of_range(own_end_offset: int, start_offset: int, end_offset: int) -> OutOfRange:
    """What to do, by where the leader's log starts and ends now."""
    if end_offset < own_end_offset:
        return OutOfRange.TRUNCATE
    if start_offset > own_end_offset:
        return OutOfRange.START_ANEW
    return OutOfRange.GO_ON
