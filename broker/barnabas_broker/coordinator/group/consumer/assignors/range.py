"""The assignor `range`: of each topic every subscriber gets a contiguous part.

Members are sorted: static ones first, by instance id, then the others by member id. The first ones
get one partition more where a topic does not divide evenly. Not sticky: the former assignment does
not count. Source: behaviour.md CG-10.
"""

from __future__ import annotations

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, GroupSpec

NAME = "range"


def assign(group: GroupSpec) -> dict[str, Assignment]:
    """Return what each member is to have."""

    def rank(member_id: str) -> tuple[bool, bytes]:
        instance_id = group.members[member_id].instance_id
        name = member_id if instance_id is None else instance_id
        # Java compares strings by their UTF-16 units.
        return instance_id is None, name.encode("utf-16-be", "surrogatepass")

    assigned: dict[str, dict[bytes, frozenset[int]]] = {
        member_id: {} for member_id in sorted(group.members, key=rank)
    }
    subscribers: dict[bytes, list[str]] = {}
    for member_id in assigned:
        for topic_id in group.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in subscribers.items():
        share, extra = divmod(group.partition_counts[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + share + (index < extra)
            if start < end:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)
