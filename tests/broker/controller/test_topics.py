"""Topics: what is created, what is refused, and with which words."""

import time
from collections.abc import Mapping, Sequence

import pytest

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.controller.brokers import Registration, register
from barnabas_broker.controller.directories import assign_directories
from barnabas_broker.controller.elections import topic_configs
from barnabas_broker.controller.partitions import (
    NewPartitions,
    check_assignment,
    create_partitions,
)
from barnabas_broker.controller.topics import (
    NewTopic,
    NewTopicResult,
    TopicDefaults,
    create_topics,
    delete_topics,
    validate_topic_name,
)
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    MetadataImage,
    TopicImage,
)
from barnabas_broker.metadata.records import ConfigRecord, EpochRecord, MetadataRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from tests.support.control_plane import CLUSTER_ID, LISTENER
from tests.support.simulated_random import SimulatedRandom

RANDOM = SimulatedRandom(7)
CONFIGS = topic_configs(DynamicConfig({}))


def applied(image: MetadataImage, records: Sequence[MetadataRecord]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta.build()


def cluster(*node_ids: int, fenced: Sequence[int] = ()) -> MetadataImage:
    image = applied(MetadataImage.empty(), [EpochRecord(1, 0, CLUSTER_ID)])
    for node_id in node_ids:
        registration = Registration(
            node_id=node_id,
            incarnation_id=RANDOM.uuid(),
            cluster_id=CLUSTER_ID,
            listeners=(LISTENER,),
            is_fenced=node_id in fenced,
        )
        image = applied(image, register(image, registration, CONFIGS, is_alive=False)[0])
    return image


def create(
    image: MetadataImage,
    *topics: NewTopic,
    broker_values: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> tuple[MetadataImage, list[NewTopicResult]]:
    records, results = create_topics(
        image,
        topics,
        defaults=TopicDefaults(
            partition_count=3, replication_factor=2, broker_values=broker_values or {}
        ),
        random=RANDOM,
        validate_only=validate_only,
    )
    return applied(image, records), results


def error_of(image: MetadataImage, topic: NewTopic) -> tuple[ErrorCode, str | None]:
    after, (result,) = create(image, topic)
    assert after == image
    assert result.error is not None
    return result.error.code, result.error.message


def topic_of(image: MetadataImage, name: str) -> TopicImage:
    return image.topics.by_name[name]


def test_new_topic_gets_the_brokers_defaults_and_a_random_id() -> None:
    """TOP-3, TOP-8: leader is the first replica, all live replicas are in sync, epochs are 0."""
    image, (result,) = create(cluster(0, 1, 2), NewTopic(name="a"))
    topic = topic_of(image, "a")
    assert (result.partition_count, result.replication_factor) == (3, 2)
    assert topic.topic_id == result.topic_id != ZERO_UUID
    assert image.topics.by_id[topic.topic_id] is topic
    for partition in topic.partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_fenced_replicas_are_not_in_sync_and_do_not_lead() -> None:
    """TOP-8, TOP-12."""
    image = cluster(0, 1, fenced=[0])
    image, _ = create(image, NewTopic(name="a", partition_count=2, replication_factor=2))
    assert [(part.replicas, part.isr, part.leader) for part in topic_of(image, "a").partitions] == [
        ((1, 0), (1,), 1)
    ] * 2


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_allowed_topic_names(name: str) -> None:
    """TOP-1."""
    validate_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a:b", "a\n"])
def test_refused_topic_names(name: str) -> None:
    """TOP-1."""
    with pytest.raises(KafkaError) as raised:
        validate_topic_name(name)
    assert raised.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_metrics_could_not_tell_apart_are_refused() -> None:
    """TOP-1."""
    image, _ = create(cluster(0, 1), NewTopic(name="a.b"))
    assert error_of(image, NewTopic(name="a_b")) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b' collides with existing topic: a.b",
    )
    _, results = create(cluster(0, 1), NewTopic(name="c_d"), NewTopic(name="c.d"))
    assert [result.error is None for result in results] == [True, False]


def test_existing_and_repeated_names_are_refused() -> None:
    """TOP-2."""
    image, _ = create(cluster(0, 1), NewTopic(name="a"))
    assert error_of(image, NewTopic(name="a")) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'a' already exists.",
    )
    after, results = create(image, NewTopic(name="b"), NewTopic(name="b"), NewTopic(name="c"))
    codes = [result.error and result.error.code for result in results]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, None]
    assert set(after.topics.by_name) == {"a", "c"}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic(name="a", partition_count=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="a", partition_count=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="a", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="a", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="a", partition_count=10_001), ErrorCode.POLICY_VIOLATION),
        (NewTopic(name="a", configs={"nonsense": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="a", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="a", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="a", configs={"cleanup.policy": "d" * 40_000}), ErrorCode.INVALID_CONFIG),
        (
            NewTopic(name="a", configs={"leader.replication.throttled.replicas": "0:1," * 9_000}),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            NewTopic(name="a", partition_count=1, assignments=[(0, [0])]),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            NewTopic(name="a", replication_factor=1, assignments=[(0, [0])]),
            ErrorCode.INVALID_REQUEST,
        ),
        *(
            (NewTopic(name="a", assignments=given), ErrorCode.INVALID_REPLICA_ASSIGNMENT)
            for given in (
                [(0, [])],
                [(0, [0, 0])],
                [(0, [7])],
                [(1, [0])],
                [(0, [0]), (0, [1])],
                [(0, [0]), (1, [0, 1])],
                [(0, [2])],
            )
        ),
    ],
)
def test_bad_requests_create_nothing(topic: NewTopic, code: ErrorCode) -> None:
    """TOP-3, TOP-4, TOP-5: broker 2 is fenced."""
    image = cluster(0, 1, 2, fenced=[2])
    if topic.replication_factor == 3:
        image = cluster(0, 1)
    assert error_of(image, topic)[0] == code


