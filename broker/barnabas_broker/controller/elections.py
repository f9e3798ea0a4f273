"""What happens to partitions when a broker comes, goes or loses a disk: pure commands.

Each returns the records of the partitions alone; the record of the broker itself is its caller's
(`brokers`), and whether that record stands before or after these makes no difference: the commands
take the image of before. Source: LEAD-1 to LEAD-6, LEAD-9, REG-7, REG-8, STOP-3.

A command costs one look at each partition of the cluster (some 50 ns), and some 4 us for each that
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.controller.partition_change import Candidates, Election, change_partition
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas_broker.metadata.records import PartitionRecord

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
    image: MetadataImage, node_id: int, configs: TopicConfigs
) -> list[PartitionRecord]:
    """The broker leads nothing and leaves every ISR, except where it is the last (REG-5).

    Also for a broker that registers fenced after a clean stop, and for one that is unregistered.
    """
    candidates = Candidates(image.brokers, without=node_id)
    return _removed(image, node_id, candidates, configs, _in_sync(image, node_id))


def broker_shutting_down(
    image: MetadataImage, node_id: int, configs: TopicConfigs
) -> list[PartitionRecord]:
    """The broker gives away what others can lead and leaves every ISR but its own (LEAD-5, STOP-3).

    What nobody else in the ISR can lead it goes on leading until it is fenced; such a partition
    moves by itself as soon as another replica is in sync (`isr.alter_partitions`). So what it leads
    after this is what a drain need not wait for (STOP-7).
    """
    candidates = Candidates(image.brokers)
    candidates.live.discard(node_id)
    return _removed(image, node_id, candidates, configs, _in_sync(image, node_id))


def directory_offline(
    image: MetadataImage, node_id: int, directory_ids: Collection[bytes], configs: TopicConfigs
) -> list[PartitionRecord]:
    """As if fenced, for the replicas in failed log directories of the broker (KIP-858)."""
    offline = frozenset(directory_ids)
    candidates = Candidates(image.brokers, without=node_id)
    found = (
        (topic, index, partition)
        for topic, index, partition in _in_sync(image, node_id)
        if partition.directories
        and partition.directories[partition.replicas.index(node_id)] in offline
    )
    return _removed(image, node_id, candidates, configs, found)


def unclean_restart(
    image: MetadataImage, node_id: int, configs: TopicConfigs, *, is_fenced: bool = True
) -> list[PartitionRecord]:
    """The broker, which may have lost the end of its logs, leaves each ISR with others (REG-8).

    Where it is the last member it may lead again, in a new leader epoch: once it is unfenced, or at
    once if it registers unfenced (then `broker_unfenced` is called as well, for the leaderless).
    """
    if is_fenced:
        return broker_fenced(image, node_id, configs)
    records = []
    others = Candidates(image.brokers, without=node_id)
    itself = Candidates(image.brokers, adding=node_id)
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
    candidates = Candidates(image.brokers, adding=node_id)
    records = []
    for topic, index, partition in _leaderless(image):
        if node_id not in partition.replicas:
            continue
        record = _changed(image, topic, index, partition, candidates, partition.isr, configs)
        if record is not None:
            records.append(record)
    return records


def elect_offline(
    image: MetadataImage, configs: TopicConfigs, elections_max: int = 1000
) -> tuple[list[PartitionRecord], bool]:
    """Leaders for partitions that have none and may have one; whether there may be more of them.

    Finds work when a controller takes over (CTL-6), and after unclean elections were allowed for a
    topic (LEAD-9).
    """
    candidates = Candidates(image.brokers)
    records: list[PartitionRecord] = []
    for topic, index, partition in _leaderless(image):
        record = _changed(image, topic, index, partition, candidates, partition.isr, configs)
        if record is None:
            continue
        if len(records) >= elections_max:
            return records, True
        records.append(record)
    return records, False


def movable_leaderships(image: MetadataImage, node_id: int) -> int:
    """How many partitions the broker leads that another ISR member could lead (STOP-5)."""
    candidates = Candidates(image.brokers, without=node_id)
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
    """The change with a clean election; with an unclean one where that is allowed and needed."""
    record = change_partition(topic.topic_id, index, partition, candidates, isr=isr)
    leader = partition.leader if record is None else record.leader
    if leader == NO_LEADER and configs(image, topic.name).unclean_leader_election_enable:
        return change_partition(
            topic.topic_id, index, partition, candidates, isr=isr, election=Election.UNCLEAN
        )
    return record


def _without(nodes: tuple[int, ...], removed: int) -> tuple[int, ...]:
    return tuple([node for node in nodes if node != removed])
