"""DescribeProducers (61), version 0: who writes to a partition, by the state of its log.

Served by every replica; clients choose the leader unless they are told a broker, to see what a
follower has. `kafka-transactions` finds hanging transactions by it. Source: TXN-10.
"""

from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.request_limits import encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.log.producer_state import ProducerEntry
from barnabas_broker.network.heavy_work import each_and_held
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeProducersRequest
) -> bytes:
    """Describe the producers of each partition; a partition may have 20,000."""
    topics: list[TopicResponse] = []
    is_readable, each = False, services.heavy_work.each
    pairs = each_and_held(request.topics, lambda topic: topic.partition_indexes)
    async for topic, index in each(in_flight, pairs):
        if index is None:
            is_readable = may(
                services, in_flight, AclOperation.READ, AclResourceType.TOPIC, topic.name
            )
            topics.append(TopicResponse(name=topic.name))
            continue
        partitions = topics[-1].partitions
        if not is_readable:
            partitions.append(_refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        described, producers = _describe(services, TopicPartition(topic.name, index))
        async for producer in each(in_flight, producers):
            described.active_producers.append(_state(producer))
        partitions.append(described)
    response = DescribeProducersResponse(topics=topics)
    return await encode_apart(services.heavy_work, in_flight, response)


def _describe(
    services: Services, topic_partition: TopicPartition
) -> tuple[PartitionResponse, list[ProducerEntry]]:
    """The response without producers, and the producers."""
    index = topic_partition.partition
    try:
        partition = services.replicas.find(topic_partition)
        partition.check_replica()
    except KafkaError as error:
        refused = PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message or None
        )
        return refused, []
    return PartitionResponse(partition_index=index), list(partition.log.producer_state.active())


def _refused(index: int, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code)


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


def failed(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    """The same error for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_refused(index, error.code) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )
