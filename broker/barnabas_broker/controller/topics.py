"""Creation and deletion of topics: pure commands (TOP-1 to TOP-8, TOP-14).

Each topic of a request succeeds or fails alone. The texts of refusals are Kafka's: its tools print
them. Growing a topic is in `partitions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.topic import validate_topic_config
from barnabas_broker.controller.mutation_quota import MutationQuota
from barnabas_broker.controller.partitions import (
    FIXED_TOPICS,
    PARTITIONS_PER_REQUEST_MAX,
    assigned_partitions,
    check_assignment,
    new_partitions,
    placement_brokers,
)
from barnabas_broker.controller.placement import Assignment, place
from barnabas_broker.controller.replica_limit import UNLIMITED, ReplicaLimit
from barnabas_broker.env.randomness import Random
from barnabas_broker.metadata.image import RESOURCE_TOPIC, MetadataImage, TopicImage
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID

MayDoToTopic = Callable[[AclOperation, str], bool]
"""Whether who requests may do something to the topic of a name, which need not exist."""

NAME_LENGTH_MAX: Final = 249
VALUE_LENGTH_MAX: Final = 32_767
"""Characters of the value of a setting, which every broker keeps; Kafka's own limit."""
_NAME_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made; -1 stands for the broker's default."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    # Replicas by partition number; then both counts above must be -1.
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicResult:
    """What became of one topic."""

    name: str
    topic_id: bytes = ZERO_UUID
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)  # the overrides
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopicResult:
    """What became of one deletion; a name or an id that is not known stays empty."""

    name: str | None
    topic_id: bytes = ZERO_UUID
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What the broker's settings say about new topics."""

    partition_count: int
    replication_factor: int
    broker_values: Mapping[str, str]


def may_all(_: AclOperation, __: str) -> bool:
    """Whoever it is may do everything: there is no authorizer, or it is a broker."""
    return True


