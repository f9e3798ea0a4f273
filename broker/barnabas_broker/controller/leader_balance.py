"""Leadership given back to preferred replicas, and elections on an administrator's demand: pure.

The preferred replica of a partition is its first one: placement spreads those evenly, failovers
undo that, and a look from time to time restores it (LEAD-4, LEAD-8). Source: KIP-183, KIP-460.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from barnabas_broker.controller.partition_change import (
    Candidates,
    Election,
    PartitionChanges,
    change_partition,
)
from barnabas_broker.controller.partitions import PARTITIONS_PER_REQUEST_MAX
from barnabas_broker.controller.reassignment import TOO_MANY_CHANGES
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from barnabas_broker.metadata.records import PartitionRecord
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

# One pass makes no more elections than this, so that other commands are not kept waiting (CTL-8).
ELECTIONS_MAX: Final = 1000
# Coordinators go on where the disk is full, and a move of theirs interrupts their groups.
_INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


class ElectionType(IntEnum):
    """What an administrator may ask for, by its number on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedResult:
    """What became of one partition's election."""

    topic: str
    partition: int
    error: KafkaError | None = None


def plan(
    image: MetadataImage, elections_max: int = ELECTIONS_MAX, cordoned: Collection[int] = ()
) -> tuple[list[PartitionRecord], bool]:
    """The records that let preferred replicas lead where they can; whether there may be more."""
    candidates = Candidates(image)
    records: list[PartitionRecord] = []
    for topic, index, partition in _imbalanced(image):
        preferred = partition.replicas[0]
        if preferred in cordoned and partition.leader not in (NO_LEADER, *cordoned):
            continue  # its disk is filling up (VOL-4)
        if preferred not in partition.isr or not candidates.may_lead(preferred, partition):
            continue
        if len(records) >= elections_max:
            return records, True
        record = change_partition(
            topic.topic_id,
            index,
            partition,
            candidates,
            isr=partition.isr,
            election=Election.PREFERRED,
        )
        if record is not None:
            records.append(record)
    return records, False


def relieve(
    image: MetadataImage, cordoned: Collection[int], elections_max: int = ELECTIONS_MAX
) -> tuple[list[PartitionRecord], bool]:
    """The records that take client topics from leaders whose disks fill up (VOL-4).

    Where a replica in sync has room; else the leader stays. Whether there may be more.
    """
    candidates = Candidates(image)
    candidates.live -= set(cordoned)
    records: list[PartitionRecord] = []
    if not cordoned:
        return records, False
    for topic in image.topics.by_id.values():
        if topic.name in _INTERNAL_TOPICS:
            continue
        for index, partition in enumerate(topic.partitions):
            if partition.leader not in cordoned:
                continue
            record = change_partition(
                topic.topic_id, index, partition, candidates, isr=partition.isr
            )
            if record is None or record.leader in (partition.leader, NO_LEADER):
                continue
            if len(records) >= elections_max:
                return records, True
            records.append(record)
    return records, False


def imbalanced_count(image: MetadataImage) -> int:
    """How many partitions are not led by their preferred replica, leaderless ones included."""
    return sum(1 for _ in _imbalanced(image))


def _imbalanced(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics.by_id.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader != partition.replicas[0]:
                yield topic, index, partition


def elect_leaders(
    image: MetadataImage,
    election_type: int,
    asked: Sequence[tuple[str, int]] | None,
    best_logs: Mapping[tuple[bytes, int], Sequence[int]] = MappingProxyType({}),
    cordoned: Collection[bytes] = (),
) -> tuple[list[PartitionRecord], list[ElectedResult]]:
    """The records of the elections asked for, of all partitions if None, and a result for each.

    An unclean election is held whatever the topic's settings say: it is for the case that nothing
    else helps. `best_logs` are the nodes to try first, by topic id and partition. Errors: 3, 84 if
    the leader is already as wanted (left out where all partitions are meant), 80 and 83 if there is
    nobody to elect.
    Raises: KafkaError 42 for a type that is not known, 44 if too much is asked at once.
    """
    try:
        election_type = ElectionType(election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}"
        ) from None
    candidates = Candidates(image, cordoned=cordoned)
    changes = PartitionChanges(image)
    results = []
    everything = asked is None
    for name, index in _all_partitions(image) if asked is None else asked:
        error = _elect(image, election_type, name, index, candidates, changes, best_logs)
        if len(changes.records) > PARTITIONS_PER_REQUEST_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_CHANGES)
        if everything and error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        results.append(ElectedResult(topic=name, partition=index, error=error))
    return changes.records, results


def places(
    image: MetadataImage, asked: Sequence[tuple[str, int]] | None
) -> list[tuple[bytes, int]]:
    """Topic id and partition of those asked for that there are, of all if None."""
    return [
        (topic.topic_id, index)
        for name, index in (_all_partitions(image) if asked is None else asked)
        if (topic := image.topics.by_name.get(name)) is not None
        and 0 <= index < len(topic.partitions)
    ]


def _all_partitions(image: MetadataImage) -> Iterator[tuple[str, int]]:
    for topic in image.topics.by_name.values():
        for index in range(len(topic.partitions)):
            yield topic.name, index


def _elect(
    image: MetadataImage,
    election_type: int,
    name: str,
    index: int,
    candidates: Candidates,
    changes: PartitionChanges,
    best_logs: Mapping[tuple[bytes, int], Sequence[int]],
) -> KafkaError | None:
    topic = image.topics.by_name.get(name)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = changes.partition(topic.topic_id, index)
    if partition is None:
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        )
    is_preferred = election_type == ElectionType.PREFERRED
    if partition.leader == partition.replicas[0] or (
        not is_preferred and partition.leader != NO_LEADER
    ):
        return KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    record = change_partition(
        topic.topic_id,
        index,
        partition,
        candidates,
        isr=partition.isr,
        election=Election.PREFERRED if is_preferred else Election.UNCLEAN,
        preference=best_logs.get((topic.topic_id, index), ()),
    )
    if record is not None:
        changes.add(record)
        if record.leader not in (*partition.isr, *partition.eligible_leader_replicas):
            logger.warning(
                "%s-%d: broker %d leads it by an unclean election that was asked for; "
                "records may be lost",
                name,
                index,
                record.leader,
            )
        return None
    if is_preferred:
        return KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )
