"""DeleteRecords (21), versions 0 to 2: raise the log start offset. Source: SEG-13.

The response is sent when all live replicas have followed, with the low watermark, or after the
time-out.
"""

from functools import partial

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.leader.delayed_delete_records import (
    DeleteRecordsResult,
    wait_replicated,
)
from barnabas_broker.replication.partition import INTERNAL_TOPICS
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


async def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Raise each partition on its own, then wait for the replicas of all."""
    each = partial(services.heavy_work.each, in_flight)
    topics = [
        (
            topic.name,
            [
                await _delete(services, topic.name, requested)
                async for requested in each(topic.partitions)
            ],
        )
        async for topic in each(request.topics)
    ]
    deletions = [
        result
        for _, results in topics
        for result in results
        if isinstance(result, DeleteRecordsResult)
    ]
    if deletions:
        await wait_replicated(deletions, request.timeout_ms, services.replicas.produce_purgatory)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name, partitions=[_result(result) async for result in each(results)]
            )
            for name, results in topics
        ]
    )


async def _delete(
    services: Services, topic: str, requested: DeleteRecordsPartition
) -> DeleteRecordsResult | DeleteRecordsPartitionResult:
    """Raise the leader's log start; an error's result where that is refused."""
    try:
        if topic in INTERNAL_TOPICS and topic in services.replicas.image.topics.by_name:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = services.replicas.find(TopicPartition(topic, requested.partition_index))
        partition.check_leader()
        log = partition.log
        if "delete" not in log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        offset = log.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
        if not 0 <= offset <= log.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        await log.delete_records(offset)
        partition.start_offset_moved()
    except KafkaError as error:
        return _failed(requested.partition_index, error.code)
    return DeleteRecordsResult(partition, offset)


def _result(
    result: DeleteRecordsResult | DeleteRecordsPartitionResult,
) -> DeleteRecordsPartitionResult:
    if isinstance(result, DeleteRecordsPartitionResult):
        return result
    return DeleteRecordsPartitionResult(
        partition_index=result.partition.topic_partition.partition,
        low_watermark=result.low_watermark,
        error_code=result.error_code,
    )


def _failed(index: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=code)


def failed(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """The same error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _failed(partition.partition_index, error.code) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