def validate_topic_name(name: str) -> None:
    """Check a new topic's name (TOP-1). Raises: KafkaError 17."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _NAME_CHARACTERS.issuperset(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    *,
    defaults: TopicDefaults,
    random: Random,
    validate_only: bool = False,
    cordoned: Collection[int] = (),
    replicas_max: int = UNLIMITED,
    quota: MutationQuota | None = None,
) -> tuple[list[MetadataRecord], list[NewTopicResult]]:
    """The records that make the topics, and a result for each, in the order of the request."""
    records: list[MetadataRecord] = []
    results: list[NewTopicResult] = []
    counts = Counter(topic.name for topic in topics)
    # Of two names in one request that differ in '.' and '_' only, the later one is refused.
    collisions = _collisions(image) if any(_may_collide(topic.name) for topic in topics) else {}
    total = sum(_requested_partitions(topic, defaults) for topic in topics)
    room = ReplicaLimit(image, replicas_max)
    for topic in topics:
        try:
            if total > PARTITIONS_PER_REQUEST_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request.",
                )
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(image, topic.name, collisions)
            overrides = _check_configs(topic, defaults)
            assignments = _assign(image, topic, defaults, random, cordoned)
            if topic.name not in FIXED_TOPICS:
                room.take(assignments)
            if quota is not None:
                quota.take(len(assignments))
        except KafkaError as error:
            results.append(NewTopicResult(name=topic.name, error=error))
            continue
        topic_id = _new_topic_id(image, random)
        collisions[topic.name.replace(".", "_")] = topic.name
        records.append(TopicRecord(topic.name, topic_id))
        records += (
            ConfigRecord(RESOURCE_TOPIC, topic.name, key, value) for key, value in overrides.items()
        )
        records += new_partitions(image, topic_id, assignments)
        results.append(
            NewTopicResult(
                name=topic.name,
                topic_id=topic_id,
                partition_count=len(assignments),
                replication_factor=len(assignments[0]),
                configs=overrides,
            )
        )
    return ([] if validate_only else records), results


def _requested_partitions(topic: NewTopic, defaults: TopicDefaults) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return (
        defaults.partition_count if topic.partition_count == -1 else max(topic.partition_count, 0)
    )


def _collisions(image: MetadataImage) -> dict[str, str]:
    """Names that contain '.' or '_', by the form in which metrics cannot tell them apart."""
    return {name.replace(".", "_"): name for name in image.topics.by_name if _may_collide(name)}


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def _check_name(image: MetadataImage, name: str, collisions: Mapping[str, str]) -> None:
    validate_topic_name(name)
    if name == METADATA_PARTITION.topic:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = collisions.get(name.replace(".", "_"))
    if other is not None and _may_collide(name):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _check_configs(topic: NewTopic, defaults: TopicDefaults) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for key, value in topic.configs.items():
        if value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {key}"
            )
        check_value_length(value)
        overrides[key] = value
    try:
        validate_topic_config(overrides, defaults.broker_values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return overrides


def check_value_length(value: str | None) -> None:
    """Refuse a value of a setting that is too long to be kept. Raises: KafkaError 40."""
    if value is not None and len(value) > VALUE_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_LENGTH_MAX} bytes.",
        )


def _assign(
    image: MetadataImage,
    topic: NewTopic,
    defaults: TopicDefaults,
    random: Random,
    cordoned: Collection[int],
) -> list[Assignment]:
    if topic.assignments:
        return _manual(image, topic)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partition_count < -1 or topic.partition_count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = defaults.partition_count if topic.partition_count == -1 else topic.partition_count
    factor = topic.replication_factor
    if factor == -1:
        factor = defaults.replication_factor
    return place(placement_brokers(image, cordoned), count, factor, random)


def _manual(image: MetadataImage, topic: NewTopic) -> list[Assignment]:
    """An assignment given with the request, which bypasses placement (TOP-4)."""
    for name, value in (
        ("replication factor", topic.replication_factor),
        ("numPartitions", topic.partition_count),
    ):
        if value != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    assignments = assigned_partitions(topic.assignments)
    for index, replicas in enumerate(assignments):
        check_assignment(image, index, replicas, len(assignments[0]))
    return assignments


def _new_topic_id(image: MetadataImage, random: Random) -> bytes:
    while True:
        topic_id = random.uuid()
        if topic_id not in image.topics.by_id:
            return topic_id


def delete_topics(
    image: MetadataImage,
    topics: Sequence[str | bytes],
    *,
    is_enabled: bool,
    quota: MutationQuota | None = None,
    may: MayDoToTopic = may_all,
) -> tuple[list[MetadataRecord], list[DeletedTopicResult]]:
    """The records that remove topics, named or given by id, and a result for each.

    A topic that is asked for twice is not removed, and has one result. Who may not see a topic is
    told the same whether it is there or not (SEC-46); an id shows no name then.
    """
    records: list[MetadataRecord] = []
    results: list[DeletedTopicResult] = []
    found = {asked: _find(image, asked) for asked in topics}
    times = Counter(topics)
    id_times = Counter(topic.topic_id for asked in topics if (topic := found[asked]) is not None)
    told: set[str | bytes] = set()
    for asked in topics:
        if asked in told:
            continue
        told.add(asked)
        topic = found[asked]
        name = asked if isinstance(asked, str) else None
        topic_id = asked if isinstance(asked, bytes) else ZERO_UUID
        error: KafkaError | None = None
        if not is_enabled:
            error = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        elif times[asked] == 1 and not _may_delete(asked, topic, may):
            if topic is not None and may(AclOperation.DESCRIBE, topic.name):
                name = topic.name
            error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        elif times[asked] == 1 and topic is not None and id_times[topic.topic_id] > 1:
            if isinstance(asked, bytes):
                continue  # told with its name
            topic_id = topic.topic_id
            error = KafkaError(
                ErrorCode.INVALID_REQUEST,
                "The provided topic name maps to an ID that was already supplied.",
            )
        elif times[asked] > 1:
            kind = "name" if isinstance(asked, str) else "id"
            error = KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
        elif topic is None:
            error = _unknown(asked)
        else:
            name, topic_id = topic.name, topic.topic_id
            try:
                if quota is not None:
                    quota.take(len(topic.partitions))
                records.append(RemoveTopicRecord(topic_id))
            except KafkaError as refused:
                error = refused
        results.append(DeletedTopicResult(name=name, topic_id=topic_id, error=error))
    return records, results


def _find(image: MetadataImage, asked: str | bytes) -> TopicImage | None:
    if isinstance(asked, str):
        return image.topics.by_name.get(asked)
    return image.topics.by_id.get(asked)


def _may_delete(asked: str | bytes, topic: TopicImage | None, may: MayDoToTopic) -> bool:
    """Whether rights let a deletion pass: one of a topic that is not there, by who may see it."""
    if topic is not None:
        return may(AclOperation.DELETE, topic.name)
    return isinstance(asked, bytes) or may(AclOperation.DESCRIBE, asked)


def _unknown(asked: str | bytes) -> KafkaError:
    if isinstance(asked, str):
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
