"""Images of clusters whose brokers are drained."""

from dataclasses import replace

from barnabas_broker.metadata.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)


def broker(node_id: int, *, fenced: bool = False, is_shutting_down: bool = False) -> BrokerImage:
    return BrokerImage(node_id, node_id, bytes(16), {}, None, (), fenced, is_shutting_down)


def image(brokers: list[BrokerImage], *partitions: PartitionImage) -> MetadataImage:
    topic = TopicImage("t", b"t" * 16, partitions)
    return replace(
        MetadataImage.empty(),
        topics=TopicsImage({"t": topic}, {topic.topic_id: topic}),
        brokers={one.node_id: one for one in brokers},
    )


def led_by(leader: int, *isr: int) -> PartitionImage:
    return PartitionImage(isr, isr, leader, 0, 0)
