"""Produce (0), versions 3 to 13: append one record batch to each of some partitions.

Listed from 0, or old librdkafka stops compressing; below 3 the connection is closed. v8: record
errors and a message. v10: the current leader (KIP-951). v12: transactions v2. v13: topic ids.
acks=0 has no response; an error closes the connection then (REQ-2).
"""

from collections.abc import Iterator, Sequence

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
from barnabas_broker.replication.producing import ProduceResult
from barnabas_protocol import codec
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


def handle(services: Services, exchange: Exchange, request: ProduceRequest) -> None:
    """Append, and answer when `acks` is met."""
    acks = request.acks
    if acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served"
        )

    def done(results: Sequence[ProduceResult]) -> None:
        if acks == 0:
            _finish_unanswered(exchange, results)
        else:
            _answer(exchange, request, results)

    services.replicas.produce(
        _entries(services, request),
        acks=acks,
        timeout_ms=request.timeout_ms,
        now_ms=services.clock.wall_ms(),
        done=done,
    )


def _entries(
    services: Services, request: ProduceRequest
) -> Iterator[tuple[TopicPartition, bytes, Buffer | None]]:
    for topic in request.topic_data:
        name, topic_id = topic.name, topic.topic_id
        if topic_id != ZERO_UUID:
            image = services.image.topics.by_id.get(topic_id)
            name = "" if image is None else image.name
        for partition in topic.partition_data:
            yield TopicPartition(name, partition.index), topic_id, partition.records


def _finish_unanswered(exchange: Exchange, results: Sequence[ProduceResult]) -> None:
    exchange.reply_nothing()
    for result in results:
        if result.error is not None:
            exchange.session.close(
                f"produce with acks=0 failed: {result.topic_partition}: {result.error.code.name}"
            )
            return


def _answer(exchange: Exchange, request: ProduceRequest, results: Sequence[ProduceResult]) -> None:
    if exchange.session.is_closed:
        return
    position = 0
    topics = []
    for topic in request.topic_data:
        end = position + len(topic.partition_data)
        topics.append(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_partition(result) for result in results[position:end]],
            )
        )
        position = end
    exchange.reply(
        [
            codec.encode_response(
                ProduceResponse(responses=topics),
                exchange.api_key,
                exchange.api_version,
                exchange.correlation_id,
            )
        ]
    )


def _partition(result: ProduceResult) -> PartitionProduceResponse:
    index = result.topic_partition.partition
    error, info = result.error, result.info
    if error is None:
        assert info is not None
        return PartitionProduceResponse(
            index=index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=message)
            for record, message in getattr(error, "record_errors", ())
        ],
        error_message=error.message,
    )


def failed(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index,
                        error_code=error.code,
                        base_offset=-1,
                        error_message=error.message,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
