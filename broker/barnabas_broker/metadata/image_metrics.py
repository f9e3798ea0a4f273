"""The metadata image in force on this broker as metrics, read at scrape time. Source: MET-1."""

from collections.abc import Iterator

from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metrics.sample import Sample


def image_samples(image: MetadataImage) -> Iterator[Sample]:
    """How new the metadata is, and what it says of the cluster as a whole."""
    offline = sum(
        partition.leader < 0
        for topic in image.topics.by_name.values()
        for partition in topic.partitions
    )
    for name, text, value in (
        ("controller_epoch", "The controller epoch of the newest metadata record.", image.epoch),
        ("metadata_offset", "Offset of the newest metadata record applied.", image.offset),
        ("topics", "Topics of the cluster.", len(image.topics.by_name)),
        ("offline_partitions", "Partitions without a leader.", offline),
    ):
        yield Sample(f"barnabas_{name}", "gauge", text, {}, value)
