"""The base class of assignors, which the leader of a classic group assigns partitions with.

Not here: how the group comes to an agreement on one of them (`group/classic.py`).

A program may bring its own: derive from `Assignor`, give it a name that all members of the group
use, and pass an object of it in `partition_assignment_strategy`.

Source: Kafka's ConsumerPartitionAssignor; KIP-429 (cooperative), KIP-881 (racks).
Invariants: `assign` is a pure function of its arguments. It gives every member an assignment, if
only an empty one, and no partition to two members.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from barnabas_protocol.consumer_protocol import Assignment, Partitions, Subscription
from barnabas_protocol.ids import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member as the leader sees it."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTopics:
    """The topics that members want and that exist.

    `racks` has, by topic and then by partition number, the racks on which replicas are; a topic
    that is missing there has its replicas in no known rack.
    """

    partition_counts: Mapping[str, int]
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)


class Assignor(ABC):
    """Assigns partitions to the members of a classic group."""

    name: ClassVar[str]
    # Whether a member may keep its partitions through a rebalance; only if all assignors that are
    # configured can do it, it is done.
    is_cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> Mapping[str, Assignment]:
        """Every member id with its assignment.

        A cooperative assignor leaves out a partition that another member still owns: it is given
        away in the rebalance that follows.
        """

    def user_data(
        self, topics: Iterable[str], previous: Partitions | None, generation_id: int
    ) -> bytes | None:
        """What the subscription says to the leader's assignor.

        `previous` is what this member got last, in `generation_id`; None if it never got anything.
        """
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:  # noqa: B027
        """Called with the assignment of this member."""


def in_java_order(text: str) -> bytes:
    """The sort key that orders as Java's strings do: by UTF-16 code units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(member: GroupMember) -> tuple[bool, bytes]:
    """The sort key of members: static ones first, by instance id, then the others by member id."""
    instance_id = member.group_instance_id
    if instance_id is not None:
        return False, in_java_order(instance_id)
    return True, in_java_order(member.member_id)


def grouped(partitions: Iterable[tuple[str, int]]) -> Partitions:
    """The partitions by topic, in the order of their first appearance."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers = by_topic.get(topic)
        if numbers is None:
            by_topic[topic] = [partition]
        else:
            numbers.append(partition)
    return {topic: tuple(numbers) for topic, numbers in by_topic.items()}


def flattened(partitions: Partitions | None) -> list[TopicPartition]:
    """The single partitions, in order."""
    if not partitions:
        return []
    return [
        TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers
    ]
