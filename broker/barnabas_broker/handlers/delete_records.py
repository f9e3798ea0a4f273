"""DeleteRecords (21), versions 0 to 2: raise the log start offset. Source: SEG-13.

With one replica the low watermark is the leader's own log start offset, so there is nothing to wait
for.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
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
    services: Services, exchange: Exchange, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Raise each partition on its own."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    await _delete(services, topic.name, partition) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _delete(
    services: Services, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = services.replicas.find(TopicPartition(topic, asked.partition_index))
        partition.check_leader()
        log = partition.log
        if "delete" not in log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        offset = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= log.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        await log.delete_records(offset)
    except KafkaError as error:
        return _failed(asked.partition_index, error.code)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=log.log_start_offset
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