def test_manual_assignment_is_taken_as_it_is() -> None:
    """TOP-4: partitions in the order of their numbers, not of the request."""
    image, (result,) = create(
        cluster(0, 1, 2), NewTopic(name="a", assignments=[(1, [2, 0]), (0, [1, 2])])
    )
    assert [partition.replicas for partition in topic_of(image, "a").partitions] == [(1, 2), (2, 0)]
    assert (result.partition_count, result.replication_factor) == (2, 2)


def test_validating_changes_nothing_and_reports_the_same() -> None:
    """TOP-5."""
    image = cluster(0, 1)
    after, results = create(
        image, NewTopic(name="a"), NewTopic(name="b", partition_count=0), validate_only=True
    )
    assert after == image
    assert [result.error and result.error.code for result in results] == [
        None,
        ErrorCode.INVALID_PARTITIONS,
    ]


def test_overrides_are_stored_as_given() -> None:
    """CFG-2."""
    image, _ = create(cluster(0, 1), NewTopic(name="a", configs={"retention.ms": "5"}))
    assert image.config_overrides(RESOURCE_TOPIC, "a") == {"retention.ms": "5"}


def test_deleted_topic_takes_its_settings_and_its_id_along() -> None:
    """TOP-14: made again under the same name, it has another id and no overrides."""
    image, (first,) = create(cluster(0, 1), NewTopic(name="a", configs={"retention.ms": "5"}))
    records, (result,) = delete_topics(image, ["a"], is_enabled=True)
    assert (result.name, result.topic_id, result.error) == ("a", first.topic_id, None)
    image, (second,) = create(applied(image, records), NewTopic(name="a"))
    assert second.topic_id != first.topic_id
    assert image.config_overrides(RESOURCE_TOPIC, "a") == {}


def test_replicas_without_end_are_refused_at_once() -> None:
    """Each was compared with each: 8,000 took half a second, and 99,000 fit in a request."""
    image = cluster(0, 1)
    for replicas in (range(99_000), [*range(1, 99_000), 1], [0, *range(2, 99_000)]):
        began = time.thread_time()
        with pytest.raises(KafkaError) as refused:
            check_assignment(image, 0, tuple(replicas), None)
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert time.thread_time() - began < 0.1


