"""The round-robin assignor: one partition after the other, to one member after the other.

All partitions of all topics are dealt out in order, to the members in order; a member that does
not want the topic is passed over. Even where all members want the same, lopsided where not.

Source: Kafka's RoundRobinAssignor, whose result this has for every input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from barnabas_client.consumer.assignors.assignor import (
    Assignor,
    GroupMember,
    GroupTopics,
    grouped,
    in_java_order,
    member_order,
)
from barnabas_protocol.consumer_protocol import Assignment


class RoundRobinAssignor(Assignor):
    """Assigns partitions in turn."""

    name: ClassVar[str] = "roundrobin"

    def assign(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> Mapping[str, Assignment]:
        """Every member id with its assignment."""
        ordered = sorted(members, key=member_order)
        wanted = [frozenset(member.subscription.topics) for member in ordered]
        dealt: list[list[tuple[str, int]]] = [[] for _ in ordered]
        at = 0
        for topic in sorted(frozenset().union(*wanted), key=in_java_order):
            for partition in range(topics.partition_counts.get(topic, 0)):
                while topic not in wanted[at]:
                    at = (at + 1) % len(ordered)
                dealt[at].append((topic, partition))
                at = (at + 1) % len(ordered)
        return {
            member.member_id: Assignment(partitions=grouped(hand))
            for member, hand in zip(ordered, dealt, strict=True)
        }
