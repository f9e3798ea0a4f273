"""Topics whose partitions were written elsewhere and are on this node's disk: a pure command.

Not creation: name, id and number of partitions are what was found, nothing is placed. Each
partition is led in a leader epoch above all those in its log, for an epoch is never used twice
(REP-14). The producer ids in the logs were given out by another cluster, perhaps: none of them is
given out here, for a new producer's first batch would be taken for one of theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from barnabas_broker.controller.producer_ids import skipped
from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.metadata.image import RESOURCE_TOPIC, MetadataImage
from barnabas_broker.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

KEEP_EVERYTHING: Final[Mapping[str, str]] = MappingProxyType(
    {"retention.ms": "-1", "retention.bytes": "-1"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic as its partition directories tell it, with the latest numbers of its logs."""

    name: str
    topic_id: bytes
    latest_leader_epochs: Sequence[int]  # by partition number; -1 for an empty log
    latest_producer_id: int  # of all its logs; -1 for none
    # What the topic had elsewhere is not known: nothing is deleted before somebody says so.
    settings: Mapping[str, str] = field(default_factory=lambda: KEEP_EVERYTHING)


def check_adoption(image: MetadataImage, topic: FoundTopic) -> None:
    """Refuse a topic that is there already, by name or by id.

    Raises: KafkaError 17, 36, 103.
    """
    validate_topic_name(topic.name)
    if topic.name in image.topics.by_name:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists: delete it first"
        )
    known = image.topics.by_id.get(topic.topic_id)
    if known is not None:
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"the topic id of '{topic.name}' is that of the topic '{known.name}'",
        )


def adopt_topic(
    image: MetadataImage, topic: FoundTopic, node_id: int
) -> tuple[list[MetadataRecord], None]:
    """The records that make the topic, led by the node that has its partitions.

    Raises: KafkaError 17, 36, 103.
    """
    check_adoption(image, topic)
    records: list[MetadataRecord] = [TopicRecord(topic.name, topic.topic_id)]
    records += (
        ConfigRecord(RESOURCE_TOPIC, topic.name, key, value)
        for key, value in sorted(topic.settings.items())
    )
    records += (
        PartitionRecord(
            topic.topic_id,
            partition,
            replicas=(node_id,),
            isr=(node_id,),
            leader=node_id,
            leader_epoch=latest + 1,
            partition_epoch=0,
        )
        for partition, latest in enumerate(topic.latest_leader_epochs)
    )
    records += skipped(image, topic.latest_producer_id)
    return records, None
