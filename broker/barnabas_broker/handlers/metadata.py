"""Metadata (3), versions 0 to 13: brokers, topics, who leads which partition.

v1: null means all topics, before that an empty list did. v4: the client chooses whether missing
topics may be created. v7: leader epochs. v8 to v10: authorized operations. v10: topic ids. v12:
look-up by id. v13: an error of the whole response. Source: KIP-516, TOP-6.
"""

from collections.abc import Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.handlers.authorization import may, may_cluster
from barnabas_broker.handlers.authorized_operations import (
    NOT_ASKED,
    OPERATIONS_SLICE,
    authorized_operations,
    cluster_operations,
)
from barnabas_broker.handlers.replica_states import offline_replicas
from barnabas_broker.handlers.request_limits import encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import BrokerImage, PartitionImage, TopicImage
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.partition import INTERNAL_TOPICS
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NULL_SINCE = 1
IDS_LOOKED_UP_SINCE = 12
# A topic that is here, or the response for one that is not.
Found = TopicImage | MetadataResponseTopic


def handle(
    services: Services, in_flight: InFlightRequest, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, bytes]:
    """Describe the cluster and the requested topics; a coroutine where that is much."""
    image, requested, size = services.image, request.topics, _slice_size(services, request)
    if requested is None or (in_flight.api_version < NULL_SINCE and not requested):
        found: Collection[Found] = image.topics.by_name.values()
        if services.authorizer is not None:
            if len(found) > SLICE:
                return _describe_visible(services, in_flight, request, found)
            found = [
                topic
                for topic in found
                if _may_see(services, in_flight, topic.name or "", is_filter=True)
            ]
    elif len(requested) > size:
        return _describe_many(services, in_flight, request, requested)
    else:
        found = _each_once([_find(services, in_flight, request, topic) for topic in requested])
    if len(found) > size or len(found) + sum(len(one.partitions) for one in found) > SLICE:
        return _describe_in_slices(services, in_flight, request, list(found))
    topics = [
        _describe(services, in_flight, request, one) if isinstance(one, TopicImage) else one
        for one in found
    ]
    return _response(services, in_flight, request, topics)


def _slice_size(services: Services, request: MetadataRequest) -> int:
    """How many topics are looked at in some milliseconds."""
    has_operations = services.authorizer is not None and request.include_topic_authorized_operations
    return OPERATIONS_SLICE if has_operations else SLICE


async def _describe_visible(
    services: Services,
    in_flight: InFlightRequest,
    request: MetadataRequest,
    topics: Collection[Found],
) -> bytes:
    """All topics that the client may see."""
    visible = [
        topic
        async for topic in services.heavy_work.each(in_flight, topics)
        if _may_see(services, in_flight, topic.name or "", is_filter=True)
    ]
    return await _describe_in_slices(services, in_flight, request, visible)


async def _describe_many(
    services: Services,
    in_flight: InFlightRequest,
    request: MetadataRequest,
    requested: Sequence[MetadataRequestTopic],
) -> bytes:
    each, size = services.heavy_work.each, _slice_size(services, request)
    found = [
        _find(services, in_flight, request, topic)
        async for topic in each(in_flight, requested, size)
    ]
    return await _describe_in_slices(services, in_flight, request, _each_once(found))


async def _describe_in_slices(
    services: Services,
    in_flight: InFlightRequest,
    request: MetadataRequest,
    found: Collection[Found],
) -> bytes:
    """The frame of the response; the loop goes on while it is made."""
    each, brokers = partial(services.heavy_work.each, in_flight), services.image.brokers
    topics = [
        _without_partitions(services, in_flight, request, one)
        if isinstance(one, TopicImage)
        else one
        async for one in each(found, _slice_size(services, request))
    ]
    partitions = (
        (topic, index, partition)
        for topic, one in zip(topics, found, strict=True)
        if isinstance(one, TopicImage)
        for index, partition in enumerate(one.partitions)
    )
    async for topic, index, partition in each(partitions):
        topic.partitions.append(_partition(index, partition, brokers))
    response = _response(services, in_flight, request, topics)
    return await encode_apart(services.heavy_work, in_flight, response)


