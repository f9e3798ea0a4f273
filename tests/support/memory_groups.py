"""One consumer group in memory behind the operator's gateway, which may be cut off at any step."""

from collections.abc import Callable, Sequence

from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.errors import RejectedError
from barnabas_operator.reconcile.group.group_apply import GroupQuestion
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


class CutOffError(Exception):
    """The process died here."""


async def confirmed() -> None:
    """No resource changes behind the back of these tests."""


def _nothing() -> None:
    """Do not interrupt."""


class MemoryGroups:
    """A cluster with one topic `orders` and the group `billing`; a log from 10 to 100."""

    def __init__(self, partitions: int = 3, *, start: int = 10, end: int = 100) -> None:
        self.topic_partitions = [TopicPartition("orders", number) for number in range(partitions)]
        self.ends = dict.fromkeys(self.topic_partitions, OffsetRange(start=start, end=end))
        self.committed: dict[TopicPartition, int] = {}
        self.members: list[ObservedMember] = []
        self.exists = False
        self.done: list[Action] = []
        self.fails_with: Exception | None = None
        self.record_time_ms = 1_000_000
        # Called before and after an action is carried out; may raise CutOffError.
        self.before_action: Callable[[], None] = _nothing
        self.after_action: Callable[[], None] = _nothing

    def commit(self, *offsets: int) -> None:
        """Offsets of the partitions in order, as the group itself would commit them."""
        self.exists = True
        self.committed.update(zip(self.topic_partitions, offsets, strict=False))

    def join(self) -> None:
        self.exists = True
        self.members = [ObservedMember(client_id="app", assignment=tuple(self.topic_partitions))]

    def leave(self) -> None:
        self.members = []

    def group(self) -> ObservedGroup:
        state = "Stable" if self.members else "Empty" if self.exists else "Absent"
        return ObservedGroup(
            group_id="billing",
            state=state,
            protocol="classic" if self.exists else "",
            coordinator=0 if self.exists else None,
            members=tuple(self.members),
            committed=dict(self.committed),
        )

    def observed(self) -> ObservedGroups:
        return ObservedGroups(
            groups={"billing": self.group()},
            partition_counts={"orders": len(self.topic_partitions)},
            ends=self.ends,
            by_timestamp={(topic_partition, 5000): 42 for topic_partition in self.topic_partitions},
            record_times={
                (
                    topic_partition,
                    max(offset, self.ends[topic_partition].start),
                ): self.record_time_ms
                for topic_partition, offset in self.committed.items()
                if topic_partition in self.ends
            },
        )

    async def observe(self, questions: Sequence[GroupQuestion]) -> ObservedGroups:
        return self.observed()

    async def list_ids(self) -> tuple[str, ...]:
        return ("billing",) if self.exists else ()

    async def carry_out(self, action: Action) -> Exception | None:
        self.before_action()
        if self.fails_with is not None:
            return self.fails_with
        if self.members:
            return RejectedError("members", ErrorCode.NON_EMPTY_GROUP)
        match action:
            case SetOffsets():
                self.exists = True
                for topic_partition, offset in action.offsets.items():
                    if offset is None:
                        self.committed.pop(topic_partition, None)
                    else:
                        self.committed[topic_partition] = offset
            case DeleteGroup():
                self.exists, self.committed = False, {}
        self.done.append(action)
        self.after_action()
        return None
