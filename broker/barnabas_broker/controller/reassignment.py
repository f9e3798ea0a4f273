"""Moving partitions to other brokers, as an administrator asks: pure commands (LEAD-10).

While a reassignment runs, a partition's replicas are the wanted ones and then those that will go.
It is closed by whatever change makes the ISR sufficient (`partition_change.completed`), mostly a
change of the ISR itself. All of its state is in the partition, so that it outlives the controller.
Source: KIP-455, KIP-860. The texts of refusals are Kafka's: its tools print them.

Unlike Kafka, a target that replaces another one, not reached yet, is measured against the replicas
of before both: cancelling goes back to those, and going back to them on purpose is possible.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas_broker.controller import eligible_replicas
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.controller.partition_change import (
    Assignment,
    Candidates,
    Election,
    PartitionChanges,
    change_partition,
    directories_of,
)
from barnabas_broker.controller.partitions import PARTITIONS_PER_REQUEST_MAX, check_assignment
from barnabas_broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas_broker.metadata.records import PartitionRecord
from barnabas_protocol.errors import ErrorCode, KafkaError

TOO_MANY_CHANGES: Final = "Unable to perform excessively large batch operation."


class Reassigned(NamedTuple):
    """A partition and the replicas that it shall have; None cancels what is under way."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignedResult:
    """What became of one partition's reassignment."""

    topic: str
    partition: int
    error: KafkaError | None = None


class Ongoing(NamedTuple):
    """A partition that is being reassigned."""

    topic: str
    partition: int
    state: PartitionImage


def alter(
    image: MetadataImage,
    asked: Sequence[Reassigned],
    configs: TopicConfigs,
    *,
    may_change_factor: bool = True,
    cordoned: Collection[bytes] = (),
) -> tuple[list[PartitionRecord], list[ReassignedResult]]:
    """The records that begin, replace and cancel reassignments, and a result for each.

    Errors: 3 for what does not exist, 39 for a bad target and for a cancellation that would lose
    records, 38 for another number of replicas where that may not change, 85 if there is nothing to
    cancel. Raises: KafkaError 44 if too much is asked at once.
    """
    if len(asked) > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_CHANGES)
    candidates = Candidates(image, cordoned=cordoned)
    changes = PartitionChanges(image)
    results = []
    for item in asked:
        error = None
        try:
            record = _alter(image, item, configs, candidates, changes, may_change_factor)
            if record is not None:
                changes.add(record)
        except KafkaError as raised:
            error = raised
        results.append(ReassignedResult(topic=item.topic, partition=item.partition, error=error))
    return changes.records, results


def list_ongoing(
    image: MetadataImage, asked: Sequence[tuple[str, Sequence[int]]] | None = None
) -> list[Ongoing]:
    """The partitions being reassigned, of all topics or of those asked for (names, partitions)."""
    if asked is None:
        return [
            Ongoing(topic.name, index, partition)
            for topic in image.topics.by_name.values()
            for index, partition in enumerate(topic.partitions)
            if partition.is_reassigning
        ]
    return [
        Ongoing(name, index, topic.partitions[index])
        for name, indexes in asked
        if (topic := image.topics.by_name.get(name)) is not None
        for index in indexes
        if 0 <= index < len(topic.partitions) and topic.partitions[index].is_reassigning
    ]


def _alter(
    image: MetadataImage,
    asked: Reassigned,
    configs: TopicConfigs,
    candidates: Candidates,
    changes: PartitionChanges,
    may_change_factor: bool,
) -> PartitionRecord | None:
    topic = image.topics.by_name.get(asked.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {asked.topic}."
        )
    partition = changes.partition(topic.topic_id, asked.partition)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {asked.topic}:{asked.partition}.",
        )
    election = Election.ONLINE
    if asked.replicas is None:
        if configs(image, topic.name).unclean_leader_election_enable:
            election = Election.UNCLEAN
        assignment = Assignment(_original(partition))
        isr = _reverted_isr(
            topic, asked.partition, partition, election, has_elr=eligible_replicas.is_on(image)
        )
    else:
        target = tuple(asked.replicas)
        check_assignment(image, asked.partition, target, None, kept=partition.replicas)
        if not may_change_factor and len(partition.target_replicas) != len(target):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {len(partition.target_replicas)} to "
                f"{len(target)}",
            )
        assignment = retarget(partition, target)
        isr = tuple(node for node in partition.isr if node in assignment.replicas)
    directories = directories_of(image, partition, assignment.replicas)
    return change_partition(
        topic.topic_id,
        asked.partition,
        partition,
        candidates,
        isr=isr,
        election=election,
        assignment=assignment,
        directories=directories,
    )


def retarget(partition: PartitionImage, target: tuple[int, ...]) -> Assignment:
    """What the partition becomes on its way to a target.

    A replica that only an earlier target had wanted goes: at once if it is not in sync, nor was the
    last to be so, otherwise with those that the reassignment removes, as it may be one of the last
    with all records.
    """
    original = _original(partition)
    had_all = {*partition.isr, *partition.eligible_leader_replicas, *partition.last_known_elr}
    abandoned = [
        node for node in partition.adding_replicas if node in had_all and node not in target
    ]
    removing = sorted(node for node in original if node not in target) + sorted(abandoned)
    adding = sorted(node for node in target if node not in original) + sorted(abandoned)
    return Assignment((*target, *removing), tuple(adding), tuple(removing))


def _original(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas that a cancellation goes back to; as in Kafka, those that stay come first."""
    return tuple(node for node in partition.replicas if node not in partition.adding_replicas)


def _reverted_isr(
    topic: TopicImage,
    index: int,
    partition: PartitionImage,
    election: Election,
    *,
    has_elr: bool,
) -> tuple[int, ...]:
    """The ISR without the added replicas. Raises: KafkaError 85, 39.

    Where unclean elections are allowed it may have nobody; then the election takes who was in sync
    last. Before level 2 an ISR has somebody, and the first replica is as good as any.
    """
    if not partition.is_reassigning:
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    isr = tuple(node for node in partition.isr if node not in partition.adding_replicas)
    is_eligible = not set(partition.eligible_leader_replicas) <= set(partition.adding_replicas)
    if not isr and is_eligible:
        return isr  # one of those that stay takes over
    if not isr and election is not Election.UNCLEAN:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{index} because it would "
            "require an unclean leader election.",
        )
    return isr if isr or has_elr else _original(partition)[:1]
