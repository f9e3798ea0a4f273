"""Images and deltas: each image is a value, and a delta tells what it changed."""

import pytest

from barnabas_broker.metadata.delta import InconsistentRecordError, MetadataDelta
from barnabas_broker.metadata.image import (
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from barnabas_broker.metadata.records import (
    BrokerStateRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

ID_ONE, ID_TWO = b"1" * 16, b"2" * 16


def delta_of(image: MetadataImage, *records: MetadataRecord | None) -> MetadataDelta:
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta


def partition(topic_id: bytes, index: int, leader: int = 0) -> PartitionRecord:
    return PartitionRecord(topic_id, index, (0, 1), (0,), leader, 0, 0)


def test_older_images_do_not_change() -> None:
    """CTL-12: readers keep one consistent state for as long as they hold it."""
    empty = MetadataImage.empty()
    one = delta_of(empty, TopicRecord("a", ID_ONE), partition(ID_ONE, 0)).build()
    two = delta_of(one, partition(ID_ONE, 0, leader=1), partition(ID_ONE, 1)).build()
    assert empty.topics.by_name == {}
    assert [image.leader for image in one.topics.by_name["a"].partitions] == [0]
    assert [image.leader for image in two.topics.by_id[ID_ONE].partitions] == [1, 0]
    assert (empty.offset, one.offset, two.offset) == (-1, 1, 3)


def test_delta_names_what_changed() -> None:
    """CTL-12: subscribers look at nothing else."""
    image = delta_of(
        MetadataImage.empty(),
        TopicRecord("a", ID_ONE),
        partition(ID_ONE, 0),
        ConfigRecord(RESOURCE_TOPIC, "a", "retention.ms", "1"),
    ).build()
    grown = delta_of(image, partition(ID_ONE, 1))
    assert (list(grown.changed_topics), list(grown.created), list(grown.deleted)) == (["a"], [], [])
    again = delta_of(image, RemoveTopicRecord(ID_ONE), TopicRecord("a", ID_TWO))
    assert again.deleted == {"a": ID_ONE}
    assert again.created == {"a": ID_TWO}
    assert list(again.changed_topics) == ["a"]
    assert list(again.changed_configs) == [(RESOURCE_TOPIC, "a")]
    assert again.build().config_overrides(RESOURCE_TOPIC, "a") == {}


def test_topic_made_and_removed_in_one_delta_leaves_no_trace() -> None:
    """Subscribers need not know of it."""
    delta = delta_of(
        MetadataImage.empty(),
        TopicRecord("a", ID_ONE),
        partition(ID_ONE, 0),
        RemoveTopicRecord(ID_ONE),
    )
    assert not delta.created
    assert not delta.deleted
    assert not delta.changed_topics
    assert delta.build().topics.by_id == {}


def test_last_override_that_goes_takes_the_resource_along() -> None:
    """CFG-2."""
    image = delta_of(
        MetadataImage.empty(), ConfigRecord(4, "", "a", "1"), ConfigRecord(4, "", "a", None)
    ).build()
    assert image.configs == {}


def test_unknown_records_count_but_change_nothing() -> None:
    """Offsets must stay those of the log."""
    image = delta_of(MetadataImage.empty(), None, None).build()
    assert image.offset == 1


@pytest.mark.parametrize(
    "record",
    [
        partition(ID_TWO, 0),
        partition(ID_ONE, 2),
        RemoveTopicRecord(ID_TWO),
        TopicRecord("a", ID_TWO),
        BrokerStateRecord(9, 0, True, False),
    ],
)
def test_records_that_contradict_the_image_are_refused(record: MetadataRecord) -> None:
    """A wrong record must not be half applied."""
    image = delta_of(MetadataImage.empty(), TopicRecord("a", ID_ONE), partition(ID_ONE, 0)).build()
    with pytest.raises(InconsistentRecordError):
        delta_of(image, record)


def test_partition_is_found_by_its_name_and_knows_its_directories() -> None:
    """What a broker asks before it knows its own logs: zero stands for a directory not known."""
    partition = PartitionImage((1, 2), (1,), 1, 0, 0, directories=(b"a" * 16, b"b" * 16))
    topic = TopicImage("t", b"t" * 16, (partition,))
    topics = TopicsImage({"t": topic}, {topic.topic_id: topic})
    assert topics.partition(TopicPartition("t", 0)) is partition
    for missing in (TopicPartition("t", 1), TopicPartition("t", -1), TopicPartition("u", 0)):
        assert topics.partition(missing) is None
    assert not partition.is_whole
    assert partition.directory_of(2) == b"b" * 16
    assert partition.directory_of(3) == ZERO_UUID
    assert PartitionImage((1, 2), (2, 1), 1, 0, 0).is_whole
    assert PartitionImage((1, 2), (1,), 1, 0, 0).directory_of(1) == ZERO_UUID
