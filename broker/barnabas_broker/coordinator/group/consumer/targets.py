"""Computes the target of a group: what each member is to have, and whether that may change.

Source: KIP-848, CG-1, CG-2. Not here: the assignors, and how members get there
(`reconciliation.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from barnabas_broker.coordinator.group.consumer.assignors import range as range_assignor
from barnabas_broker.coordinator.group.consumer.assignors import uniform
from barnabas_broker.coordinator.group.consumer.assignors.group_spec import (
    NOTHING,
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
)
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.topics import Topics

ASSIGNORS: Mapping[str, Assignor] = {
    uniform.NAME: uniform.assign,
    range_assignor.NAME: range_assignor.assign,
}


def compute_targets(group: ConsumerGroup, assignor: str, topics: Topics) -> dict[str, Assignment]:
    """Return the target of every member."""
    counts: dict[bytes, int] = {}
    # Members mostly subscribe alike: then they share one set, which is compared at once.
    ids_by_subscription: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
    members: dict[str, MemberSpec] = {}
    for member_id, member in group.members.items():
        subscription = (member.topics, member.pattern)
        topic_ids = ids_by_subscription.get(subscription)
        if topic_ids is None:
            topic_ids = topic_ids_of(group.topics_of(member), topics, counts)
            ids_by_subscription[subscription] = topic_ids
        members[member_id] = MemberSpec(
            topic_ids=topic_ids,
            assigned=group.target_of(member_id),
            instance_id=member.instance_id,
        )
    assigned = ASSIGNORS[assignor](GroupSpec(members=members, partition_counts=counts))
    return {member_id: assigned.get(member_id, NOTHING) for member_id in members}


def topic_ids_of(
    names: frozenset[str], topics: Topics, counts: dict[bytes, int] | None = None
) -> frozenset[bytes]:
    """Return the ids of those topics that exist; notes their partition counts."""
    topic_ids = []
    for name in names:
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            topic_ids.append(topic_id)
            if counts is not None:
                counts[topic_id] = topics.partition_count(name)
    return frozenset(topic_ids)


def subscription_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a number that is another one when something of the subscribed topics changes.

    Over id, name and partition count of each topic that exists, as signed 64 bits; 0 if none does.
    Kafka takes XXH3, and the racks of partitions beside: its assignors ignore racks, and a number
    of another origin costs a group that moves here one group epoch (formats.md 10).
    """
    digest = hashlib.blake2b(digest_size=8)
    has_any = False
    for name in sorted(names):
        topic_id = topics.topic_id(name)
        if topic_id is None:
            continue
        has_any = True
        encoded = name.encode()
        count = topics.partition_count(name)
        digest.update(b"%b%d:%b%d." % (topic_id, len(encoded), encoded, count))
    return int.from_bytes(digest.digest(), "big", signed=True) if has_any else 0
