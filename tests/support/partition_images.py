"""Metadata images of brokers and partitions, made by hand and changed by commands' records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas_broker.controller.elections import ElectionSettings, TopicConfigs
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_TOPIC, MetadataImage, PartitionImage
from barnabas_broker.metadata.records import (
    BrokerRecord,
    BrokerStateRecord,
    ConfigRecord,
    EpochRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)

TOPIC_ID = b"topic-id-of-tests"[:16]


@dataclass(frozen=True)
class Settings:
    """The settings of a topic, as far as elections ask for them."""

    unclean_leader_election_enable: bool


def settings_of(image: MetadataImage, topic: str) -> ElectionSettings:
    """A topic's settings, from the overrides in the image alone."""
    overrides = image.config_overrides(RESOURCE_TOPIC, topic)
    return Settings(overrides.get("unclean.leader.election.enable") == "true")


SETTINGS: TopicConfigs = settings_of


def directory(node_id: int, number: int = 0) -> bytes:
    """The id of one of a broker's log directories."""
    return b"directory of" + bytes([node_id, number, 0, 0])


def applied(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """The image after records."""
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta.build()


def registered(node_id: int, *, directories: int = 1, is_fenced: bool = False) -> BrokerRecord:
    """The registration of a broker with epoch 100 + its id."""
    return BrokerRecord(
        node_id=node_id,
        broker_epoch=100 + node_id,
        incarnation_id=bytes([node_id]) * 16,
        listeners=(),
        rack=None,
        directories=tuple(directory(node_id, number) for number in range(directories)),
        is_fenced=is_fenced,
    )


def cluster(
    live: Iterable[int], *, fenced: Iterable[int] = (), shutting_down: Iterable[int] = ()
) -> MetadataImage:
    """Brokers without topics."""
    records: list[MetadataRecord] = [EpochRecord(1, 0, "cluster")]
    records += [registered(node_id) for node_id in live]
    records += [registered(node_id, is_fenced=True) for node_id in fenced]
    for node_id in shutting_down:
        records += [
            registered(node_id),
            BrokerStateRecord(node_id, 100 + node_id, False, True),
        ]
    return applied(MetadataImage.empty(), records)


def partition(
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    *,
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    directories: Sequence[bytes] = (),
) -> PartitionImage:
    """A partition in leader epoch 5 and partition epoch 9; all in sync, the first leads."""
    members = tuple(replicas if isr is None else isr)
    return PartitionImage(
        tuple(replicas),
        members,
        members[0] if leader is None else leader,
        5,
        9,
        tuple(directories),
        tuple(adding),
        tuple(removing),
    )


def record_of(index: int, state: PartitionImage, topic_id: bytes = TOPIC_ID) -> PartitionRecord:
    """The record that makes a partition what an image says."""
    return PartitionRecord(
        topic_id,
        index,
        state.replicas,
        state.isr,
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.directories,
        state.adding_replicas,
        state.removing_replicas,
        state.eligible_leader_replicas,
        state.last_known_elr,
    )


def with_topic(
    image: MetadataImage, *partitions: PartitionImage, unclean: bool = False, name: str = "t"
) -> MetadataImage:
    """The image with one topic more, whose id is `TOPIC_ID`, or its name filled up."""
    topic_id = TOPIC_ID if name == "t" else name.encode().ljust(16, b".")
    records: list[MetadataRecord] = [TopicRecord(name, topic_id)]
    if unclean:
        records.append(ConfigRecord(RESOURCE_TOPIC, name, "unclean.leader.election.enable", "true"))
    records += [record_of(index, state, topic_id) for index, state in enumerate(partitions)]
    return applied(image, records)


def state_of(image: MetadataImage, index: int = 0, name: str = "t") -> PartitionImage:
    """One partition."""
    return image.topics.by_name[name].partitions[index]
