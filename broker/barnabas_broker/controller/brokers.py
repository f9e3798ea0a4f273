"""Registration of brokers, and whether they are fenced: pure commands.

A registration is accepted under a new, higher broker epoch, the offset of its record (REG-4), and
requests that carry an older one are refused. A broker that comes back without having stopped
cleanly may have lost the end of its logs, so what it leads gets a new leader epoch (REG-8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas_broker.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from barnabas_broker.metadata.records import (
    BrokerRecord,
    BrokerStateRecord,
    ListenerAddress,
    MetadataRecord,
    PartitionRecord,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker tells of itself (REG-1)."""

    node_id: int
    incarnation_id: bytes
    cluster_id: str
    listeners: tuple[ListenerAddress, ...]
    rack: str | None = None
    directories: tuple[bytes, ...] = ()
    # The epoch that the clean-shutdown marker names; any other means an unclean stop.
    previous_broker_epoch: int = NO_EPOCH
    # A broker that has still to catch up with the metadata registers fenced and is unfenced later.
    is_fenced: bool = False


def check_broker_epoch(image: MetadataImage, node_id: int, broker_epoch: int) -> BrokerImage:
    """The registered broker. Raises: KafkaError 102 if there is none, 77 if the epoch is old."""
    broker = image.brokers.get(node_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {node_id} is not registered")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch} but got broker epoch {broker_epoch}",
        )
    return broker


def register(
    image: MetadataImage, registration: Registration, *, has_session: bool
) -> tuple[list[MetadataRecord], int]:
    """The records of a registration, and the broker's epoch.

    `has_session` says whether the broker of that id is known to be alive: then only the same
    incarnation may register again (NODE-7).
    Raises: KafkaError 101 for a second broker of the id, 104 for another cluster.
    """
    if registration.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {registration.cluster_id}",
        )
    known = image.brokers.get(registration.node_id)
    same_incarnation = known is not None and known.incarnation == registration.incarnation_id
    if known is not None and has_session and not same_incarnation:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id: {registration.node_id}",
        )
    broker_epoch = image.offset + 1
    records: list[MetadataRecord] = [
        BrokerRecord(
            node_id=registration.node_id,
            broker_epoch=broker_epoch,
            incarnation_id=registration.incarnation_id,
            listeners=registration.listeners,
            rack=registration.rack,
            directories=registration.directories,
            is_fenced=registration.is_fenced,
        )
    ]
    if known is not None and not same_incarnation:
        stopped_cleanly = known.epoch == registration.previous_broker_epoch
        if not stopped_cleanly:
            records += _new_leader_epochs(image, registration.node_id)
    if not registration.is_fenced:
        records += _take_leaderless(image, registration.node_id)
    return records, broker_epoch


def set_state(
    image: MetadataImage,
    node_id: int,
    broker_epoch: int,
    *,
    is_fenced: bool,
    is_shutting_down: bool = False,
) -> tuple[list[MetadataRecord], None]:
    """The records that fence or unfence a broker (REG-6, REG-7).

    Raises: KafkaError 102, 77.
    """
    broker = check_broker_epoch(image, node_id, broker_epoch)
    if broker.fenced == is_fenced and broker.is_shutting_down == is_shutting_down:
        return [], None
    records: list[MetadataRecord] = [
        BrokerStateRecord(node_id, broker_epoch, is_fenced, is_shutting_down)
    ]
    if not is_fenced:
        records += _take_leaderless(image, node_id)
    return records, None


def _partitions_of(
    image: MetadataImage, node_id: int
) -> Iterator[tuple[bytes, int, PartitionImage]]:
    for topic in image.topics.by_id.values():
        for index, partition in enumerate(topic.partitions):
            if node_id in partition.replicas:
                yield topic.topic_id, index, partition


def _new_leader_epochs(image: MetadataImage, node_id: int) -> Iterator[MetadataRecord]:
    """The broker goes on leading what it led, in a new leader epoch each."""
    for topic_id, index, partition in _partitions_of(image, node_id):
        if partition.leader == node_id:
            yield led_by(topic_id, index, partition, node_id)


def _take_leaderless(image: MetadataImage, node_id: int) -> Iterator[MetadataRecord]:
    """The broker leads what nobody leads and what it is in sync with (REG-7)."""
    for topic_id, index, partition in _partitions_of(image, node_id):
        if partition.leader == NO_LEADER and node_id in partition.isr:
            yield led_by(topic_id, index, partition, node_id)


def led_by(topic_id: bytes, index: int, partition: PartitionImage, leader: int) -> PartitionRecord:
    """The partition under a leader, in the next leader epoch."""
    return PartitionRecord(
        topic_id,
        index,
        partition.replicas,
        partition.isr,
        leader,
        partition.leader_epoch + 1,
        partition.partition_epoch + 1,
        partition.directories,
    )
