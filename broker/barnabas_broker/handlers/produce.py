"""Produce (0), versions 3 to 13: append one record batch to each of some partitions.

Listed from 0, or old librdkafka stops compressing; below 3 the connection is closed. v8: record
errors and a message. v10: the current leader (KIP-951). v12: transactions v2. v13: topic ids.
acks=0 has no response; an error closes the connection then (REQ-2).
"""

from collections.abc import Sequence

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.produce_response import encode_produce_response
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
from barnabas_broker.replication.producing import ProduceResult, TopicRecords
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.produce import (
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


def _entries(services: Services, request: ProduceRequest) -> TopicRecords:
    entries: list[tuple[TopicPartition, bytes, Buffer | None]] = []
    for topic in request.topic_data:
        name, topic_id = topic.name, topic.topic_id
        if topic_id != ZERO_UUID:
            image = services.image.topics.by_id.get(topic_id)
            name = "" if image is None else image.name
        entries += [
            (TopicPartition(name, partition.index), topic_id, partition.records)
            for partition in topic.partition_data
        ]
    return entries


def _finish_unanswered(exchange: Exchange, results: Sequence[ProduceResult]) -> None:
    exchange.reply_nothing()
    for result in results:
        if result.error is not None:
            exchange.session.close(
                f"produce with acks=0 failed: {result.topic_partition}: {result.error.code.name}"
            )
            return


def _answer(exchange: Exchange, request: ProduceRequest, results: Sequence[ProduceResult]) -> None:
    exchange.reply(
        [
            encode_produce_response(
                exchange.api_version, exchange.correlation_id, request.topic_data, results
            )
        ]
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
