"""DescribeProducers (61), version 0: who writes to a partition, by the state of its log.

Served by the leader only; `kafka-transactions` finds hanging transactions by it. Source: TXN-10.
"""

from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.request_limits import encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.log.producer_state import ProducerEntry
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
    topics = []
    for topic in request.topics:
        partitions = []
        is_readable = may(services, in_flight, AclOperation.READ, AclResourceType.TOPIC, topic.name)
        for index in topic.partition_indexes:
            if not is_readable:
                partitions.append(_refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            described = _describe(services, TopicPartition(topic.name, index))
            async for producer in services.heavy_work.each(in_flight, described[1]):
                described[0].active_producers.append(_state(producer))
            partitions.append(described[0])
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    response = DescribeProducersResponse(topics=topics)
    return await encode_apart(services.heavy_work, in_flight, response)


def _describe(
    services: Services, topic_partition: TopicPartition
) -> tuple[PartitionResponse, list[ProducerEntry]]:
    """The response without producers, and the producers."""
    index = topic_partition.partition
    try:
        partition = services.replicas.find(topic_partition)
        partition.check_leader()
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
