"""Produce (0), versions 3 to 13: append one record batch to each of some partitions.

Listed from 0, or old librdkafka stops compressing; below 3 the connection is closed. v8: record
errors and a message. v10: the current leader (KIP-951). v12: transactions v2. v13: topic ids.
acks=0 has no response; an error closes the connection then (REQ-2).
"""

import logging
from collections.abc import Iterator, Sequence

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.leader_hints import LeaderHints
from barnabas_broker.handlers.produce_response import (
    HINTS_SINCE,
    IDS_SINCE,
    encode_produce_response,
)
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import ConnectionGoneError
from barnabas_broker.network.session import Exchange
from barnabas_broker.replication.producing import HeavyAppends, ProduceResult, TopicRecords
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas_protocol.records.batch import ATTRIBUTES_POSITION, COMPRESSION_MASK, HEADER_BYTES
from barnabas_protocol.records.compression import Compression

logger = logging.getLogger(__name__)

ZSTD_SINCE = 7
# Stands for no id at all; no topic has it.
_UNKNOWN_ID = b"\xff" * 16


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
            _answer(services, exchange, request, results)

    version = exchange.api_version
    if version < ZSTD_SINCE and any(map(_is_zstd, _batches(request))):
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce 7")
    heavy = services.replicas.produce(
        _entries(services, request, version),
        acks=acks,
        timeout_ms=request.timeout_ms,
        now_ms=services.clock.wall_ms(),
        done=done,
    )
    if heavy is not None:
        # The next requests of the connection wait: appends stay in their order.
        exchange.session.hold()
        services.spawn(_append_heavy(services, exchange, heavy))


async def _append_heavy(services: Services, exchange: Exchange, heavy: HeavyAppends) -> None:
    """Append the batches that are left; none to be checked of a connection that has gone before."""
    try:
        await heavy(
            lambda check: services.heavy_work.run(exchange, check), services.heavy_work.pause
        )
    except ConnectionGoneError:
        return
    except Exception:
        logger.exception("a batch could not be checked")
        exchange.session.close("a batch could not be checked")
    finally:
        exchange.session.release()


def _batches(request: ProduceRequest) -> Iterator[Buffer | None]:
    return (part.records for topic in request.topic_data for part in topic.partition_data)


def _is_zstd(records: Buffer | None) -> bool:
    return (
        records is not None
        and len(records) > HEADER_BYTES
        and records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK == Compression.ZSTD
    )


def _entries(services: Services, request: ProduceRequest, version: int) -> TopicRecords:
    entries: list[tuple[TopicPartition, bytes, Buffer | None]] = []
    for topic in request.topic_data:
        name, topic_id = topic.name, topic.topic_id
        if version >= IDS_SINCE:
            image = services.image.topics.by_id.get(topic_id)
            if image is None:
                name, topic_id = "", topic_id if topic_id != ZERO_UUID else _UNKNOWN_ID
            else:
                name = image.name
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


def _answer(
    services: Services,
    exchange: Exchange,
    request: ProduceRequest,
    results: Sequence[ProduceResult],
) -> None:
    version = exchange.api_version
    hints = None
    moved = [
        result.topic_partition
        for result in results
        if result.error is not None and result.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    ]
    if moved and version >= HINTS_SINCE:
        hints = LeaderHints.find(services.image, exchange, moved)
    exchange.reply(
        [
            encode_produce_response(
                version, exchange.correlation_id, request.topic_data, results, hints
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
