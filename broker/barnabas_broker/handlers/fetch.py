"""Fetch (1), versions 4 to 17.

Whole record batches from some partitions, at once or when there is enough.

v7: sessions. v9: the client's leader epoch. v12: flexible, last fetched epoch, cluster id. v13:
topic ids. v15: replica state in a tag. Source: KIP-74, KIP-227, KIP-516.
"""

from barnabas_broker.handlers.fetch_response import IDS_SINCE, encode_fetch_response
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import Exchange
from barnabas_broker.replication.fetch_session import FetchContext, FetchPartition, SessionKey
from barnabas_broker.replication.fetching import FetchParameters, PartitionData
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import FetchRequest, FetchResponse

READ_COMMITTED = 1
SESSIONS_SINCE = 7


def handle(services: Services, exchange: Exchange, request: FetchRequest) -> None:
    """Read the partitions of the request or of its session, and answer when there is enough."""
    version = exchange.api_version
    asked, forgotten = _asked(services, request, version)
    if version >= SESSIONS_SINCE:
        context = services.fetch_sessions.resolve(
            request.session_id,
            request.session_epoch,
            asked,
            forgotten,
            is_follower=False,
            uses_topic_ids=version >= IDS_SINCE,
            now_ms=services.clock.monotonic_ms(),
        )
    else:
        context = FetchContext(asked, None, True)
    if context.session is not None and version >= IDS_SINCE:
        _name_again(services, context)
    parameters = FetchParameters(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, services.config.fetch_max_bytes),
        read_committed=request.isolation_level == READ_COMMITTED,
        is_follower=False,
    )

    is_held = False

    def done(results: list[PartitionData]) -> None:
        if is_held:
            exchange.session.release()
        if not exchange.session.is_closed:
            exchange.reply(
                encode_fetch_response(
                    version,
                    exchange.correlation_id,
                    ErrorCode.NONE,
                    context.session_id,
                    _to_tell(context, results),
                )
            )

    fetching = services.replicas.fetch(context.partitions, parameters, done)
    if not fetching.is_completed:
        exchange.on_closed(fetching.cancel)
    elif not exchange.is_done:
        # A thread reads for it. The next requests of the connection wait: each may ask for as many
        # bytes again, and what is read is not seen as unsent before it is answered (REQ-12).
        is_held = True
        exchange.session.hold()


def _asked(
    services: Services, request: FetchRequest, version: int
) -> tuple[list[FetchPartition], list[SessionKey]]:
    by_id = services.image.topics.by_id
    asked = []
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        if version >= IDS_SINCE:
            image = by_id.get(topic_id)
            name = "" if image is None else image.name
        asked.extend(
            [
                FetchPartition(
                    TopicPartition(name, partition.partition),
                    topic_id,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                    partition.last_fetched_epoch,
                )
                for partition in topic.partitions
            ]
        )
    forgotten: list[SessionKey] = [
        (topic.topic if topic.topic_id == ZERO_UUID else topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return asked, forgotten


def _name_again(services: Services, context: FetchContext) -> None:
    """Look up the ids that were unknown when the session first named them.

    The topic may exist by now.
    """
    by_id = services.image.topics.by_id
    for partition in context.partitions:
        if not partition.topic_partition.topic:
            image = by_id.get(partition.topic_id)
            if image is not None:
                partition.topic_partition = TopicPartition(
                    image.name, partition.topic_partition.partition
                )


def _to_tell(context: FetchContext, results: list[PartitionData]) -> list[PartitionData]:
    """What of the results goes into the response.

    In a session, only what is new to the client (REQ-9).
    """
    session = context.session
    if session is None:
        return results
    told = []
    for data in results:
        partition = data.request
        is_news = (
            data.size_bytes > 0
            or data.error != ErrorCode.NONE
            or data.diverging is not None
            or data.high_watermark != partition.sent_high_watermark
            or data.log_start_offset != partition.sent_log_start_offset
        )
        if is_news or context.is_full:
            partition.sent_high_watermark = data.high_watermark
            partition.sent_log_start_offset = data.log_start_offset
            if data.error != ErrorCode.NONE:
                partition.sent_high_watermark = -1  # told again when the error has gone
            told.append(data)
        if data.size_bytes > 0 and len(results) > 1:
            session.move_to_end(partition)
    return told


def failed(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """The error of the whole request."""
    return FetchResponse(error_code=error.code)
