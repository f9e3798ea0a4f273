"""The assignor `simple`: partitions are shared evenly, and as many members as need be share one.

Source: KIP-932, SHR-31. Of P partitions and M members, each partition has s = ceil(M / P) owners,
so there are s * P places; member i of those sorted by id gets ceil(d * (i + 1)) - ceil(d * i) of
them, where d = s * P / M. What members had is kept as far as both allow.

Members that subscribe to different topics share each topic on its own, with its subscribers in an
order of its own, so that it is not always the same ones that get one more.

Properties: every partition has an owner, no subscriber of a topic with partitions is idle; with
equal subscriptions the sizes are within one and all partitions have as many owners; a second run
moves nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, MemberSpec

NAME = "simple"

# A topic's id and a partition.
_Partition = tuple[bytes, int]


def assign(
    members: Mapping[str, MemberSpec], partitions: Mapping[bytes, Sequence[int]]
) -> dict[str, Assignment]:
    """Return what each member is to have of the partitions that can be assigned, by topic id."""
    member_ids = sorted(members)
    subscriptions = {members[each].topic_ids for each in member_ids}
    if len(subscriptions) == 1:
        (topic_ids,) = subscriptions
        held = _share(member_ids, members, _partitions_of(sorted(topic_ids), partitions))
        return {member_id: _assignment(held[member_id]) for member_id in member_ids}
    subscribers: dict[bytes, list[str]] = {}
    for member_id in member_ids:
        for topic_id in members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    together: dict[str, set[_Partition]] = {member_id: set() for member_id in member_ids}
    for topic_id, those in sorted(subscribers.items()):
        start = int.from_bytes(topic_id[-4:]) % len(those)
        ordered = those[start:] + those[:start]
        held = _share(ordered, members, _partitions_of([topic_id], partitions))
        for member_id, of_topic in held.items():
            together[member_id] |= of_topic
    return {member_id: _assignment(each) for member_id, each in together.items()}


def _partitions_of(
    topic_ids: Sequence[bytes], partitions: Mapping[bytes, Sequence[int]]
) -> list[_Partition]:
    return [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in partitions.get(topic_id, ())
    ]


def _share(
    member_ids: Sequence[str], members: Mapping[str, MemberSpec], partitions: list[_Partition]
) -> dict[str, set[_Partition]]:
    """Return what each of the members gets of the partitions, which all of them subscribe to."""
    held: dict[str, set[_Partition]] = {member_id: set() for member_id in member_ids}
    if not partitions:
        return held
    sharing = -(-len(member_ids) // len(partitions))
    quotas = _quotas(len(member_ids), sharing * len(partitions))
    room = dict(zip(member_ids, quotas, strict=True))
    places = Counter(dict.fromkeys(partitions, sharing))
    for member_id in member_ids:
        mine = held[member_id]
        for topic_id, kept in members[member_id].assigned.items():
            for partition in sorted(kept):
                each = (topic_id, partition)
                if room[member_id] and places[each] > 0:
                    mine.add(each)
                    places[each] -= 1
                    room[member_id] -= 1
    free = deque(each for each in partitions for _ in range(places[each]))
    for member_id in member_ids:
        for _ in range(room[member_id]):
            _take(member_id, held, free)
    assert not free, "places are left"
    return held


def _quotas(member_count: int, place_count: int) -> list[int]:
    """Return how many places each member gets, in whole numbers and as even as can be."""
    ends = [-(-place_count * index // member_count) for index in range(member_count + 1)]
    return [end - start for start, end in pairwise(ends)]


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
