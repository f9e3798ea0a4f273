"""Partitions: given assignments checked, new ones made, topics grown; pure.

Source: TOP-4, TOP-8, TOP-13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_broker.controller.directories import initial_directories
from barnabas_broker.controller.mutation_quota import MutationQuota
from barnabas_broker.controller.placement import Assignment, PlacementBroker, place
from barnabas_broker.controller.replica_limit import UNLIMITED, ReplicaLimit
from barnabas_broker.env.randomness import Random
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage, TopicImage
from barnabas_broker.metadata.quorum.members_plan import is_leaving
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord
from barnabas_protocol.errors import ErrorCode, KafkaError

# More partitions in one request would make one batch of the metadata log too large.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

# Keys are mapped to their partitions by the count, so that another count would hide what is there.
FIXED_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A topic and how many partitions it shall have; assignments are for the new ones alone."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitionsResult:
    """What became of one topic's growth."""

    name: str
    error: KafkaError | None = None


def create_partitions(
    image: MetadataImage,
    topics: Sequence[NewPartitions],
    *,
    random: Random,
    validate_only: bool = False,
    cordoned: Collection[int] = (),
    replicas_max: int = UNLIMITED,
    quota: MutationQuota | None = None,
) -> tuple[list[MetadataRecord], list[NewPartitionsResult]]:
    """The records of the new partitions, and a result for each topic."""
    records: list[MetadataRecord] = []
    results: list[NewPartitionsResult] = []
    counts = Counter(topic.name for topic in topics)
    total = sum(_new_count(image, topic) for topic in topics)
    room = ReplicaLimit(image, replicas_max)
    for topic in topics:
        error: KafkaError | None = None
        try:
            if total > PARTITIONS_PER_REQUEST_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request.",
                )
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            grown = _grow(image, topic, random, cordoned)
            room.take([record.replicas for record in grown])
            if quota is not None:
                quota.take(len(grown))
            records += grown
        except KafkaError as raised:
            error = raised
        results.append(NewPartitionsResult(name=topic.name, error=error))
    return ([] if validate_only else records), results


def _new_count(image: MetadataImage, asked: NewPartitions) -> int:
    topic = image.topics.by_name.get(asked.name)
    return 0 if topic is None else max(asked.count - len(topic.partitions), 0)


def _grow(
    image: MetadataImage, asked: NewPartitions, random: Random, cordoned: Collection[int]
) -> list[PartitionRecord]:
    topic = image.topics.by_name.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if asked.name in FIXED_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions of {asked.name} cannot be changed: it says which of them "
            "holds the offsets of a group.",
        )
    if any(partition.is_reassigning for partition in topic.partitions):
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{asked.name}'.",
        )
    old_count = len(topic.partitions)
    if asked.count == old_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {old_count} partition(s)."
        )
    if asked.count < old_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {old_count} partition(s); {asked.count} "
            "would not be an increase.",
        )
    assignments = _new_assignments(image, topic, asked, random, cordoned)
    return new_partitions(image, topic.topic_id, assignments, first_index=old_count)


def _new_assignments(
    image: MetadataImage,
    topic: TopicImage,
    asked: NewPartitions,
    random: Random,
    cordoned: Collection[int],
) -> list[Assignment]:
    old_count = len(topic.partitions)
    first_replicas = topic.partitions[0].replicas
    wanted = asked.count - old_count
    if asked.assignments is not None:
        assignments = [tuple(replicas) for replicas in asked.assignments]
        if len(assignments) != wanted:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {wanted} additional partition(s), but only "
                f"{len(assignments)} assignment(s) were specified.",
            )
        for index, replicas in enumerate(assignments, old_count):
            check_assignment(image, index, replicas, len(first_replicas))
        return assignments
    brokers = placement_brokers(image, cordoned)
    live = sorted(broker.node_id for broker in brokers if not broker.fenced)
    # Where partition 0 begins tells where the earlier placement had started (TOP-13).
    start = live.index(first_replicas[0]) if first_replicas[0] in live else 0
    return place(
        brokers,
        wanted,
        len(first_replicas),
        random,
        first_partition=old_count,
        start_index=start,
    )


