"""How many partitions of each topic each member gets, if members want different topics.

Not here: which partitions (`sticky.py`): within a topic they are all alike.

Members start with what they had. What is free goes to whoever has least; then, as long as a member
can hand a partition to one that has at least two less, directly or through others that pass on
one of theirs, it does: first only with what is fresh, then also with what members had. So what a
cooperative group leaves open in one rebalance is closed by the next, and nothing else moves.

Source: our own; the shortest path is found breadth first, as in any flow algorithm.
Invariants: the counts of a topic always add up to its partitions; no path is left from a member to
another that has two less, so the sum of the squares is as small as it can be. The heaviest member
that cannot hand on anything and all that it reaches are final: everybody there has at most one
less, so nobody who has no more than it can improve by handing something into that set.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

Counts = dict[str, dict[str, int]]


def balanced_counts(
    wanted: Mapping[str, set[str]],
    partition_counts: Mapping[str, int],
    owned_counts: Mapping[str, Mapping[str, int]],
) -> Counts:
    """By member and topic, how many partitions; zeros are left out.

    Args:
        wanted: the topics of each member, in the order in which members are preferred.
        partition_counts: of each topic that exists.
        owned_counts: what each member had, of topics that it wants.
    """
    balance = _Balance(wanted, owned_counts)
    balance.fill(partition_counts)
    balance.even_out(fresh_only=True)
    balance.even_out(fresh_only=False)
    return {
        member_id: {topic: count for topic, count in topics.items() if count}
        for member_id, topics in balance.held.items()
    }


class _Balance:
    """The counts while they change."""

    def __init__(
        self, wanted: Mapping[str, set[str]], owned_counts: Mapping[str, Mapping[str, int]]
    ) -> None:
        self._wanted = wanted
        self._owned = owned_counts
        self._order = {member_id: at for at, member_id in enumerate(wanted)}
        self._takers: dict[str, set[str]] = {}
        for member_id, topics in wanted.items():
            for topic in topics:
                self._takers.setdefault(topic, set()).add(member_id)
        # Topics that a member holds none of are absent.
        self.held: Counts = {member_id: dict(owned_counts[member_id]) for member_id in wanted}
        self._loads = {member_id: sum(topics.values()) for member_id, topics in self.held.items()}

    def fill(self, partition_counts: Mapping[str, int]) -> None:
        """Assign partitions without an owner to members with the fewest, rarest topics first."""
        free = {topic: partition_counts[topic] for topic in self._takers}
        for topics in self.held.values():
            for topic, count in topics.items():
                free[topic] -= count
        for topic in sorted(free, key=lambda topic: (len(self._takers[topic]), topic)):
            heap = [(self._loads[m], self._order[m], m) for m in self._takers[topic]]
            heapq.heapify(heap)
            for _ in range(free[topic]):
                load, at, member_id = heap[0]
                heapq.heapreplace(heap, (load + 1, at, member_id))
                self._add(member_id, topic, 1)

    def even_out(self, *, fresh_only: bool) -> None:
        """Move partitions until no move makes the counts more even."""
        unsettled = set(self._wanted)
        while unsettled:
            heaviest = max(unsettled, key=lambda m: (self._loads[m], -self._order[m]))
            path, reached = self._path_from(heaviest, fresh_only)
            if not path:
                unsettled -= reached
                continue
            giver = heaviest
            for topic, taker in path:
                self._add(giver, topic, -1)
                self._add(taker, topic, 1)
                giver = taker

    def _path_from(self, start: str, fresh_only: bool) -> tuple[list[tuple[str, str]], set[str]]:
        """The shortest path to move a partition to a member that has two less: topics and members.

        Empty if there is none; then also all members that can be reached.
        """
        limit = self._loads[start] - 2
        # Nobody has less: whoever has so little is good enough.
        least = min(self._loads.values())
        came_from: dict[str, tuple[str, str]] = {}
        seen = {start}
        layer = [start]
        while layer:
            following: list[str] = []
            best: str | None = None
            for giver, topic in self._ways_from(layer, fresh_only):
                fresh = self._takers[topic] - seen
                if not fresh:
                    continue
                seen |= fresh
                for taker in sorted(fresh, key=self._order.__getitem__):
                    came_from[taker] = (giver, topic)
                    following.append(taker)
                    load = self._loads[taker]
                    if load <= limit and (best is None or load < self._loads[best]):
                        best = taker
                is_best = best is not None and self._loads[best] == least
                if is_best or len(seen) == len(self._wanted):
                    break
            if best is not None:
                return self._path_to(best, start, came_from), seen
            layer = following
        return [], seen

    def _ways_from(self, givers: list[str], fresh_only: bool) -> Iterator[tuple[str, str]]:
        """Who holds what; of each first the topics of which it holds more than it had."""
        for giver in givers:
            owned = self._owned[giver]
            held = self.held[giver]
            for topic, count in held.items():
                if count > owned.get(topic, 0):
                    yield giver, topic
            if not fresh_only:
                for topic, count in held.items():
                    if count <= owned.get(topic, 0):
                        yield giver, topic

    @staticmethod
    def _path_to(
        end: str, start: str, came_from: Mapping[str, tuple[str, str]]
    ) -> list[tuple[str, str]]:
        path = []
        taker = end
        while taker != start:
            giver, topic = came_from[taker]
            path.append((topic, taker))
            taker = giver
        return path[::-1]

    def _add(self, member_id: str, topic: str, change: int) -> None:
        topics = self.held[member_id]
        topics[topic] = topics.get(topic, 0) + change
        if not topics[topic]:
            del topics[topic]
        self._loads[member_id] += change
