"""The offsets of a group, whatever its kind: which requests list, set and delete them.

Not here: what a reset does with them (`offsets_reset.py`).

Invariants: consumer groups have committed offsets by partition; share groups have a start in each
partition, which can be set by partition and forgotten by topic only (SHR-32).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from barnabas_client.admin.values.groups import GroupState, GroupType
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import UsageError
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.groups import GroupDescription
    from barnabas_client.admin.values.share_groups import ShareGroupDescription


#: Of share groups the offset alone.
GroupOffsetsByPartition = Mapping[TopicPartition, OffsetAndMetadata | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """The state of a group, and the client id of each member."""

    state: GroupState
    client_ids: Sequence[str]

    @property
    def is_empty(self) -> bool:
        """Whether the broker lets offsets be set."""
        return self.state in (GroupState.EMPTY, GroupState.DEAD)


class GroupOffsetKind(Protocol):
    """A kind of group."""

    @property
    def noun(self) -> str:
        """The command's noun."""
        ...

    @property
    def is_by_partition(self) -> bool:
        """Whether each partition is set and deleted by itself, so that a request may have some."""
        ...

    async def group_ids(self, admin: Admin) -> set[str]:
        """The groups of this kind."""
        ...

    async def offsets(self, admin: Admin, group_id: str) -> GroupOffsetsByPartition:
        """Where the group is; None where it is known to be nowhere."""
        ...

    async def members(self, admin: Admin, group_id: str) -> GroupMembers | None:
        """State and members; None if there is no such group."""
        ...

    async def set_offsets(
        self, admin: Admin, group_id: str, offsets: GroupOffsetsByPartition
    ) -> None:
        """Set offsets, or delete them where there is none. Raises: UsageError; the client's."""
        ...


def _members_of(group: GroupDescription | ShareGroupDescription | None) -> GroupMembers | None:
    if group is None:
        return None
    return GroupMembers(state=group.state, client_ids=[one.client_id for one in group.members])


async def _with_reached_epochs(
    admin: Admin, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets without the leader epochs that their partitions are not known to have reached.

    Those of a topic that was made anew begin at 0: a consumer would wait for a leader of the later.
    """
    topics = {place.topic for place, one in offsets.items() if one.leader_epoch >= 0}
    described = (await admin.topics.describe(topics)).successes if topics else {}
    reached = {
        TopicPartition(topic.name, number): partition.leader_epoch
        for topic in described.values()
        for number, partition in topic.partitions.items()
    }
    return {
        place: one
        if one.leader_epoch <= reached.get(place, -1)
        else OffsetAndMetadata(one.offset, metadata=one.metadata)
        for place, one in offsets.items()
    }


class _ConsumerGroup:
    noun = "group"
    is_by_partition = True

    async def group_ids(self, admin: Admin) -> set[str]:
        return {listing.group_id for listing in await admin.groups.list()}

    async def offsets(self, admin: Admin, group_id: str) -> GroupOffsetsByPartition:
        return (await admin.group_offsets.list([group_id])).unwrap()[group_id]

    async def members(self, admin: Admin, group_id: str) -> GroupMembers | None:
        described = await admin.groups.describe([group_id])
        return _members_of(described.successes.get(group_id))

    async def set_offsets(
        self, admin: Admin, group_id: str, offsets: GroupOffsetsByPartition
    ) -> None:
        new = {place: offset for place, offset in offsets.items() if offset is not None}
        if new:
            new = await _with_reached_epochs(admin, new)
            (await admin.group_offsets.alter(group_id, new)).unwrap()
        removed = [place for place, offset in offsets.items() if offset is None]
        if removed:
            (await admin.group_offsets.delete(group_id, removed)).unwrap()


class _ShareGroup:
    noun = "share"
    is_by_partition = False

    async def group_ids(self, admin: Admin) -> set[str]:
        return {listing.group_id for listing in await admin.groups.list(types=[GroupType.SHARE])}

    async def offsets(self, admin: Admin, group_id: str) -> GroupOffsetsByPartition:
        found = (await admin.share_groups.list_offsets([group_id])).unwrap()[group_id]
        return {
            place: None if one is None else OffsetAndMetadata(one.start_offset)
            for place, one in found.items()
        }

    async def members(self, admin: Admin, group_id: str) -> GroupMembers | None:
        described = await admin.share_groups.describe([group_id])
        return _members_of(described.successes.get(group_id))

    async def set_offsets(
        self, admin: Admin, group_id: str, offsets: GroupOffsetsByPartition
    ) -> None:
        new = {place: one.offset for place, one in offsets.items() if one is not None}
        removed = {place.topic for place, offset in offsets.items() if offset is None}
        kept = removed & {place.topic for place in new}
        if kept:
            raise UsageError(
                f"a share group forgets a whole topic or nothing of it: '{min(kept)}' has"
                " partitions with an offset and partitions with none"
            )
        if new:
            (await admin.share_groups.alter_offsets(group_id, new)).unwrap()
        if removed:
            (await admin.share_groups.delete_offsets(group_id, removed)).unwrap()


CONSUMER_GROUP: Final[GroupOffsetKind] = _ConsumerGroup()
SHARE_GROUP: Final[GroupOffsetKind] = _ShareGroup()
