"""Input and output of the planner of topics: observed topics, steps, findings.

Values only. Not here: how they are found out (`topic_apply.TopicGateway`), how the one becomes the
other (`topic_plan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic as the cluster has it.

    `assignments` are the replicas of each partition in rising order of partitions, as they will be
    when moves under way are done. `config` holds the topic's own settings, without the broker's
    defaults. The last three count partitions: without a leader, with replicas out of sync, and on
    the move.
    """

    name: str
    topic_id: str = ""
    assignments: tuple[tuple[int, ...], ...]
    config: Mapping[str, str] = field(default_factory=_nothing)
    cleanup_policy: str = "delete"
    leaderless: int = 0
    under_replicated: int = 0
    moving: int = 0

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self.assignments)

    @property
    def replicas(self) -> int:
        """The replication factor: the smallest of all partitions."""
        return min(map(len, self.assignments), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """The brokers that may hold replicas, and the topics that were asked for and exist.

    `can_reassign` is false where the brokers do not serve AlterPartitionReassignments. `refused`
    says of topics that could not be looked at why; whether they exist is not known.
    """

    broker_ids: tuple[int, ...]
    topics: Mapping[str, ObservedTopic]
    can_reassign: bool = True
    refused: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Make the topic; None leaves the number to the broker."""

    topic: str
    partitions: int | None
    replicas: int | None
    config: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowPartitions:
    """Add partitions until there are `partitions`."""

    topic: str
    partitions: int
    partitions_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConfig:
    """Set some settings and give others back to the broker's default.

    `before` has what each of them is now; a setting that is not set is not in it.
    """

    topic: str
    assigned: Mapping[str, str] = field(default_factory=_nothing)
    reset: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignReplicas:
    """Move partitions to new lists of replicas; `assignments` has only those that change."""

    topic: str
    replicas: int
    replicas_before: int
    assignments: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete the topic with all its records, if it still has this id."""

    topic: str
    topic_id: str


Step: TypeAlias = CreateTopic | GrowPartitions | ChangeConfig | ReassignReplicas | DeleteTopic


class Reason(StrEnum):
    """Why something is reported: also the reason of a condition."""

    CONFLICT = "ResourceConflict"
    NOT_SUPPORTED = "NotSupported"
    NEEDS_ACKNOWLEDGEMENT = "NeedsAcknowledgement"
    DRIFT = "DriftDetected"
    ADOPTED = "DriftAdopted"
    PAUSED = "Paused"
    REFUSED = "Refused"


# With these the topic is not what its resource asks for, and will not become it by itself.
BLOCKING = frozenset(
    {Reason.CONFLICT, Reason.NOT_SUPPORTED, Reason.NEEDS_ACKNOWLEDGEMENT, Reason.REFUSED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a resource that no step mends."""

    resource: str
    topic: str
    reason: Reason
    message: str

    @property
    def is_blocking(self) -> bool:
        """Whether the resource cannot become ready."""
        return self.reason in BLOCKING


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """What to do, in order, and what to tell. `unchanged` names topics that are as declared."""

    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    unchanged: tuple[str, ...] = field(default=())
