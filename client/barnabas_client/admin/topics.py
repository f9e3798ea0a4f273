"""`admin.topics`: Metadata (3), CreateTopics (19), DeleteTopics (20), CreatePartitions (37) and
DescribeTopicPartitions (75).

Describing goes page by page where the broker serves 75, so that no response grows with the cluster;
else, and by id, it is one Metadata request. Neither creates a topic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from barnabas_client.admin.api_errors import ApiError, error_of, outcome_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy, ControllerStrategy
from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.admin.routing import (
    AdminRouting,
    Call,
    RequestContext,
    check_several,
    nameless,
)
from barnabas_client.admin.values.acls import operations_of_bits
from barnabas_client.admin.values.configs import ConfigEntry, ConfigSource
from barnabas_client.admin.values.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from barnabas_client.errors import BarnabasError, UnsupportedError, UsageError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import Uuid, uuid_to_text
from barnabas_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

# The first version that looks up, and the first that deletes, by id.
_METADATA_BY_ID: Final = 12
_DELETE_BY_ID: Final = 6
# The default of the broker's own limit; it may return fewer.
_PARTITIONS_PER_PAGE: Final = 2000


class Topics:
    """What can be done about topics."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> tuple[TopicListing, ...]:
        """All topics that one may see, by name.

        Raises: TimedOutError, or what the broker says.
        """
        call = Call[None, tuple[TopicListing, ...]](
            action="list topics",
            api=ApiKey.METADATA,
            to=AnyBrokerStrategy(),
            build=lambda context: MetadataRequest(topics=None, allow_auto_topic_creation=False),
            read=lambda response, context: {None: _listings(response)},
            name=nameless,
            version_min=1,
        )
        topics = await self._routing.one(call, timeout_ms)
        return tuple(topic for topic in topics if include_internal or not topic.is_internal)

    async def describe(
        self,
        names: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        partitions_per_page: int = _PARTITIONS_PER_PAGE,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, TopicDescription]:
        """Topics with all their partitions; a topic that does not exist is a NotFoundError."""
        check_several(names)
        wanted = list(names)
        if partitions_per_page < 1:
            raise UsageError(f"partitions_per_page is {partitions_per_page}; it must be 1 or more")
        remaining_ms = self._routing.countdown(timeout_ms)
        described: dict[str, Outcome[TopicDescription]] = {}
        cursor: Cursor | None = None
        # Topics come in order of their names, so those before the cursor are complete.
        remaining = sorted(wanted)
        while remaining:
            page_call = _describe_page(remaining, cursor, partitions_per_page)
            try:
                page = await self._routing.one(page_call, remaining_ms())
            except UnsupportedError:
                call = _describe_by_metadata(include_authorized_operations)
                return await self._routing.each(wanted, call, remaining_ms())
            except BarnabasError as error:
                described.update((name, Outcome.failed(error)) for name in remaining)
                break
            merge_page(described, page, include_authorized_operations)
            cursor = page.next_cursor
            if cursor is None:
                break
            remaining = [name for name in remaining if name >= cursor.topic_name]
        return Outcomes({name: described.get(name) or _not_mentioned(name) for name in wanted})

    async def pages(
        self, *, partitions_per_page: int = _PARTITIONS_PER_PAGE, timeout_ms: int | None = None
    ) -> AsyncIterator[tuple[TopicDescription, ...]]:
        """All topics that one may see, internal ones included, by name, so many partitions a page.

        Memory holds a page at a time; a topic with more partitions than that is whole all the same.
        `timeout_ms` is for each page. Where a broker has no pages (before Kafka 3.9) all names come
        by one Metadata request, their partitions by as many as there are pages of topics.
        Raises: TimedOutError, or what the broker says.
        """
        cursor: Cursor | None = None
        begun: dict[str, Outcome[TopicDescription]] = {}
        while True:
            try:
                page = await self._routing.one(
                    _describe_page((), cursor, partitions_per_page), timeout_ms
                )
            except UnsupportedError:
                async for topics in self._pages_by_metadata(partitions_per_page, timeout_ms):
                    yield topics
                return
            merge_page(begun, page, with_operations=False)
            cursor = page.next_cursor
            open_name = None if cursor is None else cursor.topic_name
            whole = [name for name in begun if name != open_name]
            done = [begun.pop(name) for name in whole]
            yield tuple(outcome.unwrap() for outcome in done if outcome.is_ok)
            if cursor is None:
                return

    async def _pages_by_metadata(
        self, topics_per_page: int, timeout_ms: int | None
    ) -> AsyncIterator[tuple[TopicDescription, ...]]:
        names = [one.name for one in await self.list(include_internal=True, timeout_ms=timeout_ms)]
        call = _describe_by_metadata(False)
        for start in range(0, len(names), topics_per_page):
            some = names[start : start + topics_per_page]
            described = await self._routing.each(some, call, timeout_ms)
            yield tuple(described.successes.values())

    async def describe_by_id(
        self,
        topic_ids: Iterable[Uuid],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[Uuid, TopicDescription]:
        """Topics with all their partitions, by id."""
        call = Call[Uuid, TopicDescription](
            action="describe topic",
            api=ApiKey.METADATA,
            to=AnyBrokerStrategy(),
            build=lambda context: MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=one, name=None) for one in context.keys],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=include_authorized_operations,
            ),
            read=lambda response, context: {
                topic.topic_id: _described(topic) for topic in response.topics
            },
            name=uuid_to_text,
            version_min=_METADATA_BY_ID,
        )
        return await self._routing.each(topic_ids, call, timeout_ms)

    async def create(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, CreatedTopic]:
        """Create topics, or with `validate_only` see whether they could be.

        Raises: UsageError if two of them have one name, or one is no NewTopic.
        """
        if isinstance(topics, NewTopic):
            raise UsageError("several topics are wanted: give [NewTopic(...)] for one")
        wanted = list(topics)
        for topic in wanted:
            if not isinstance(topic, NewTopic):
                raise UsageError(f"{topic!r} is no topic to create: give NewTopic(name=...)")
        by_name = {topic.name: topic for topic in wanted}
        if len(by_name) < len(wanted):
            raise UsageError("two of the topics to be created have the same name")
        call = Call[str, CreatedTopic](
            action="create topic",
            api=ApiKey.CREATE_TOPICS,
            to=ControllerStrategy(),
            build=lambda context: CreateTopicsRequest(
                topics=[_creatable(by_name[name]) for name in context.keys],
                timeout_ms=context.timeout_ms,
                validate_only=validate_only,
            ),
            read=lambda response, context: {
                topic.name: error_of(topic) or _created(topic) for topic in response.topics
            },
            is_change=not validate_only,
        )
        return await self._routing.each(by_name, call, timeout_ms)

    async def delete(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete topics with all their records.

        Not repeated where the response is lost, for a topic of that name may be another one then.
        """
        call = Call[str, None](
            action="delete topic",
            api=ApiKey.DELETE_TOPICS,
            to=ControllerStrategy(),
            build=_deletion_by_name,
            read=lambda response, context: {one.name: error_of(one) for one in response.responses},
            is_change=True,
            is_repeatable=False,
        )
        return await self._routing.each(names, call, timeout_ms)

    async def delete_by_id(
        self, topic_ids: Iterable[Uuid], *, timeout_ms: int | None = None
    ) -> Outcomes[Uuid, None]:
        """Delete topics by id: a topic of the same name that was created since stays."""
        call = Call[Uuid, None](
            action="delete topic",
            api=ApiKey.DELETE_TOPICS,
            to=ControllerStrategy(),
            build=lambda context: DeleteTopicsRequest(
                topics=[DeleteTopicState(topic_id=one) for one in context.keys],
                timeout_ms=context.timeout_ms,
            ),
            read=lambda response, context: {
                one.topic_id: error_of(one) for one in response.responses
            },
            name=uuid_to_text,
            is_change=True,
            version_min=_DELETE_BY_ID,
        )
        return await self._routing.each(topic_ids, call, timeout_ms)

    async def add_partitions(
        self,
        wanted: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Give topics more partitions; a plain number is the count that they have afterwards."""
        call = Call[str, None](
            action="add partitions to topic",
            api=ApiKey.CREATE_PARTITIONS,
            to=ControllerStrategy(),
            build=lambda context: CreatePartitionsRequest(
                topics=[_more_partitions(name, wanted[name]) for name in context.keys],
                timeout_ms=context.timeout_ms,
                validate_only=validate_only,
            ),
            read=lambda response, context: {one.name: error_of(one) for one in response.results},
            is_change=not validate_only,
        )
        return await self._routing.each(wanted, call, timeout_ms)


def _listings(response: Any) -> tuple[TopicListing, ...] | ApiError:
    api_error = error_of(response)
    if api_error is not None:
        return api_error
    listings = (
        TopicListing(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal)
        for topic in response.topics
        if not topic.error_code
    )
    return tuple(sorted(listings, key=lambda topic: topic.name))


def _describe_by_metadata(include_authorized_operations: bool) -> Call[str, TopicDescription]:
    return Call(
        action="describe topic",
        api=ApiKey.METADATA,
        to=AnyBrokerStrategy(),
        build=lambda context: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in context.keys],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        ),
        read=lambda response, context: {topic.name: _described(topic) for topic in response.topics},
        # From here on a request can forbid to create the topics.
        version_min=4,
    )


def _describe_page(names: Sequence[str], cursor: Cursor | None, limit: int) -> Call[None, Any]:
    return Call(
        action=f"describe topics {names[0]} ..." if names else "describe all topics",
        api=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        to=AnyBrokerStrategy(),
        build=lambda context: DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        ),
        read=lambda response, context: {None: response},
        name=nameless,
    )


def merge_page(
    described: dict[str, Outcome[TopicDescription]], page: Any, with_operations: bool
) -> None:
    """Add the topics of a page; a topic that began on an earlier one goes on here."""
    for topic in page.topics:
        outcome = outcome_of(f"describe topic {topic.name}", _described(topic))
        earlier = described.get(topic.name)
        if earlier is not None and earlier.is_ok and outcome.is_ok:
            before, more = earlier.unwrap(), outcome.unwrap()
            joined = {**before.partitions, **more.partitions}
            outcome = Outcome.of(replace(before, partitions=joined))
        if outcome.is_ok and not with_operations:
            outcome = Outcome.of(replace(outcome.unwrap(), authorized_operations=None))
        described[topic.name] = outcome


def _described(topic: Any) -> TopicDescription | ApiError:
    api_error = error_of(topic)
    if api_error is not None:
        return api_error
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions={
            one.partition_index: _partition(one)
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        },
        authorized_operations=operations_of_bits(topic.topic_authorized_operations),
    )


