"""Metadata (3), versions 0 to 13: brokers, topics, who leads which partition.

v1: null means all topics, before that an empty list did. v4: the client says whether missing topics
may be created. v7: leader epochs. v8 to v10: authorized operations. v10: topic ids. v12: look-up by
id. v13: an error of the whole response. Source: KIP-516, TOP-6.
"""

from collections.abc import Mapping

from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.handlers.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from barnabas_broker.handlers.replica_states import offline_replicas
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import BrokerImage, PartitionImage, TopicImage
from barnabas_broker.network.session import Exchange
from barnabas_broker.replication.partition import INTERNAL_TOPICS
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


def handle(services: Services, exchange: Exchange, request: MetadataRequest) -> MetadataResponse:
    """Describe the cluster and the topics asked for."""
    image, version = services.image, exchange.api_version
    brokers = [
        MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
        for broker, host, port in live_brokers(services, exchange)
    ]
    asked = request.topics
    if asked is None or (version < NULL_SINCE and not asked):
        topics = [
            describe_topic(topic, image.brokers, request.include_topic_authorized_operations)
            for topic in image.topics.by_name.values()
        ]
    else:
        found = [_topic(services, exchange, request, topic) for topic in asked]
        # A topic that is asked for twice, or by its id and its name, is described once.
        topics = list({topic.name or topic.topic_id: topic for topic in found}.values())
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def live_brokers(services: Services, exchange: Exchange) -> list[tuple[BrokerImage, str, int]]:
    """The brokers that are not fenced, with host and port of the listener that the client uses."""
    found = []
    for broker in services.image.brokers.values():
        listener = broker.listeners.get(exchange.session.listener_name)
        if listener is not None and not broker.fenced:
            found.append((broker, listener.host, listener.port))
    return found


def _topic(
    services: Services,
    exchange: Exchange,
    request: MetadataRequest,
    asked: MetadataRequestTopic,
) -> MetadataResponseTopic:
    topics, brokers = services.image.topics, services.image.brokers
    if asked.topic_id != ZERO_UUID:
        if exchange.api_version < IDS_LOOKED_UP_SINCE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics are found by id from version 12 on")
        topic = topics.by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return describe_topic(topic, brokers, request.include_topic_authorized_operations)
    name = asked.name
    if name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic needs a name or an id")
    topic = topics.by_name.get(name)
    if topic is not None:
        return describe_topic(topic, brokers, request.include_topic_authorized_operations)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        validate_topic_name(name)
        if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
            services.topic_creation.ensure(name)
    except KafkaError as error:
        code = error.code
    # Kafka tells the operations of topics that do not exist as well, and kafka-python relies on it.
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_authorized_operations=(
            TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
        ),
    )


def describe_topic(
    topic: TopicImage, brokers: Mapping[int, BrokerImage], with_operations: bool
) -> MetadataResponseTopic:
    """A topic that exists."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(index, partition, brokers)
            for index, partition in enumerate(topic.partitions)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS if with_operations else NOT_ASKED,
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
