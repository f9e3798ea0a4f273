"""OffsetForLeaderEpoch (23), versions 2 to 4.

Where a leader epoch ended, so that a client can tell whether its log was cut. Source: REP-15.
"""

from barnabas_broker.handlers.authorization import may, may_cluster
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer each partition on its own."""
    follows = may_cluster(services, in_flight, AclOperation.CLUSTER_ACTION, is_filter=True)
    topics = []
    for topic in request.topics:
        is_visible = follows or may(
            services, in_flight, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic
        )
        partitions = [
            _end_offset(services, topic.topic, partition)
            if is_visible
            else _undefined(partition.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for partition in topic.partitions
        ]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_offset(
    services: Services, topic: str, requested: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        partition = services.replicas.find(TopicPartition(topic, requested.partition))
        partition.check_leader(requested.current_leader_epoch)
    except KafkaError as error:
        return _undefined(requested.partition, error.code)
    leader_epoch, end_offset = partition.log.leader_epochs.end_offset_for(
        requested.leader_epoch, partition.log.log_end_offset
    )
    return EpochEndOffset(
        partition=requested.partition, leader_epoch=leader_epoch, end_offset=end_offset
    )


def _undefined(partition: int, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=partition, error_code=code, leader_epoch=-1, end_offset=-1)


def failed(request: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    """The same error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _undefined(partition.partition, error.code) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
