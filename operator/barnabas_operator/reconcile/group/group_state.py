"""Input and output of the planner of groups: the observed group, operations, actions.

Values only. Not here: how they are found out (`gateway/kafka_groups.py`), how the one becomes the
other (`group_plan`), how they are kept (`group_record`).

Invariant: None stands for what is not known, never for nothing: an offset that is not committed is
absent from `ObservedGroup.committed`, and an end that nobody tells is absent from `ends`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_protocol.ids import TopicPartition

# A group's id at the broker is free; Spark makes up such ones.
_SPARK_PREFIXES = ("spark-kafka-source-", "spark-kafka-relation-")

SHARE_PROTOCOL = "share"

ABSENT = "Absent"
UNKNOWN = "Unknown"
# A group in one of these states has nobody who could commit an offset as a member.
_LIFELESS = frozenset({"Empty", "Dead", ABSENT})

Offsets: TypeAlias = Mapping[TopicPartition, int]
# What a partition's committed offset is or will be; None where there is none.
MaybeOffsets: TypeAlias = Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMember:
    """A member and what it reads."""

    client_id: str
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A group as the cluster has it; `error` tells why it could not be seen, and then it is not."""

    group_id: str
    state: str = ABSENT
    protocol: str = ""
    assignor: str = ""
    coordinator: int | None = None
    members: tuple[ObservedMember, ...] = ()
    committed: Offsets = field(default_factory=dict)
    # Of a share group, `committed` is where its records in flight begin; behind that some are done,
    # and only the coordinator can tell how many are left.
    left: Offsets = field(default_factory=dict)
    error: str = ""

    @property
    def is_share(self) -> bool:
        """Whether its members share partitions, and acknowledge each record (KIP-932)."""
        return self.protocol == SHARE_PROTOCOL

    @property
    def is_known(self) -> bool:
        """Whether it could be seen, be it that there is none."""
        return not self.error

    @property
    def is_absent(self) -> bool:
        """Whether there is no such group."""
        return self.is_known and self.state == ABSENT

    @property
    def is_live(self) -> bool:
        """Whether it has, or may have, members."""
        return bool(self.members) or self.state not in _LIFELESS

    @property
    def application(self) -> str:
        """What is known to make such ids up; empty for most."""
        return "spark" if self.group_id.startswith(_SPARK_PREFIXES) else ""

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those it has committed offsets for or reads now, in order."""
        read = {topic_partition for member in self.members for topic_partition in member.assignment}
        return tuple(sorted({*read, *self.committed}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroups:
    """The groups that were asked for, and what there is to know of their partitions.

    `partition_counts` has the topics that exist. `by_timestamp` has the first record that is not
    older than a moment, or the end of the log; `record_times` the timestamps of records.
    """

    groups: Mapping[str, ObservedGroup]
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    by_timestamp: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    record_times: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)

    def position(self, group: ObservedGroup, topic_partition: TopicPartition) -> int | None:
        """The next record that the group would read; None where that is not known."""
        committed, ends = group.committed.get(topic_partition), self.ends.get(topic_partition)
        if committed is None or ends is None:
            return None
        return ends.position(committed)

    def lag(self, group: ObservedGroup, topic_partition: TopicPartition) -> int | None:
        """How many records are left to read; None where that is not known."""
        left = group.left.get(topic_partition)
        if left is not None:
            return left
        committed, ends = group.committed.get(topic_partition), self.ends.get(topic_partition)
        return None if committed is None or ends is None else ends.lag(committed)


class Phase(StrEnum):
    """How far an operation is."""

    PREVIEW = "Preview"
    WAITING = "Waiting"
    REFUSED = "Refused"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A reset, undoing or deletion as it is recorded in the status.

    From RUNNING on, `before` and `after` have all offsets that it is about, and never change.
    """

    id: str
    request: str
    phase: Phase
    message: str = ""
    before: MaybeOffsets = field(default_factory=dict)
    after: MaybeOffsets = field(default_factory=dict)

    @property
    def what(self) -> str:
        """What was asked for, without the manner."""
        return self.request.partition(";")[0]

    @property
    def has_run(self) -> bool:
        """Whether it is over and may have changed something."""
        return self.phase is Phase.DONE or (self.phase is Phase.FAILED and bool(self.after))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was committed before the reset of this id: the last one that was carried out."""

    id: str
    offsets: MaybeOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """All that is recorded for a resource.

    `completed` has `reset/ID` and `delete/ID` of what must not be done again, the oldest first;
    `done_before` has what was begun for the group by whatever resource, with what was asked for.
    """

    reset: Operation | None = None
    snapshot: Snapshot | None = None
    undo: Operation | None = None
    deletion: Operation | None = None
    completed: tuple[str, ...] = ()
    done_before: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOffsets:
    """Commit offsets, and forget those of partitions that had none; or set where it begins."""

    group_id: str
    offsets: MaybeOffsets
    is_share: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete the group with its offsets."""

    group_id: str


Action: TypeAlias = SetOffsets | DeleteGroup


class GroupReason(StrEnum):
    """Why something is reported: also the reason of a condition."""

    CONFLICT = "ResourceConflict"
    INVALID = "InvalidSpec"
    PAUSED = "Paused"
    ID_USED = "IdAlreadyUsed"
    NOTHING_TO_UNDO = "NothingToUndo"
    READ_ONLY = "ReadOnly"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFinding:
    """Something about a resource that no operation mends."""

    reason: GroupReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """What is to be recorded and then, not before that is stored, done."""

    operations: Operations
    action: Action | None = None
    findings: tuple[GroupFinding, ...] = ()
