"""The assignor `simple`: partitions are shared evenly, and as many members as need be share one.

Source: KIP-932, SHR-31. Of P partitions and M members, each partition has s = ceil(M / P) owners,
so there are s * P places; member i of those sorted by id gets ceil(d * (i + 1)) - ceil(d * i) of
them, where d = s * P / M. What members had is kept as far as both allow.

Where members subscribe to different topics, those topics that have the same subscribers are shared
together, by an order of their own, so that it is not always the same ones that get one more. Where
there are very many such sets of topics, each partition has one owner.

Properties: every partition has an owner, none of a few subscribers is idle; with
equal subscriptions the sizes are within one and all partitions have as many owners; a second run
moves nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, MemberSpec
from barnabas_broker.coordinator.group.consumer.assignors.uniform import fill

NAME = "simple"

# Of members that subscribe to different topics, over all that subscribe alike: a target is computed
# while nothing else is done.
SUBSCRIBERS_MAX = 1_000

# A topic's id and a partition.
_Partition = tuple[bytes, int]


def assign(
    members: Mapping[str, MemberSpec], partitions: Mapping[bytes, Sequence[int]]
) -> dict[str, Assignment]:
    """Return what each member is to have of the partitions that can be assigned, by topic id."""
    member_ids = sorted(members)
    subscriptions = {members[each].topic_ids for each in member_ids}
    if len(subscriptions) == 1:
        (subscription,) = subscriptions
        return _share(member_ids, members, _of_topics(sorted(subscription), partitions))
    alike = _subscribed_alike(member_ids, members)
    together: dict[str, dict[bytes, frozenset[int]]] = {each: {} for each in member_ids}
    if sum(len(those) for those in alike) > SUBSCRIBERS_MAX:
        _spread(alike, members, partitions, together)
        return dict(together)
    for those, topic_ids in alike.items():
        start = int.from_bytes(topic_ids[0][-4:]) % len(those)
        ordered = those[start:] + those[:start]
        assigned = _share(ordered, members, _of_topics(topic_ids, partitions))
        for member_id, of_topics in assigned.items():
            together[member_id].update(of_topics)
    return dict(together)


def _subscribed_alike(
    member_ids: Sequence[str], members: Mapping[str, MemberSpec]
) -> dict[tuple[str, ...], list[bytes]]:
    """Return the topics by who subscribes to them, both in order."""
    subscribers: dict[bytes, list[str]] = {}
    for member_id in member_ids:
        for topic_id in members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    alike: dict[tuple[str, ...], list[bytes]] = {}
    for topic_id in sorted(subscribers):
        alike.setdefault(tuple(subscribers[topic_id]), []).append(topic_id)
    return alike


def _spread(
    alike: Mapping[tuple[str, ...], Sequence[bytes]],
    members: Mapping[str, MemberSpec],
    partitions: Mapping[bytes, Sequence[int]],
    together: Mapping[str, dict[bytes, frozenset[int]]],
) -> None:
    """Give each partition one owner, in turn: for subscriptions that are too many to weigh."""
    for those, topic_ids in alike.items():
        for topic_id in topic_ids:
            start = int.from_bytes(topic_id[-4:])
            owned: dict[str, set[int]] = {}
            for partition in partitions.get(topic_id, ()):
                owned.setdefault(those[(start + partition) % len(those)], set()).add(partition)
            for member_id, mine in owned.items():
                together[member_id][topic_id] = frozenset(mine)


def _of_topics(
    topic_ids: Sequence[bytes], partitions: Mapping[bytes, Sequence[int]]
) -> dict[bytes, Sequence[int]]:
    return {each: partitions[each] for each in topic_ids if partitions.get(each)}


def _share(
    member_ids: Sequence[str],
    members: Mapping[str, MemberSpec],
    partitions: Mapping[bytes, Sequence[int]],
) -> dict[str, Assignment]:
    """Return what each of the members gets of the partitions, which all of them subscribe to."""
    count = sum(map(len, partitions.values()))
    if not count:
        return {member_id: {} for member_id in member_ids}
    if len(member_ids) <= count:
        return _one_owner_each(member_ids, members, partitions, count)
    return _several_owners_each(member_ids, members, partitions, count)


def _quotas(member_ids: Sequence[str], place_count: int) -> Iterator[tuple[str, int]]:
    """Return how many places each member gets, in whole numbers and as even as can be."""
    ends = [-(-place_count * index // len(member_ids)) for index in range(len(member_ids) + 1)]
    return zip(member_ids, (end - start for start, end in pairwise(ends)), strict=True)


def _had(
    member: MemberSpec, topics: Mapping[bytes, object]
) -> Iterator[tuple[bytes, frozenset[int]]]:
    """Return what a member had so far of some topics."""
    assigned = member.assigned
    for topic_id in topics if len(topics) < len(assigned) else assigned:
        if topic_id in topics and topic_id in assigned:
            yield topic_id, assigned[topic_id]


def _one_owner_each(
    member_ids: Sequence[str],
    members: Mapping[str, MemberSpec],
    partitions: Mapping[bytes, Sequence[int]],
    count: int,
) -> dict[str, Assignment]:
    """Share partitions that are no fewer than the members; works on sets, as there may be many."""
    left = {topic_id: set(each) for topic_id, each in partitions.items()}
    kept: dict[str, Assignment] = {}
    rooms: list[tuple[str, int]] = []
    for member_id, room in _quotas(member_ids, count):
        mine: dict[bytes, frozenset[int]] = {}
        for topic_id, had in _had(members[member_id], left):
            keeps = had & left[topic_id]
            if len(keeps) > room:
                keeps = frozenset(sorted(keeps)[:room])
            if keeps:
                mine[topic_id] = keeps
                left[topic_id] -= keeps
                room -= len(keeps)
        kept[member_id] = mine
        if room:
            rooms.append((member_id, room))
    fill(kept, rooms, [(topic_id, each) for topic_id in left for each in sorted(left[topic_id])])
    return kept


def _several_owners_each(
    member_ids: Sequence[str],
    members: Mapping[str, MemberSpec],
    partitions: Mapping[bytes, Sequence[int]],
    count: int,
) -> dict[str, Assignment]:
    """Share partitions that are fewer than the members: each has as many owners as the others."""
    held: dict[str, set[_Partition]] = {member_id: set() for member_id in member_ids}
    sharing = -(-len(member_ids) // count)
    every = [(topic_id, each) for topic_id, those in partitions.items() for each in those]
    places = Counter(dict.fromkeys(every, sharing))
    room = dict(_quotas(member_ids, sharing * count))
    for member_id in member_ids:
        for topic_id, had in _had(members[member_id], partitions):
            for each in ((topic_id, partition) for partition in sorted(had)):
                if room[member_id] and places[each] > 0:
                    held[member_id].add(each)
                    places[each] -= 1
                    room[member_id] -= 1
    free = deque(each for each in every for _ in range(places[each]))
    for member_id in member_ids:
        for _ in range(room[member_id]):
            _take(member_id, held, free)
    assert not free, "places are left"
    return {member_id: _assignment(each) for member_id, each in held.items()}


def _take(member_id: str, held: Mapping[str, set[_Partition]], free: deque[_Partition]) -> None:
    """Give a member one of the free places, of a partition that it does not have."""
    mine = held[member_id]
    for index, each in enumerate(free):
        if each not in mine:
            del free[index]
            mine.add(each)
            return
    # It has all that is free already: somebody else takes that, and gives another one for it.
    spare = free.popleft()
    for theirs in held.values():
        if spare not in theirs:
            given = min(theirs - mine, default=None)
            if given is not None:
                theirs.remove(given)
                theirs.add(spare)
                mine.add(given)
                return
    raise AssertionError("there are more places than members for a partition")


def _assignment(partitions: set[_Partition]) -> Assignment:
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(each) for topic_id, each in sorted(by_topic.items())}
