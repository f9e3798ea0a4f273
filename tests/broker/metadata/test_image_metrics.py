"""The metadata image as metrics."""

from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_metrics import image_samples
from tests.support.replica_nodes import led_by, topic_records


def test_offline_partitions_are_those_without_a_leader() -> None:
    """MET-1, MET-2: what an alert is about, and how far metadata is applied."""
    delta = MetadataDelta(MetadataImage.empty())
    partitions = [led_by(leader, 0, index=index) for index, leader in enumerate((0, -1, 1))]
    records = [*topic_records(), *partitions]
    for record in records:
        delta.apply(record)
    told = {sample.name: sample.value for sample in image_samples(delta.build())}
    assert told["barnabas_topics"] == 1
    assert told["barnabas_offline_partitions"] == 1
    assert told["barnabas_metadata_offset"] == len(records) - 1
