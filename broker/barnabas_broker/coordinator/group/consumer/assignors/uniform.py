"""The assignor `uniform`: equal numbers of partitions, and as few moves as possible.

Members that all subscribe to the same topics are assigned here; for others see
`uniform_mixed.py`. Source: behaviour.md CG-11.

    every member may have the minimum (partitions div members), and as long as there are extra ones
    (partitions mod members) one more. In the order of the members: who has more than it may gives
    the rest up; who has room hands the right to an extra one on, unless only the members that
    follow would be too few to take them all. What is free then goes to those with room.
"""

from __future__ import annotations

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, GroupSpec
from barnabas_broker.coordinator.group.consumer.assignors.hash_order import (
    copied_capacity,
    grown_capacity,
    in_hash_order,
    members_in_order,
    partitions_in_order,
    uuid_hash,
)
from barnabas_broker.coordinator.group.consumer.assignors.uniform_mixed import MixedAssignment

NAME = "uniform"


def assign(group: GroupSpec) -> dict[str, Assignment]:
    """Return what each member is to have."""
    if not group.members:
        return {}
    if group.is_homogeneous:
        return _assign_alike(group)
    return MixedAssignment(group).assign()


def _assign_alike(group: GroupSpec) -> dict[str, Assignment]:
    topic_ids = next(iter(group.members.values())).topic_ids
    if not topic_ids:
        return {}
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in taken:
                taken[topic_id] |= partitions
    free = [
        (topic_id, partition)
        for topic_id in in_hash_order(sorted(topic_ids), uuid_hash, copied_capacity(len(topic_ids)))
        for partition in range(group.partition_counts[topic_id])
        if partition not in taken[topic_id]
    ]
    total = sum(group.partition_counts[topic_id] for topic_id in topic_ids)
    minimum, extras = divmod(total, len(group.members))
    kept: dict[str, Assignment] = {}
    rooms: list[tuple[str, int]] = []
    for index, member_id in enumerate(members_in_order(group.members)):
        takes_extra = extras > 0
        assigned = group.members[member_id].assigned
        kept[member_id], given_up, room = _keep(assigned, topic_ids, minimum + takes_extra)
        free += given_up
        if room and takes_extra and len(group.members) - index > extras:
            room -= 1
            takes_extra = False
        if room:
            rooms.append((member_id, room))
        extras -= takes_extra
    fill(kept, rooms, free)
    return kept


def _keep(
    assigned: Assignment, topic_ids: frozenset[bytes], quota: int
) -> tuple[Assignment, list[tuple[bytes, int]], int]:
    """Return what a member keeps, what it gives up, and for how many more it has room."""
    room = quota - sum(map(len, assigned.values()))
    if room >= 0 and assigned.keys() <= topic_ids:
        return assigned, [], room
    kept: dict[bytes, frozenset[int]] = {}
    given_up: list[tuple[bytes, int]] = []
    for topic_id in in_hash_order(sorted(assigned), uuid_hash, grown_capacity(len(assigned))):
        if topic_id not in topic_ids:
            continue
        ordered = partitions_in_order(assigned[topic_id])
        if quota:
            kept[topic_id] = frozenset(ordered[:quota])
        given_up += [(topic_id, partition) for partition in ordered[quota:]]
        quota = max(0, quota - len(ordered))
    return kept, given_up, quota


def fill(
    kept: dict[str, Assignment], rooms: list[tuple[str, int]], free: list[tuple[bytes, int]]
) -> None:
    """Give free partitions, in their order, to members that have room for so many more."""
    start = 0
    for member_id, room in rooms:
        added: dict[bytes, set[int]] = {}
        for topic_id, partition in free[start : start + room]:
            added.setdefault(topic_id, set()).add(partition)
        start += room
        if added:
            before = kept[member_id]
            kept[member_id] = {
                **before,
                **{
                    topic_id: before.get(topic_id, frozenset()) | partitions
                    for topic_id, partitions in added.items()
                },
            }
    assert start >= len(free), "partitions are left"
