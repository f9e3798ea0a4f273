"""The range assignor: consecutive partitions of each topic to each member.

Members that want the same topics with the same number of partitions get the same partitions of
each: joins need no reshuffling. What does not divide evenly goes to the first members.

Where partitions have replicas on some racks only, and members say on which rack they are, each
member first gets what it can read nearby; how many it gets does not change, and equal topics still
line up.

Source: Kafka's RangeAssignor, whose result this has for every input; KIP-881 for the racks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from barnabas_client.consumer.assignors.assignor import (
    Assignor,
    GroupMember,
    GroupTopics,
    member_order,
)
from barnabas_protocol.consumer_protocol import Assignment


class RangeAssignor(Assignor):
    """Gives each member a range of each topic."""

    name: ClassVar[str] = "range"

    def assign(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> Mapping[str, Assignment]:
        """Every member id with its assignment."""
        wanting: dict[str, list[GroupMember]] = {}
        for member in sorted(members, key=member_order):
            for topic in dict.fromkeys(member.subscription.topics):
                if topics.partition_counts.get(topic):
                    wanting.setdefault(topic, []).append(member)
        shares = [
            _TopicShares(topic, topics.partition_counts[topic], takers, topics.racks.get(topic, ()))
            for topic, takers in wanting.items()
        ]
        if any(share.is_uneven_by_rack for share in shares):
            _match_racks(shares)
        for share in shares:
            share.fill(only_matching=False)
        result: dict[str, dict[str, tuple[int, ...]]] = {member.member_id: {} for member in members}
        for share in shares:
            for member_id, numbers in share.taken.items():
                if numbers:
                    result[member_id][share.topic] = tuple(sorted(numbers))
        return {
            member_id: Assignment(partitions=partitions) for member_id, partitions in result.items()
        }


class _TopicShares:
    """One topic while it is given out: what is left, who has how much, who may take more."""

    def __init__(
        self,
        topic: str,
        partition_count: int,
        members: Sequence[GroupMember],
        racks: Sequence[frozenset[str]],
    ) -> None:
        self.topic = topic
        self.partition_count = partition_count
        # In the order in which they take.
        self.rack_by_member = {
            member.member_id: member.subscription.rack_id or None for member in members
        }
        self.taken: dict[str, list[int]] = {member_id: [] for member_id in self.rack_by_member}
        self._left = list(range(partition_count))
        self._least, self._extras_left = divmod(partition_count, len(members))
        member_racks = {rack for rack in self.rack_by_member.values() if rack is not None}
        self._racks = tuple(racks) if member_racks else ()
        everywhere = frozenset().union(*self._racks)
        self.is_uneven_by_rack = not everywhere.isdisjoint(member_racks) and any(
            racks != everywhere for racks in self._racks
        )

    @property
    def rack_aware_count(self) -> int:
        """The number of partitions that are looked at one by one; 0 where no member has a rack."""
        has_racks = any(rack is not None for rack in self.rack_by_member.values())
        return self.partition_count if has_racks else 0

    def matches(self, member_id: str, partition: int) -> bool:
        """Whether a replica is near; everything is near to a member that does not say where it is.

        A partition whose replicas are in no known rack is near to nobody else.
        """
        rack = self.rack_by_member[member_id]
        if rack is None:
            return True
        return partition < len(self._racks) and rack in self._racks[partition]

    def room(self, member_id: str) -> int:
        """How many more partitions the member may take."""
        most = self._least + (1 if self._extras_left > 0 else 0)
        return max(0, most - len(self.taken[member_id]))

    def take(self, member_id: str, partitions: Sequence[int]) -> None:
        """Give partitions that are left to a member that has room."""
        taken = self.taken[member_id]
        taken += partitions
        if len(taken) > self._least:
            self._extras_left -= 1
        gone = set(partitions)
        self._left = [partition for partition in self._left if partition not in gone]

    def fill(self, *, only_matching: bool) -> None:
        """Let each member in turn take the first partitions that it can."""
        for member_id in self.rack_by_member:
            if not self._left:
                return
            room = self.room(member_id)
            if only_matching:
                near = (p for p in self._left if self.matches(member_id, p))
                chosen = [p for p, _ in zip(near, range(room), strict=False)]
            else:
                chosen = self._left[:room]
            if chosen:
                self.take(member_id, chosen)


def _match_racks(shares: Sequence[_TopicShares]) -> None:
    """Assign by racks first; topics with equal counts and members are assigned together."""
    alike: dict[object, list[_TopicShares]] = {}
    for share in shares:
        key = (frozenset(share.rack_by_member.items()), share.rack_aware_count)
        alike.setdefault(key, []).append(share)
    for group in alike.values():
        if len(group) > 1:
            _match_racks_together(group)
        elif group[0].is_uneven_by_rack:
            group[0].fill(only_matching=True)


def _match_racks_together(group: Sequence[_TopicShares]) -> None:
    """Give the same partition of all topics to the first member that is near to all of them."""
    candidates = list(group[0].rack_by_member)
    for partition in range(group[0].rack_aware_count):
        for member_id in candidates:
            if all(s.matches(member_id, partition) and s.room(member_id) > 0 for s in group):
                break
        else:
            continue
        for share in group:
            share.take(member_id, [partition])
        if not any(share.room(member_id) for share in group):
            candidates.remove(member_id)
            if not candidates:
                return
