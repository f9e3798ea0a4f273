"""The assignor `uniform` for members that subscribe to different topics.

    1. Everybody keeps what it has of the topics that it still subscribes to.
    2. Free partitions go, topic by topic, to the subscribers with the fewest partitions.
    3. Topic by topic, partitions move from the subscribers with the most to those with the fewest,
       until no move makes the group more even, or after 16 rounds.

Topics with many partitions per subscriber come first, then those with fewer subscribers, then by
id. Source: behaviour.md CG-12. Invariant: a partition is owned by one subscriber of its topic.
"""

from __future__ import annotations

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, GroupSpec
from barnabas_broker.coordinator.group.consumer.assignors.hash_order import (
    members_in_order,
    signed_halves,
)

ROUNDS_MAX = 16
_NOBODY = -1


class _Loads:
    """The subscribers of one topic by their load, for giving to the lowest and taking from the top.

    The lowest are a range that grows to the right as its members fill up, the highest one that
    grows to the left. A member that has nothing of the topic leaves the upper range.
    """

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = ordered = sorted(subscribers, key=lambda index: (sizes[index], index))
        self.spread = sizes[ordered[-1]] - sizes[ordered[0]]
        self._low_end = 0
        self._low_level = sizes[ordered[0]] - 1
        self._low_next = 0
        self._high_start = self._high_end = len(ordered)
        self._high_level = sizes[ordered[-1]] + 1
        self._high_next = len(ordered) - 1

    def lowest(self) -> int:
        """Return who is to get the next partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._sorted) and self._is_at(self._low_end, self._low_level):
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._sorted[self._low_next - 1]

    def highest(self) -> int:
        """Return who is to give the next partition; nobody if all have left."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._sizes[self._sorted[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._is_at(self._high_start - 1, self._high_level):
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return _NOBODY
        self._high_next -= 1
        return self._sorted[self._high_next + 1]

    def exclude_highest(self) -> None:
        """Have the one that `highest` has returned last leave the upper range."""
        place, last = self._high_next + 1, self._high_end - 1
        ordered = self._sorted
        ordered[place], ordered[last] = ordered[last], ordered[place]
        self._high_end -= 1

    def is_even(self) -> bool:
        """Whether another move would gain nothing."""
        return self._high_level - self._low_level <= 1

    def _is_at(self, place: int, level: int) -> bool:
        return self._sizes[self._sorted[place]] == level


class MixedAssignment:
    """One computation."""

    def __init__(self, group: GroupSpec) -> None:
        self._member_ids = members_in_order(group.members)
        self._counts = group.partition_counts
        self._sizes = [0] * len(self._member_ids)
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member_id in enumerate(self._member_ids):
            for topic_id in group.members[member_id].topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        # By topic and partition.
        self._owners = {
            topic_id: [_NOBODY] * self._counts[topic_id] for topic_id in self._subscribers
        }
        for index, member_id in enumerate(self._member_ids):
            member = group.members[member_id]
            for topic_id, partitions in member.assigned.items():
                if topic_id in member.topic_ids:
                    for partition in partitions:
                        self._own(topic_id, partition, index)

    def assign(self) -> dict[str, Assignment]:
        """Return what each member is to have."""
        if not self._subscribers:
            return {}
        topic_ids = sorted(self._subscribers, key=self._rank)
        for topic_id in topic_ids:
            self._give_free(topic_id)
        self._balance([each for each in topic_ids if len(self._subscribers[each]) > 1])
        assigned: list[dict[bytes, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, index in enumerate(owners):
                assigned[index].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(each) for topic_id, each in partitions.items()}
            for member_id, partitions in zip(self._member_ids, assigned, strict=True)
        }

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        subscriber_count = len(self._subscribers[topic_id])
        return (
            -self._counts[topic_id] / subscriber_count,
            subscriber_count,
            signed_halves(topic_id),
        )

    def _own(self, topic_id: bytes, partition: int, index: int) -> None:
        before = self._owners[topic_id][partition]
        if before != _NOBODY:
            self._sizes[before] -= 1
        self._owners[topic_id][partition] = index
        self._sizes[index] += 1

    def _give_free(self, topic_id: bytes) -> None:
        owners = self._owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
        if free:
            loads = _Loads(self._subscribers[topic_id], self._sizes)
            for partition in free:
                self._own(topic_id, partition, loads.lowest())

    def _balance(self, topic_ids: list[bytes]) -> None:
        last_moved: int | None = None
        for _ in range(ROUNDS_MAX):
            for place, topic_id in enumerate(topic_ids):
                if place == last_moved:
                    # All topics have been looked at since, and nothing has moved.
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = place

    def _balance_topic(self, topic_id: bytes) -> int:
        """Move partitions of one topic; returns how many."""
        loads = _Loads(self._subscribers[topic_id], self._sizes)
        if loads.spread <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for partition, index in enumerate(self._owners[topic_id]):
            owned.setdefault(index, []).append(partition)
        moved = 0
        while not loads.is_even():
            giver = loads.highest()
            while giver != _NOBODY and not owned.get(giver):
                loads.exclude_highest()
                giver = loads.highest()
            if giver == _NOBODY:
                break
            partition = owned[giver].pop()
            taker = loads.lowest()
            if loads.is_even():
                break
            self._own(topic_id, partition, taker)
            moved += 1
        return moved
