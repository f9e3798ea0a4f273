"""What the members of a share group are to have, and whether that may change.

Source: KIP-932, SHR-28, SHR-29. Invariant: only partitions whose state is initialized are assigned.
"""

from __future__ import annotations

import hashlib

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, MemberSpec
from barnabas_broker.coordinator.group.consumer.targets import subscription_hash, topic_ids_of
from barnabas_broker.coordinator.group.share import simple
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.group.topics import Topics


def compute_targets(group: ShareGroup, topics: Topics) -> dict[str, Assignment]:
    """Return the target of every member."""
    counts: dict[bytes, int] = {}
    # Members mostly subscribe alike: then they have one set in common.
    ids_by_names: dict[frozenset[str], frozenset[bytes]] = {}
    members: dict[str, MemberSpec] = {}
    for member_id, member in group.members.items():
        topic_ids = ids_by_names.get(member.topics)
        if topic_ids is None:
            topic_ids = ids_by_names[member.topics] = topic_ids_of(member.topics, topics, counts)
        members[member_id] = MemberSpec(topic_ids=topic_ids, assigned=group.target_of(member_id))
    partitions = {
        topic_id: [
            each for each in sorted(group.partitions.initialized_of(topic_id)) if each < count
        ]
        for topic_id, count in counts.items()
    }
    return simple.assign(members, partitions)


def metadata_hash(group: ShareGroup, topics: Topics) -> int:
    """Return a number that is another one when something that can be assigned changes.

    Over the subscribed topics, as of consumer groups, and which of their partitions are
    initialized: those are never taken back one by one, so their count and sum tell.
    """
    subscribed = subscription_hash(group.name_counts, topics)
    initialized = [
        (topic_id, group.partitions.initialized_of(topic_id))
        for topic_id in sorted(topic_ids_of(frozenset(group.name_counts), topics))
    ]
    if not any(partitions for _, partitions in initialized):
        return subscribed
    digest = hashlib.blake2b(subscribed.to_bytes(8, "big", signed=True), digest_size=8)
    for topic_id, partitions in initialized:
        digest.update(b"%b%d:%d." % (topic_id, len(partitions), sum(partitions)))
    return int.from_bytes(digest.digest(), "big", signed=True)
