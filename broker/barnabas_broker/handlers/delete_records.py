"""DeleteRecords (21), versions 0 to 2: raise the log start offset. Source: SEG-13.

The response is sent when the new log starts are on the device here and all live replicas have
followed, with the low watermark, or after the time-out.
"""

from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import each_and_held
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.leader.delayed_delete_records import (
    DeleteRecordsResult,
    wait_replicated,
)
from barnabas_broker.replication.partition import INTERNAL_TOPICS
from barnabas_protocol.acl import AclOperation, AclResourceType
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
_Result = DeleteRecordsResult | DeleteRecordsPartitionResult


async def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Raise each partition on its own, note it for all, then wait for the replicas of all."""
    each = services.heavy_work.each
    topics: list[tuple[str, list[_Result]]] = []
    is_allowed = False
    pairs = each_and_held(request.topics, lambda topic: topic.partitions)
    async for topic, requested in each(in_flight, pairs):
        if requested is None:
            is_allowed = may(
                services, in_flight, AclOperation.DELETE, AclResourceType.TOPIC, topic.name
            )
            topics.append((topic.name, []))
            continue
        topics[-1][1].append(
            await _delete(services, topic.name, requested)
            if is_allowed
            else _failed(requested.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        )
    deletions = [
        result
        for _, results in topics
        for result in results
        if isinstance(result, DeleteRecordsResult)
    ]
    if deletions:
        await services.logs.note_log_starts(deletion.partition.log for deletion in deletions)
        await wait_replicated(deletions, request.timeout_ms, services.replicas.produce_purgatory)
    response = DeleteRecordsResponse()
    async for (name, _), result in each(in_flight, each_and_held(topics, lambda topic: topic[1])):
        if result is None:
            response.topics.append(DeleteRecordsTopicResult(name=name))
        else:
            response.topics[-1].partitions.append(_result(result))
    return response


async def _delete(services: Services, topic: str, requested: DeleteRecordsPartition) -> _Result:
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


def _result(result: _Result) -> DeleteRecordsPartitionResult:
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
