"""Topics whose partitions were written elsewhere and are on this node's disk: a pure command.

Not creation: name, id and number of partitions are what was found, nothing is placed. Each
partition is led in a leader epoch above all those in its log, for an epoch is never used twice
(REP-14).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from barnabas_protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic as its partition directories tell it, with the latest leader epoch of each log."""

    name: str
    topic_id: bytes
    latest_leader_epochs: Sequence[int]  # by partition number; -1 for an empty log


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
    return records, None