def test_topics_are_deleted_by_name_or_by_id() -> None:
    """TOP-14."""
    image, results = create(cluster(0, 1), NewTopic(name="a"), NewTopic(name="b"))
    id_of_b = results[1].topic_id
    records, deleted = delete_topics(
        image, ["a", id_of_b, "nowhere", b"unknown-topic-id"], is_enabled=True
    )
    assert applied(image, records).topics.by_name == {}
    assert [result.error and result.error.code for result in deleted] == [
        None,
        None,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert deleted[1].name == "b"


def test_topic_that_is_to_be_deleted_twice_is_not_deleted() -> None:
    """TOP-14: as in Kafka, by name, by id, or by both."""
    image, (made,) = create(cluster(0, 1), NewTopic(name="a"))
    for asked in (["a", "a"], ["a", made.topic_id], [made.topic_id, made.topic_id]):
        records, deleted = delete_topics(image, asked, is_enabled=True)
        assert records == []
        assert {result.error and result.error.code for result in deleted} == {
            ErrorCode.INVALID_REQUEST
        }
        assert len(deleted) == 1


def test_deletion_may_be_switched_off() -> None:
    """TOP-14."""
    image, _ = create(cluster(0, 1), NewTopic(name="a"))
    records, (result,) = delete_topics(image, ["a"], is_enabled=False)
    assert records == []
    assert result.error is not None
    assert result.error.code == ErrorCode.TOPIC_DELETION_DISABLED


def test_added_partitions_continue_the_placement_and_leave_the_old_ones() -> None:
    """TOP-13: with the start of the first placement known, growing equals having been large."""
    brokers = cluster(0, 1, 2)
    image, _ = create(brokers, NewTopic(name="a", partition_count=2, replication_factor=1))
    before = topic_of(image, "a").partitions
    records, (result,) = create_partitions(image, [NewPartitions(name="a", count=7)], random=RANDOM)
    after = topic_of(applied(image, records), "a").partitions
    assert result.error is None
    assert after[:2] == before
    start = before[0].replicas[0]
    assert [partition.leader for partition in after] == [(start + p) % 3 for p in range(7)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (NewPartitions(name="a", count=2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions(name="a", count=1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions(name="b", count=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            NewPartitions(name="a", count=4, assignments=[[0]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            NewPartitions(name="a", count=3, assignments=[[0, 1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_bad_growth_is_refused(asked: NewPartitions, code: ErrorCode) -> None:
    """TOP-13."""
    image, _ = create(cluster(0, 1), NewTopic(name="a", partition_count=2, replication_factor=1))
    records, (result,) = create_partitions(image, [asked], random=RANDOM)
    assert records == []
    assert result.error is not None
    assert result.error.code == code


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_topics_of_coordinators_do_not_grow(name: str) -> None:
    """OFS-1: another count would map groups to other partitions than hold their offsets."""
    image, _ = create(cluster(0, 1), NewTopic(name=name, partition_count=2, replication_factor=1))
    records, (result,) = create_partitions(
        image, [NewPartitions(name=name, count=4)], random=RANDOM
    )
    assert records == []
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_PARTITIONS


def test_growth_with_an_assignment_and_growth_on_trial() -> None:
    """TOP-13: the assignment is of the new partitions alone."""
    image, _ = create(cluster(0, 1), NewTopic(name="a", partition_count=1, replication_factor=1))
    asked = [NewPartitions(name="a", count=3, assignments=[[1], [0]])]
    trial, _ = create_partitions(image, asked, random=RANDOM, validate_only=True)
    assert trial == []
    records, _ = create_partitions(image, asked, random=RANDOM)
    partitions = topic_of(applied(image, records), "a").partitions
    assert [partition.replicas for partition in partitions[1:]] == [(1,), (0,)]


def test_a_request_for_too_many_partitions_is_refused_as_a_whole() -> None:
    """TOP-5, TOP-13: one batch of the metadata log has to hold them."""
    image, _ = create(cluster(1, 2), NewTopic(name="t"))
    records, (result,) = create_partitions(
        image, [NewPartitions(name="t", count=10_004)], random=RANDOM
    )
    assert records == []
    assert result.error is not None
    assert result.error.code == ErrorCode.POLICY_VIOLATION
    assert len(create_partitions(image, [NewPartitions(name="t", count=10_003)], random=RANDOM)[0])


def test_the_only_directory_of_a_broker_is_remembered_at_once() -> None:
    """LOG-11: and with several, as soon as the broker has told which it chose."""
    first, second, third = (bytes(15) + bytes([index]) for index in (1, 2, 3))
    image = applied(MetadataImage.empty(), [EpochRecord(1, 0, CLUSTER_ID)])
    for node_id, directories in ((1, (first,)), (2, (third, second))):
        registration = Registration(
            node_id=node_id,
            incarnation_id=RANDOM.uuid(),
            cluster_id=CLUSTER_ID,
            listeners=(LISTENER,),
            directories=directories,
        )
        image = applied(image, register(image, registration, CONFIGS, is_alive=False)[0])
    image, _ = create(image, NewTopic(name="t", assignments=[(0, (1, 2)), (1, (2, 1))]))
    assert [p.directories for p in topic_of(image, "t").partitions] == [
        (first, ZERO_UUID),
        (ZERO_UUID, first),
    ]
    told = {TopicPartition("t", 1): second, TopicPartition("gone", 0): first}
    image = applied(image, assign_directories(image, 2, told)[0])
    assert topic_of(image, "t").partitions[1].directories == (second, first)
    assert assign_directories(image, 2, told) == ([], None)


def test_a_broker_that_is_to_go_for_good_gets_no_replicas() -> None:
    """It is taken away when it holds nothing: a topic made in between would stay without it."""
    leaving = ConfigRecord(RESOURCE_BROKER, "2", "metadata.member.leaving", "true")
    image = applied(cluster(0, 1, 2), [leaving])
    after, (result,) = create(image, NewTopic(name="t", partition_count=6))
    assert result.error is None
    assert {node for one in topic_of(after, "t").partitions for node in one.replicas} == {0, 1}
    code, message = error_of(image, NewTopic(name="u", assignments=[(0, (1, 2))]))
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert message.endswith("broker 2, which is to go for good.")
    code, _ = error_of(image, NewTopic(name="v", replication_factor=3))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_broker_gets_no_more_replicas_than_it_has_descriptors_for() -> None:
    """Partitions of clients would take the files that brokers need for one another."""
    image, _ = create(cluster(0, 1, 2), NewTopic(name="first", partition_count=6))
    wanted = [
        NewTopic(name="fits", assignments=[(0, (0, 1))]),
        NewTopic(name="too-many", assignments=[(number, (2, 1)) for number in range(2)]),
        NewTopic(name="elsewhere", assignments=[(0, (0,))]),
        NewTopic(name="__consumer_offsets", assignments=[(0, (0, 1))]),
    ]
    held = [partition.replicas for partition in topic_of(image, "first").partitions]
    assert [sum(node in replicas for replicas in held) for node in (0, 1, 2)] == [4, 4, 4]
    records, results = create_topics(
        image,
        wanted,
        defaults=TopicDefaults(partition_count=1, replication_factor=1, broker_values={}),
        random=RANDOM,
        replicas_max=6,
    )
    codes = [None if one.error is None else one.error.code for one in results]
    assert codes == [None, ErrorCode.POLICY_VIOLATION, None, None]
    assert "Broker 1 would have 7 replicas; it may have 6" in str(results[1].error)
    image = applied(image, records)
    (grown,) = create_partitions(
        image,
        [NewPartitions(name="elsewhere", count=2, assignments=[(0,)])],
        random=RANDOM,
        replicas_max=6,
    )[1]
    assert grown.error is not None
    assert grown.error.code == ErrorCode.POLICY_VIOLATION
    assert create_partitions(
        image,
        [NewPartitions(name="elsewhere", count=2, assignments=[(2,)])],
        random=RANDOM,
        replicas_max=6,
    )[0]
