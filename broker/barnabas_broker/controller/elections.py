"""What happens to partitions when a broker comes, goes or loses a disk: pure commands.

Each returns the records of the partitions alone; the record of the broker itself is its caller's
(`brokers`), and whether that record stands before or after these makes no difference: the commands
take the image of before. Source: LEAD-1 to LEAD-7, LEAD-9, REG-7, REG-8, STOP-3.

A command costs one look at each partition of the cluster (some 50 ns), and some 4 us for each that
changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.controller import eligible_replicas
from barnabas_broker.controller.partition_change import Candidates, Election, change_partition
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas_broker.metadata.records import PartitionRecord

logger = logging.getLogger(__name__)

_Found = tuple[TopicImage, int, PartitionImage]


class ElectionSettings(Protocol):
    """What elections ask of a topic's settings."""

    @property
    def unclean_leader_election_enable(self) -> bool:
        """Whether a replica that is not in sync may lead when nobody else can."""


TopicConfigs = Callable[[MetadataImage, str], ElectionSettings]


def topic_configs(dynamic: DynamicConfig) -> TopicConfigs:
    """Looks up the settings of a topic as an image has them."""
    return lambda image, name: dynamic.log_config(image.config_overrides(RESOURCE_TOPIC, name))


def broker_fenced(
    image: MetadataImage,
    node_id: int,
    configs: TopicConfigs,
    cordoned: Collection[bytes] = (),
) -> list[PartitionRecord]:
    """The broker leads nothing and leaves every ISR (REG-5); it may stay eligible (LEAD-7).

    Before level 2 it stays in the ISR where it is the last one. Also for a broker that registers
    fenced and has lost nothing.
    """
    candidates = Candidates(image, without=node_id, cordoned=cordoned)
    return _removed(image, node_id, candidates, configs, _in_sync(image, node_id))


def broker_shutting_down(
    image: MetadataImage,
    node_id: int,
    configs: TopicConfigs,
    cordoned: Collection[bytes] = (),
) -> list[PartitionRecord]:
    """The broker gives away what others can lead and leaves every ISR but its own (LEAD-5, STOP-3).

    What nobody else in the ISR can lead it goes on leading until it is fenced; such a partition
    moves by itself as soon as another replica is in sync (`isr.alter_partitions`). So what it leads
    after this is what a drain need not wait for (STOP-7).
    """
    candidates = Candidates(image, cordoned=cordoned)
    candidates.live.discard(node_id)
    return _removed(image, node_id, candidates, configs, _in_sync(image, node_id))


def directory_offline(
    image: MetadataImage,
    node_id: int,
    directory_ids: Collection[bytes],
    configs: TopicConfigs,
    cordoned: Collection[bytes] = (),
) -> list[PartitionRecord]:
    """As if fenced, for the replicas in failed log directories of the broker (KIP-858)."""
    offline = frozenset(directory_ids)
    # A device that has failed may have lost what was not flushed.
    candidates = Candidates(image, without=node_id, unclean=node_id, cordoned=cordoned)
    found = (
        (topic, index, partition)
        for topic, index, partition in _in_sync_or_eligible(image, node_id)
        if partition.directories
        and partition.directories[partition.replicas.index(node_id)] in offline
    )
    return _removed(image, node_id, candidates, configs, found)


def unclean_restart(
    image: MetadataImage, node_id: int, configs: TopicConfigs, *, is_fenced: bool = True
) -> list[PartitionRecord]:
    """The broker, which may have lost the end of its logs, leaves each ISR with others (REG-8).

    From level 2 on it leaves every ISR and is not eligible any more. Before, where it is the last
    member, it may lead again, in a new leader epoch: once it is unfenced, or at once if it
    registers unfenced (then `broker_unfenced` is called as well, for the leaderless).
    """
    if eligible_replicas.is_on(image):
        candidates = Candidates(image, without=node_id, unclean=node_id)
        found = _in_sync_or_eligible(image, node_id)
        return _removed(image, node_id, candidates, configs, found)
    if is_fenced:
        return broker_fenced(image, node_id, configs)
    records = []
    others = Candidates(image, without=node_id)
    itself = Candidates(image, adding=node_id)
    for topic, index, partition in _in_sync(image, node_id):
        if partition.leader == NO_LEADER:
            continue
        remaining = _without(partition.isr, node_id)
        record = change_partition(
            topic.topic_id,
            index,
            partition,
            others if remaining else itself,
            isr=remaining or partition.isr,
            renews_leader_epoch=partition.leader == node_id,
        )
        if record is not None:
            records.append(record)
    return records


def broker_unfenced(
    image: MetadataImage, node_id: int, configs: TopicConfigs
) -> list[PartitionRecord]:
    """The broker leads what nobody leads and what it may lead (REG-7)."""
    candidates = Candidates(image, adding=node_id)
    records = []
    for topic, index, partition in _leaderless(image):
        if node_id not in partition.replicas:
            continue
        record = _changed(image, topic, index, partition, candidates, partition.isr, configs)
        if record is not None:
            records.append(record)
    return records


def min_in_sync_changed(image: MetadataImage, after: MetadataImage) -> list[PartitionRecord]:
    """What a change of `min.insync.replicas` makes of eligible replicas; `after` is with it.

    Where the ISR is enough by now its leader raises the high watermark without the others. Kafka
    forgets all eligible replicas of the topics concerned; here those stay that still are.
    """
    if not eligible_replicas.is_on(image):
        return []
    before, candidates = eligible_replicas.MinInSync(image), Candidates(after)
    records = []
    for topic in image.topics.by_id.values():
        if before.of(topic.topic_id) == candidates.min_in_sync.of(topic.topic_id):
            continue
        for index, partition in enumerate(topic.partitions):
            if partition.eligible_leader_replicas or partition.last_known_elr:
                record = change_partition(
                    topic.topic_id, index, partition, candidates, isr=partition.isr
                )
                if record is not None:
                    records.append(record)
    return records


