"""The states of a member of a classic group, and what the steps between them hand over.

    UNJOINED    outside of the group, or not a good member    -> PREPARING
    PREPARING   partitions are given up, callbacks run        -> JOINING
    JOINING     JoinGroup is sent or to be sent again         -> SYNCING, UNJOINED
    SYNCING     SyncGroup is sent                             -> ASSIGNED, JOINING, UNJOINED
    ASSIGNED    partitions have come, callbacks to be run     -> STABLE, UNJOINED
    STABLE      heartbeats                                    -> PREPARING, UNJOINED

Not here: who takes the steps, `classic.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas_protocol.ids import TopicPartition


class MemberState(Enum):
    """How far the member is; the module's docstring has the moves."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    ASSIGNED = "assigned"
    STABLE = "stable"


MOVES: Final = {
    MemberState.UNJOINED: {MemberState.PREPARING, MemberState.UNJOINED},
    MemberState.PREPARING: {MemberState.JOINING, MemberState.UNJOINED},
    MemberState.JOINING: {MemberState.SYNCING, MemberState.UNJOINED},
    MemberState.SYNCING: {MemberState.ASSIGNED, MemberState.JOINING, MemberState.UNJOINED},
    MemberState.ASSIGNED: {MemberState.STABLE, MemberState.UNJOINED},
    MemberState.STABLE: {MemberState.PREPARING, MemberState.UNJOINED},
}


class Reaction(Enum):
    """What the shell does after an answer."""

    GO_ON = "go on as the state says"
    WAIT = "go on as the state says, after a pause"
    FIND_COORDINATOR = "look for the coordinator, after a pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """Partitions to give up before joining; lost ones are in other hands already."""

    partitions: tuple[TopicPartition, ...]
    is_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentChange:
    """What a new assignment means for the program."""

    assigned: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