def _each_once(found: Sequence[Found]) -> Collection[Found]:
    """A topic that is requested twice, or by its id and its name, is described once."""
    return list({one.name or one.topic_id: one for one in found}.values())


def _response(
    services: Services,
    in_flight: InFlightRequest,
    request: MetadataRequest,
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    image = services.image
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
            for broker, host, port in live_brokers(services, in_flight)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            cluster_operations(services, in_flight)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )


def live_brokers(
    services: Services, in_flight: InFlightRequest
) -> list[tuple[BrokerImage, str, int]]:
    """The brokers that are not fenced, with host and port of the listener that the client uses."""
    found = []
    for broker in services.image.brokers.values():
        listener = broker.listeners.get(in_flight.session.listener_name)
        if listener is not None and not broker.fenced:
            found.append((broker, listener.host, listener.port))
    return found


def _find(
    services: Services,
    in_flight: InFlightRequest,
    request: MetadataRequest,
    requested: MetadataRequestTopic,
) -> Found:
    topics = services.image.topics
    if requested.topic_id != ZERO_UUID:
        if in_flight.api_version < IDS_LOOKED_UP_SINCE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics are found by id from version 12 on")
        topic = topics.by_id.get(requested.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=requested.topic_id
            )
        if not _may_see(services, in_flight, topic.name):
            # An id says nothing; its name would.
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                name=None,
                topic_id=requested.topic_id,
            )
        return topic
    name = requested.name
    if name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic needs a name or an id")
    if not _may_see(services, in_flight, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = topics.by_name.get(name)
    if topic is not None:
        return topic
    creates = request.allow_auto_topic_creation and services.config.auto_create_topics_enable
    if creates and not _may_create(services, in_flight, name):
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
        )
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        validate_topic_name(name)
        if creates:
            services.topic_creation.ensure(name, in_flight)
    except KafkaError as error:
        code = error.code
    # Kafka lists the operations of topics that do not exist as well, and kafka-python relies on it.
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_authorized_operations=_operations(services, in_flight, request, name),
    )


def _may_see(
    services: Services, in_flight: InFlightRequest, topic: str, *, is_filter: bool = False
) -> bool:
    return may(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.TOPIC,
        topic,
        is_filter=is_filter,
    )


def _may_create(services: Services, in_flight: InFlightRequest, topic: str) -> bool:
    """Whether the client may have topics made by naming them: any, or this one."""
    return may_cluster(services, in_flight, AclOperation.CREATE, is_filter=True) or may(
        services, in_flight, AclOperation.CREATE, AclResourceType.TOPIC, topic
    )


def _operations(
    services: Services, in_flight: InFlightRequest, request: MetadataRequest, topic: str
) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_ASKED
    return authorized_operations(services, in_flight, AclResourceType.TOPIC, topic)


def _describe(
    services: Services, in_flight: InFlightRequest, request: MetadataRequest, topic: TopicImage
) -> MetadataResponseTopic:
    """A topic that exists."""
    described = _without_partitions(services, in_flight, request, topic)
    brokers = services.image.brokers
    described.partitions = [
        _partition(index, partition, brokers) for index, partition in enumerate(topic.partitions)
    ]
    return described


def _without_partitions(
    services: Services, in_flight: InFlightRequest, request: MetadataRequest, topic: TopicImage
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=_operations(services, in_flight, request, topic.name),
    )


def _partition(
    index: int, partition: PartitionImage, brokers: Mapping[int, BrokerImage]
) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=(ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE),
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(partition, brokers),
    )


def failed(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """The error for each topic, and for the whole from version 13 on."""
    return MetadataResponse(
        topics=[
            # Before version 12 a name may be null in requests only.
            MetadataResponseTopic(
                error_code=error.code, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ],
        error_code=error.code,
    )
