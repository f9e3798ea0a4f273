"""What the leader of the metadata log can tell of it: who has it, and how far each is.

Pure. As Apache Kafka's DescribeQuorum (KIP-595, KIP-836) counts it: a voter is a member, a copy is
caught up when a fetch of it was at the end that the log had at its fetch before. Times are of the
wall clock, since users read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas_broker.metadata.quorum.node import QuorumNode
from barnabas_broker.metadata.quorum.observations import Observations
from barnabas_broker.metadata.quorum.voters import Voter

UNKNOWN: Final = -1
# As in Kafka: who has not fetched for this long is no observer any more.
OBSERVER_SILENT_MS_MAX: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDescription:
    """One copy of the metadata log; what is not known is -1."""

    voter: Voter
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata log as its leader sees it."""

    leader_id: int
    controller_epoch: int
    high_watermark: int
    members: tuple[CopyDescription, ...]
    observers: tuple[CopyDescription, ...]


def describe(
    node: QuorumNode, observations: Observations, *, now_ms: int, wall_ms: int
) -> QuorumDescription:
    """Describe the log of a node that leads it; `now_ms` is of the monotonic clock."""
    members = node.record.members
    fetched_ms = observations.fetched_ms
    observers = {
        voter
        for voter, fetch_ms in fetched_ms.items()
        if voter not in members and now_ms - fetch_ms < OBSERVER_SILENT_MS_MAX
    }

    def copy_of(voter: Voter) -> CopyDescription:
        if voter == node.voter:
            end_offset = node.copy.log.log_end_offset
            return CopyDescription(
                voter=voter,
                log_end_offset=end_offset,
                last_fetch_ms=wall_ms,
                last_caught_up_ms=wall_ms,
            )
        assert node.leadership is not None
        fetch_ms = fetched_ms.get(voter)
        caught_up_ms = observations.caught_up_ms.get(voter)
        return CopyDescription(
            voter=voter,
            log_end_offset=(
                UNKNOWN if fetch_ms is None else node.leadership.flushed_end_offset(voter)
            ),
            last_fetch_ms=UNKNOWN if fetch_ms is None else wall_ms - (now_ms - fetch_ms),
            last_caught_up_ms=(
                UNKNOWN if caught_up_ms is None else wall_ms - (now_ms - caught_up_ms)
            ),
        )

    return QuorumDescription(
        leader_id=node.voter.node_id,
        controller_epoch=node.promised_epoch,
        high_watermark=node.copy.high_watermark,
        members=tuple(copy_of(voter) for voter in sorted(members)),
        observers=tuple(copy_of(voter) for voter in sorted(observers)),
    )