def _partition(one: Any) -> PartitionDescription:
    eligible = getattr(one, "eligible_leader_replicas", None)
    last_known = getattr(one, "last_known_elr", None)
    return PartitionDescription(
        partition=one.partition_index,
        leader_id=None if one.leader_id < 0 else one.leader_id,
        leader_epoch=one.leader_epoch,
        replica_ids=tuple(one.replica_nodes),
        in_sync_replica_ids=tuple(one.isr_nodes),
        offline_replica_ids=tuple(one.offline_replicas),
        eligible_leader_replica_ids=None if eligible is None else tuple(eligible),
        last_known_eligible_leader_replica_ids=None if last_known is None else tuple(last_known),
    )


def _not_mentioned(name: str) -> Outcome[TopicDescription]:
    api_error = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return outcome_of(f"describe topic {name}", api_error)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.replica_assignment.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _created(topic: Any) -> CreatedTopic:
    # Who may create a topic and not describe its settings gets an error code in their place.
    has_configs = topic.configs is not None and not topic.topic_config_error_code
    return CreatedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=topic.num_partitions if topic.num_partitions >= 0 else None,
        replication_factor=topic.replication_factor if topic.replication_factor >= 0 else None,
        configs={
            one.name: ConfigEntry(
                name=one.name,
                value=one.value,
                source=ConfigSource(one.config_source),
                is_read_only=one.read_only,
                is_sensitive=one.is_sensitive,
            )
            for one in topic.configs
        }
        if has_configs
        else None,
    )


def _deletion_by_name(context: RequestContext[str]) -> DeleteTopicsRequest:
    if context.version < _DELETE_BY_ID:
        return DeleteTopicsRequest(topic_names=list(context.keys), timeout_ms=context.timeout_ms)
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in context.keys], timeout_ms=context.timeout_ms
    )


def _more_partitions(name: str, wanted: NewPartitions | int) -> CreatePartitionsTopic:
    if isinstance(wanted, int):
        wanted = NewPartitions(total_count=wanted)
    assignments = wanted.replica_assignments
    return CreatePartitionsTopic(
        name=name,
        count=wanted.total_count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(one)) for one in assignments],
    )