def new_partitions(
    image: MetadataImage,
    topic_id: bytes,
    assignments: Sequence[Assignment],
    *,
    first_index: int = 0,
) -> list[PartitionRecord]:
    """Partitions in their first state: live replicas in sync, the first of them leads (TOP-8)."""
    # Of thousands of partitions many have the same replicas, in the same order.
    states: dict[Assignment, tuple[tuple[int, ...], int, tuple[bytes, ...]]] = {}
    records = []
    for index, replicas in enumerate(assignments, first_index):
        state = states.get(replicas)
        if state is None:
            live = tuple(live_replicas(image, replicas))
            leader = live[0] if live else NO_LEADER
            state = states[replicas] = live, leader, initial_directories(image, replicas)
        live, leader, directories = state
        records.append(PartitionRecord(topic_id, index, replicas, live, leader, 0, 0, directories))
    return records


def live_replicas(image: MetadataImage, replicas: Sequence[int]) -> list[int]:
    """Those of the replicas whose broker may lead, in order."""
    return [node_id for node_id in replicas if _is_live(image, node_id)]


def placement_brokers(
    image: MetadataImage, cordoned: Collection[int] = ()
) -> list[PlacementBroker]:
    """The brokers that may get replicas (TOP-12).

    Those that are shutting down may not, nor those that are to go for good: they are taken away
    when they hold nothing, and nobody would come to move what they got in between.
    """
    return [
        PlacementBroker(broker.node_id, broker.rack, broker.fenced, broker.node_id in cordoned)
        for broker in image.brokers.values()
        if not broker.is_shutting_down and not is_leaving(image, broker.node_id)
    ]


def _is_live(image: MetadataImage, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is not None and not broker.fenced and not broker.is_shutting_down


def assigned_partitions(assignments: Sequence[tuple[int, Sequence[int]]]) -> list[Assignment]:
    """Replicas in the order of the partitions. Raises: KafkaError 39 for gaps and repetitions."""
    by_index: dict[int, Assignment] = {}
    for index, replicas in assignments:
        if index in by_index:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        by_index[index] = tuple(replicas)
    if by_index.keys() != set(range(len(by_index))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [by_index[index] for index in range(len(by_index))]


def check_assignment(
    image: MetadataImage,
    index: int,
    replicas: Assignment,
    replication_factor: int | None,
    kept: Collection[int] = (),
) -> None:
    """Check the given replicas of one partition (TOP-4). Raises: KafkaError 39.

    `kept` are those that it has already: a broker that is to go for good gets no others. Without a
    replication factor it is the target of a reassignment: neither its size nor whether its brokers
    are there at the moment matters (LEAD-10).
    """
    complaint = None
    # The list may be as long as a request. Of more replicas than there are brokers one is unknown,
    # or there twice, so the others need no look.
    counts = Counter(replicas[: len(image.brokers) + 1])
    unknown = sorted(node_id for node_id in counts if node_id not in image.brokers)
    repeated = sorted(node_id for node_id, count in counts.items() if count > 1)
    leaving = (
        []
        if unknown
        else [node for node in sorted(counts.keys() - set(kept)) if is_leaving(image, node)]
    )
    prefix = "The manual partition assignment includes"
    if not replicas:
        complaint = f"{prefix} an empty replica list."
    elif unknown:
        complaint = f"{prefix} broker {unknown[0]}, but no such broker is registered."
    elif repeated:
        complaint = f"{prefix} the broker {repeated[0]} more than once."
    elif leaving:
        complaint = f"{prefix} broker {leaving[0]}, which is to go for good."
    elif replication_factor is None:
        return
    elif len(replicas) != replication_factor:
        complaint = (
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s)."
        )
    elif not live_replicas(image, replicas):
        complaint = (
            f"All brokers specified in the manual partition assignment for partition {index} "
            "are fenced or in controlled shutdown."
        )
    if complaint is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, complaint)
