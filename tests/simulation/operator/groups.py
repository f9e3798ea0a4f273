"""Consumer groups on the simulated brokers: members, commits, and what is done to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.errors import RejectedError
from barnabas_operator.reconcile.group.group_state import (
    Action,
    DeleteGroup,
    ObservedGroup,
    ObservedGroups,
    ObservedMember,
    SetOffsets,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from tests.simulation.operator.brokers import Brokers


@dataclass
class Group:
    """One group; `resets` counts how often its offsets were set after it had committed."""

    members: int = 0
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    resets: int = 0
    has_committed: bool = True


class Groups:
    """All of them."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self.groups: dict[str, Group] = {}

    def commit(self, group_id: str) -> None:
        """Members read a bit further."""
        group = self.groups.setdefault(group_id, Group())
        group.has_committed = True
        for one in self._brokers.partitions():
            group.committed[one.topic_partition] = one.end

    def observe(self, questions: Sequence[Any]) -> ObservedGroups:
        self._brokers.view()
        ends = {
            one.topic_partition: OffsetRange(start=0, end=one.end)
            for one in self._brokers.partitions()
        }
        return ObservedGroups(
            groups={one.group_id: self._observed(one.group_id) for one in questions},
            partition_counts={
                topic.name: len(topic.partitions) for topic in self._brokers.topics.values()
            },
            ends=ends,
        )

    def _observed(self, group_id: str) -> ObservedGroup:
        group = self.groups.get(group_id)
        if group is None:
            return ObservedGroup(group_id=group_id)
        member = ObservedMember(client_id="app", assignment=tuple(group.committed))
        return ObservedGroup(
            group_id=group_id,
            state="Stable" if group.members else "Empty",
            protocol="classic",
            coordinator=0,
            members=(member,) * group.members,
            committed=dict(group.committed),
        )

    def list_ids(self) -> tuple[str, ...]:
        self._brokers.view()
        return tuple(sorted(self.groups))

    def carry_out(self, action: Action) -> Exception | None:
        self._brokers.view()
        group = self.groups.get(action.group_id)
        if group is not None and group.members:
            return RejectedError("the group has members", ErrorCode.NON_EMPTY_GROUP)
        if isinstance(action, SetOffsets):
            group = self.groups.setdefault(action.group_id, Group())
            group.resets += group.has_committed  # again at once may be a repetition
            group.has_committed = False
            for topic_partition, offset in action.offsets.items():
                if offset is None:
                    group.committed.pop(topic_partition, None)
                else:
                    group.committed[topic_partition] = offset
        elif isinstance(action, DeleteGroup) and group is not None:
            del self.groups[action.group_id]
        return None
