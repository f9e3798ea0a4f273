"""Fetch (1), versions 4 to 17.

Whole record batches from some partitions, at once or when there is enough; for followers, also how
far they are.

v7: sessions. v9: the reader's leader epoch. v11: the consumer's rack (KIP-392). v12: flexible, last
fetched epoch, cluster id. v13: topic ids. v15: the follower and its broker epoch in a tag. v16: who
leads instead (KIP-951). Source: KIP-74, KIP-227, KIP-516, KIP-903.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.broker_listener import is_of_brokers
from barnabas_broker.handlers.fetch_response import HINTS_SINCE, IDS_SINCE, encode_fetch_response
from barnabas_broker.handlers.leader_hints import LeaderHints
from barnabas_broker.handlers.request_limits import LOOP_BYTES_OF_PARTITIONS_MAX
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.session import Exchange
from barnabas_broker.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchPartition,
    SessionKey,
    consumer_session,
    session_key,
)
from barnabas_broker.replication.fetching import (
    NO_REPLICA,
    ChooseReplica,
    Fetching,
    FetchParameters,
    PartitionData,
)
from barnabas_broker.replication.follower_session import FollowerSession
from barnabas_broker.replication.replica_choice import replica_in_rack
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import FetchRequest, FetchResponse

READ_COMMITTED = 1
CONSUMER = -1
SESSIONS_SINCE = 7
FOLLOWERS_SERVE_SINCE = 11
REPLICA_STATE_SINCE = 15
_NEW_SESSION = (INITIAL_EPOCH, FINAL_EPOCH)
KEPT_FRAME_BYTES = 4096
PARTITIONS_MAX = 10_000
"""Of one request of a client; as many as one consumer may have in its session."""
AT_ONCE_MAX = 1_000
"""So many partitions are read in one turn of the loop."""
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Answer:
    """The answer of one fetch: given when the results are there, if anybody still wants it."""

    __slots__ = ("context", "exchange", "is_held", "reserved_bytes", "services")

    def __init__(self, services: Services, exchange: Exchange, context: FetchContext) -> None:
        self.services = services
        self.exchange = exchange
        self.context = context
        self.is_held = False
        self.reserved_bytes = 0

    def __call__(self, results: list[PartitionData]) -> None:
        exchange = self.exchange
        if self.is_held:
            exchange.session.reserve_answer(-self.reserved_bytes)
            exchange.session.release()
        if not exchange.session.is_closed:
            exchange.reply(self.encoding(results)())

    def encoding(self, results: list[PartitionData]) -> Callable[[], list[Buffer]]:
        """What makes the frame of the answer; it may be called in a thread."""
        exchange, context = self.exchange, self.context
        if not isinstance(context.session, FollowerSession):
            results = _to_tell(context, results)
        version = exchange.api_version
        hints = None
        if version >= HINTS_SINCE:
            moved = [data.request.topic_partition for data in results if data.error in _MOVED]
            if moved:
                hints = LeaderHints.find(self.services.image, exchange, moved)
        return partial(
            encode_fetch_response,
            version,
            exchange.correlation_id,
            ErrorCode.NONE,
            context.session_id,
            results,
            hints,
        )

    def wait_for(self, fetching: Fetching, bytes_max: int) -> None:
        """Have the connection wait while a thread reads, or the fetch end with the connection."""
        exchange = self.exchange
        if not fetching.is_completed:
            exchange.on_closed(fetching.cancel)
        elif not exchange.is_done:
            # A thread reads for it. The next requests of the connection wait: each may ask for as
            # many bytes again, and what is read is not seen as unsent before it is answered
            # (REQ-12).
            self.is_held = True
            self.reserved_bytes = bytes_max
            exchange.session.reserve_answer(bytes_max)
            exchange.session.hold()


def handle(
    services: Services, exchange: Exchange, request: FetchRequest
) -> Coroutine[Any, Any, None] | None:
    """Read the partitions of the request or of its session, and answer when there is enough.

    A coroutine where they are very many.
    """
    version = exchange.api_version
    node_id = request.replica_id
    if version >= REPLICA_STATE_SINCE:
        node_id = request.replica_state.replica_id
    if node_id >= 0 and not is_of_brokers(services, exchange):
        # What a follower fetches moves the high watermark.
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers fetch as followers")
    if len(exchange.frame) > LOOP_BYTES_OF_PARTITIONS_MAX:
        return _handle_large(services, exchange, request, node_id)
    asked, forgotten = _asked(services.image, request, version)
    return _handle_asked(services, exchange, request, node_id, asked, forgotten)


async def _handle_large(
    services: Services, exchange: Exchange, request: FetchRequest, node_id: int
) -> None:
    """The same for a request that is read in a thread."""
    asked, forgotten = await services.heavy_work.run(
        exchange, _asked_once, services.image, request, exchange.api_version
    )
    if node_id < 0 and len(asked) + len(forgotten) > PARTITIONS_MAX:
        raise ParseError(f"a Fetch of more than {PARTITIONS_MAX} partitions")
    work = _handle_asked(services, exchange, request, node_id, asked, forgotten)
    if work is not None:
        await work


def _handle_asked(
    services: Services,
    exchange: Exchange,
    request: FetchRequest,
    node_id: int,
    asked: list[FetchPartition],
    forgotten: list[SessionKey],
) -> Coroutine[Any, Any, None] | None:
    version = exchange.api_version
    if len(exchange.frame) > KEPT_FRAME_BYTES:
        # It may be parked for long, with tags of megabytes that nobody knows.
        exchange.session.release_frame(exchange)
    if node_id >= 0:
        _handle_follower(services, exchange, request, node_id, asked, forgotten)
        return None
    if version >= SESSIONS_SINCE:
        context = services.fetch_sessions.resolve(
            request.session_id,
            request.session_epoch,
            asked,
            forgotten,
            is_follower=False,
            uses_topic_ids=version >= IDS_SINCE,
            now_ms=services.clock.monotonic_ms(),
            make_session=consumer_session,
        )
    else:
        context = FetchContext(asked, None, True)
    if context.session is not None and version >= IDS_SINCE:
        _name_again(services, context)
    is_consumer = node_id == CONSUMER
    parameters = FetchParameters(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(
            request.max_bytes, services.config.fetch_max_bytes, exchange.session.answer_bytes_max
        ),
        read_committed=request.isolation_level == READ_COMMITTED,
        is_follower=not is_consumer,
        leader_only=version < FOLLOWERS_SERVE_SINCE,
        choose_replica=_choice(services, request.rack_id) if is_consumer else None,
        reads=services.replicas.client_reads,
        is_gone=lambda: exchange.session.is_closed,
    )
    answer = _Answer(services, exchange, context)
    if len(context.partitions) > AT_ONCE_MAX:
        return _fetch_many(answer, parameters)
    fetching = services.replicas.fetch(context.partitions, parameters, answer)
    answer.wait_for(fetching, parameters.max_bytes)
    return None


async def _fetch_many(answer: _Answer, parameters: FetchParameters) -> None:
    """Read and answer while the loop goes on; the connection waits, as with any coroutine."""
    services, session = answer.services, answer.exchange.session
    session.reserve_answer(parameters.max_bytes)
    try:
        results = await services.replicas.fetch_many(
            answer.context.partitions, parameters, services.heavy_work.pause
        )
    finally:
        session.reserve_answer(-parameters.max_bytes)
    if not session.is_closed:
        encode = answer.encoding(results)
        answer.exchange.reply(await services.heavy_work.run(answer.exchange, encode))


def _handle_follower(
    services: Services,
    exchange: Exchange,
    request: FetchRequest,
    node_id: int,
    asked: list[FetchPartition],
    forgotten: list[SessionKey],
) -> None:
    """Note how far a follower is, and answer what is new to it (REP-3)."""
    version = exchange.api_version
    broker_epoch = request.replica_state.replica_epoch if version >= REPLICA_STATE_SINCE else -1
    fetches = services.replicas.follower_fetches
    make_session = fetches.session_maker(node_id, broker_epoch)
    uses_topic_ids, now_ms = version >= IDS_SINCE, services.clock.monotonic_ms()
    if version >= SESSIONS_SINCE:
        known = services.fetch_sessions.get(request.session_id)
        if isinstance(known, FollowerSession):
            # A session is one incarnation's: the next one says anew what it has of everything.
            is_same = known.broker_epoch == broker_epoch or request.session_epoch in _NEW_SESSION
            if known.node_id != node_id or not is_same:
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        context = services.fetch_sessions.resolve(
            request.session_id,
            request.session_epoch,
            asked,
            forgotten,
            is_follower=True,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
            make_session=make_session,
        )
    else:
        context = FetchContext(asked, None, True)
    session = context.session
    if session is None:  # for this one request
        session = make_session(NO_SESSION, uses_topic_ids, now_ms)
        session.update(asked, ())
        context = FetchContext((), session, True)
    assert isinstance(session, FollowerSession)
    parameters = FetchParameters(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        read_committed=False,
        is_follower=True,
    )
    answer = _Answer(services, exchange, context)
    answer.wait_for(fetches.fetch(session, parameters, answer), 0)


def _choice(services: Services, rack: str) -> ChooseReplica | None:
    """How to find a replica near to a consumer, None for the leader only (KIP-392)."""
    if not rack or not services.config.replica_selector_class:
        return None
    return partial(replica_in_rack, rack=rack, brokers=services.image.brokers)


def _asked_once(
    image: MetadataImage, request: FetchRequest, version: int
) -> tuple[list[FetchPartition], list[SessionKey]]:
    """What a large request asks for; a partition that is there twice is answered once."""
    asked, forgotten = _asked(image, request, version)
    return list({session_key(one): one for one in asked}.values()), list(dict.fromkeys(forgotten))


def _asked(
    image: MetadataImage, request: FetchRequest, version: int
) -> tuple[list[FetchPartition], list[SessionKey]]:
    by_id = image.topics.by_id
    asked = []
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        if version >= IDS_SINCE:
            found = by_id.get(topic_id)
            name = "" if found is None else found.name
        asked.extend(
            [
                FetchPartition(
                    TopicPartition(name, partition.partition),
                    topic_id,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                    partition.last_fetched_epoch,
                    partition.log_start_offset,
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
            or data.preferred_replica != NO_REPLICA
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