def elect_offline(
    image: MetadataImage,
    configs: TopicConfigs,
    elections_max: int = 1000,
    cordoned: Collection[bytes] = (),
) -> tuple[list[PartitionRecord], bool]:
    """Leaders for partitions that have none and may have one; whether there may be more of them.

    Finds work when a controller takes over (CTL-6), and after unclean elections were allowed for a
    topic (LEAD-9).
    """
    candidates = Candidates(image, cordoned=cordoned)
    records: list[PartitionRecord] = []
    for topic, index, partition in _leaderless(image):
        record = _changed(image, topic, index, partition, candidates, partition.isr, configs)
        if record is None:
            continue
        if len(records) >= elections_max:
            return records, True
        records.append(record)
    return records, False


class Comparison(NamedTuple):
    """Who should lead a partition by how far the logs reach (`log_comparison`)."""

    partition_epoch: int  # of the partition that was looked at
    order: tuple[int, ...]  # the best log first
    broker_epochs: Mapping[int, int]  # under which these have answered
    may_be_unclean: bool  # any other is better than none
    said: str  # what each replica has answered, for people


def compared(
    image: MetadataImage, comparisons: Mapping[tuple[bytes, int], Comparison]
) -> tuple[list[PartitionRecord], int]:
    """Leaders of partitions that had none, by a comparison of their logs; and how many.

    What has changed since the logs were looked at is left as it is: it is looked at again.
    """
    candidates = Candidates(image)
    records: list[PartitionRecord] = []
    for (topic_id, index), found in comparisons.items():
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            continue
        partition = topic.partitions[index]
        if partition.leader != NO_LEADER or partition.partition_epoch != found.partition_epoch:
            continue
        order = [
            node
            for node in found.order
            if node in image.brokers and image.brokers[node].epoch == found.broker_epochs[node]
        ]
        record = change_partition(
            topic_id,
            index,
            partition,
            candidates,
            isr=partition.isr,
            election=Election.UNCLEAN if found.may_be_unclean else Election.COMPARED,
            preference=order,
        )
        if record is None or record.leader == NO_LEADER:
            continue
        records.append(record)
        if record.leader not in partition.eligible_leader_replicas:
            logger.warning(
                "%s-%d had no eligible replica left: broker %d leads it, whose log is the best of "
                "those that answer (%s); records may be lost",
                topic.name,
                index,
                record.leader,
                found.said,
            )
    return records, len(records)


def lost_replicas(
    image: MetadataImage,
    node_id: int,
    places: Sequence[tuple[bytes, int]],
    configs: TopicConfigs,
) -> tuple[list[PartitionRecord], None]:
    """The broker has found that replicas of it have lost records: they leave ISR and ELR."""
    candidates = Candidates(image, without=node_id, unclean=node_id)
    lost = frozenset(places)
    found = (
        (topic, index, partition)
        for topic, index, partition in _in_sync_or_eligible(image, node_id)
        if (topic.topic_id, index) in lost
    )
    return _removed(image, node_id, candidates, configs, found), None


def movable_leaderships(image: MetadataImage, node_id: int) -> int:
    """How many partitions the broker leads that another ISR member could lead (STOP-5)."""
    candidates = Candidates(image, without=node_id)
    return sum(
        any(candidates.may_lead(node, partition) for node in partition.isr)
        for topic in image.topics.by_id.values()
        for partition in topic.partitions
        if partition.leader == node_id
    )


def _in_sync(image: MetadataImage, node_id: int) -> Iterator[_Found]:
    for topic in image.topics.by_id.values():
        for index, partition in enumerate(topic.partitions):
            if node_id in partition.isr:
                yield topic, index, partition


def _in_sync_or_eligible(image: MetadataImage, node_id: int) -> Iterator[_Found]:
    for topic in image.topics.by_id.values():
        for index, partition in enumerate(topic.partitions):
            if node_id in partition.isr or node_id in partition.eligible_leader_replicas:
                yield topic, index, partition


def _leaderless(image: MetadataImage) -> Iterator[_Found]:
    for topic in image.topics.by_id.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER:
                yield topic, index, partition


def _removed(
    image: MetadataImage,
    node_id: int,
    candidates: Candidates,
    configs: TopicConfigs,
    found: Iterator[_Found],
) -> list[PartitionRecord]:
    """The records that take a broker out of the ISR of partitions and away from their lead."""
    records = []
    for topic, index, partition in found:
        isr = _without(partition.isr, node_id)
        record = _changed(image, topic, index, partition, candidates, isr, configs)
        if record is not None:
            records.append(record)
    return records


def _changed(
    image: MetadataImage,
    topic: TopicImage,
    index: int,
    partition: PartitionImage,
    candidates: Candidates,
    isr: tuple[int, ...],
    configs: TopicConfigs,
) -> PartitionRecord | None:
    """The change with a clean election; with an unclean one where that is allowed and needed.

    From level 2 on no election is unclean before the logs have been compared (`log_comparison`).
    """
    record = change_partition(topic.topic_id, index, partition, candidates, isr=isr)
    leader = partition.leader if record is None else record.leader
    if eligible_replicas.is_on(image):
        return record
    if leader == NO_LEADER and configs(image, topic.name).unclean_leader_election_enable:
        return change_partition(
            topic.topic_id, index, partition, candidates, isr=isr, election=Election.UNCLEAN
        )
    return record


def _without(nodes: tuple[int, ...], removed: int) -> tuple[int, ...]:
    return tuple([node for node in nodes if node != removed])
