"""Fetch (1), versions 4 to 17.

Whole record batches from some partitions, at once or when there is enough; for followers, also how
far they are.

v7: sessions. v9: the reader's leader epoch. v11: the consumer's rack (KIP-392). v12: flexible, last
fetched epoch, cluster id. v13: topic ids. v15: the follower and its broker epoch in a tag. v16: who
leads instead (KIP-951). Source: KIP-74, KIP-227, KIP-516, KIP-903.

Responses are written by hand so that record bytes are never copied: they stay the buffers that the
log gave, where generated writers would join them. A test compares them with the generated writer
for every version. Fields of a response by version: v4 last stable offset and aborted transactions,
v5 log start offset, v7 error and session id, v11 preferred read replica, v12 flexible, v13 topic
ids, v16 current leaders.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from struct import Struct
from typing import Any

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.authorization import may_cluster
from barnabas_broker.handlers.bandwidth_throttle import BandwidthThrottle
from barnabas_broker.handlers.broker_listener import is_of_broker
from barnabas_broker.handlers.current_leaders import CurrentLeaders
from barnabas_broker.handlers.fetch_rights import ReadRights, refused_data
from barnabas_broker.handlers.request_limits import LOOP_BYTES_OF_PARTITIONS_MAX
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.replication.leader.delayed_fetch import (
    NO_REPLICA,
    ChooseReplica,
    FetchParameters,
    PartitionData,
    replica_in_rack,
)
from barnabas_broker.replication.leader.fetch_session import (
    FetchContext,
    FetchPartition,
    SessionKey,
    consumer_session,
    session_key,
)
from barnabas_broker.replication.leader.follower_session import FollowerSession
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.fetch_metadata import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas_protocol.primitives import append_count, append_string, append_unsigned_varint

READ_COMMITTED = 1
SESSIONS_SINCE = 7
FOLLOWERS_SERVE_SINCE = 11
FLEXIBLE_SINCE = 12
IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
CURRENT_LEADERS_SINCE = 16
_NEW_SESSION = (INITIAL_EPOCH, FINAL_EPOCH)
KEPT_FRAME_BYTES = 4096
PARTITIONS_MAX = 10_000
"""Of one request of a client; as many as one consumer may have in its session."""
AT_ONCE_MAX = 1_000
"""So many partitions are read in one turn of the loop."""
_LEADER_TAG = 1

_HEAD_V4 = Struct(">ii")  # correlation id, throttle
_HEAD_V7 = Struct(">iihi")  # correlation id, throttle, error, session id
_HEAD_V12 = Struct(">iBihi")  # correlation id, header tags, throttle, error, session id
_OFFSETS_V4 = Struct(">ihqq")  # index, error, high watermark, last stable offset
_OFFSETS_V5 = Struct(">ihqqq")  # and log start offset
_INT = Struct(">i")
_ABORTED = Struct(">qq")
_DIVERGING = Struct(">BBiqB")  # tag number 0, size, epoch, end offset, no tags in it
_DIVERGING_BYTES = 13
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _PendingResponse:
    """The response to one fetch: sent when the results are there, unless the connection is gone."""

    __slots__ = ("context", "in_flight", "is_held", "quota", "reserved_bytes", "rights", "services")

    def __init__(
        self,
        services: Services,
        in_flight: InFlightRequest,
        context: FetchContext,
        quota: BandwidthThrottle | None = None,
    ) -> None:
        self.services = services
        self.in_flight = in_flight
        self.context = context
        self.quota = quota
        self.rights: ReadRights | None = None  # with an authorizer
        self.is_held = False
        self.reserved_bytes = 0

    def __call__(self, results: list[PartitionData]) -> None:
        in_flight = self.in_flight
        if self.is_held:
            in_flight.session.reserve_response(-self.reserved_bytes)
            in_flight.session.release()
        if not in_flight.session.is_closed:
            in_flight.reply(self.encoding(results)())

    def encoding(self, results: list[PartitionData]) -> Callable[[], list[Buffer]]:
        """What makes the frame of the response; it may be called in a thread."""
        in_flight, context = self.in_flight, self.context
        if self.rights is not None:
            results = self.rights.merge(results)
        throttle_ms = 0 if self.quota is None else _throttle(self.quota, in_flight, results)
        if not isinstance(context.session, FollowerSession):
            results = _changed(context, results)
        version = in_flight.api_version
        current_leaders = None
        if version >= CURRENT_LEADERS_SINCE:
            moved = [data.request.topic_partition for data in results if data.error in _MOVED]
            if moved:
                current_leaders = CurrentLeaders.find(self.services.image, in_flight, moved)
        return partial(
            encode_fetch_response,
            version,
            in_flight.correlation_id,
            ErrorCode.NONE,
            context.session_id,
            results,
            current_leaders,
            throttle_ms,
        )

    def wait_for(self, delayed: DelayedOperation, bytes_max: int) -> None:
        """Have the connection wait while a thread reads, or the fetch end with the connection."""
        in_flight = self.in_flight
        if not delayed.is_completed:
            in_flight.on_closed(delayed.cancel)
        elif not in_flight.is_done:
            # A thread reads for it. The next requests of the connection wait: each may read as
            # many bytes again, and what is read is not seen as unsent before its response
            # (REQ-12).
            self.is_held = True
            self.reserved_bytes = bytes_max
            in_flight.session.reserve_response(bytes_max)
            in_flight.session.hold()


class _ThrottledResponse(_PendingResponse):
    """The same while there are quotas: somebody else may complete it, whose time it is not."""

    __slots__ = ()

    def __call__(self, results: list[PartitionData]) -> None:
        assert self.quota is not None
        request_time = self.quota.request_time
        if request_time is None or request_time.is_at(self.in_flight):
            super().__call__(results)
            return
        outer = request_time.begin(self.in_flight)
        try:
            super().__call__(results)
        finally:
            request_time.end(outer)


def handle(
    services: Services, in_flight: InFlightRequest, request: FetchRequest
) -> Coroutine[Any, Any, None] | None:
    """Read the partitions of the request or of its session, and respond when there is enough.

    A coroutine where they are very many.
    """
    version = in_flight.api_version
    node_id = request.replica_id
    if version >= REPLICA_STATE_SINCE:
        node_id = request.replica_state.replica_id
    if node_id >= 0 and not is_of_broker(services, in_flight, node_id):
        # What a follower fetches moves the high watermark.
        is_small = len(in_flight.frame) <= LOOP_BYTES_OF_PARTITIONS_MAX
        if is_small and not may_cluster(services, in_flight, AclOperation.CLUSTER_ACTION):
            _refuse_follower(services, in_flight, request)
            return None
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers fetch as followers")
    if len(in_flight.frame) > LOOP_BYTES_OF_PARTITIONS_MAX:
        return _handle_large(services, in_flight, request, node_id)
    requested, forgotten = _requested(services.replicas.image, request, version)
    return _handle_requested(services, in_flight, request, node_id, requested, forgotten)


async def _handle_large(
    services: Services, in_flight: InFlightRequest, request: FetchRequest, node_id: int
) -> None:
    """The same for a request that is read in a thread."""
    requested, forgotten = await services.heavy_work.run(
        in_flight, _requested_once, services.image, request, in_flight.api_version
    )
    if node_id < 0 and len(requested) + len(forgotten) > PARTITIONS_MAX:
        raise ParseError(f"a Fetch of more than {PARTITIONS_MAX} partitions")
    work = _handle_requested(services, in_flight, request, node_id, requested, forgotten)
    if work is not None:
        await work


def _handle_requested(
    services: Services,
    in_flight: InFlightRequest,
    request: FetchRequest,
    node_id: int,
    requested: list[FetchPartition],
    forgotten: list[SessionKey],
) -> Coroutine[Any, Any, None] | None:
    version = in_flight.api_version
    if len(in_flight.frame) > KEPT_FRAME_BYTES:
        # It may be parked for long, with tags of megabytes that nobody knows.
        in_flight.session.release_frame(in_flight)
    if node_id >= 0:
        _handle_follower(services, in_flight, request, node_id, requested, forgotten)
        return None
    if version >= SESSIONS_SINCE:
        context = services.fetch_sessions.resolve(
            request.session_id,
            request.session_epoch,
            requested,
            forgotten,
            is_follower=False,
            uses_topic_ids=version >= IDS_SINCE,
            now_ms=services.clock.monotonic_ms(),
            make_session=consumer_session,
        )
    else:
        context = FetchContext(requested, None, True)
    if context.session is not None and version >= IDS_SINCE:
        _name_again(services, context)
    quota = services.quotas.fetch
    if quota is None:
        bytes_max, response = None, _PendingResponse(services, in_flight, context)
    else:
        bytes_max = quota.bytes_max(in_flight)
        response = _ThrottledResponse(services, in_flight, context, quota)
    parameters = FetchParameters(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes if bytes_max is None else min(request.min_bytes, bytes_max),
        max_bytes=min(
            request.max_bytes if bytes_max is None else min(request.max_bytes, bytes_max),
            services.config.fetch_max_bytes,
            in_flight.session.response_bytes_max,
        ),
        read_committed=request.isolation_level == READ_COMMITTED,
        is_follower=False,  # whatever negative number it calls itself
        leader_only=version < FOLLOWERS_SERVE_SINCE,
        choose_replica=_choice(services, request.rack_id),
        is_gone=lambda: in_flight.session.is_closed,
    )
    if services.authorizer is None:
        return _fetch(response, context.partitions, parameters)
    response.rights = ReadRights(services, services.authorizer, in_flight)
    if len(context.partitions) > SLICE:
        return _fetch_judged(response, parameters)
    return _fetch(response, response.rights.readable(context.partitions), parameters)


async def _fetch_judged(response: _PendingResponse, parameters: FetchParameters) -> None:
    """Fetch what may be read of very many partitions."""
    assert response.rights is not None
    partitions = await response.rights.readable_of_many(response.context.partitions)
    work = _fetch(response, partitions, parameters)
    if work is not None:
        await work


def _fetch(
    response: _PendingResponse, partitions: Sequence[FetchPartition], parameters: FetchParameters
) -> Coroutine[Any, Any, None] | None:
    if not partitions and response.context.partitions:  # all are refused
        response([])
        return None
    if len(partitions) > AT_ONCE_MAX:
        return _fetch_many(response, partitions, parameters)
    fetches = response.services.replicas.client_fetches
    delayed = fetches.fetch(partitions, parameters, response)
    response.wait_for(delayed, parameters.max_bytes)
    return None


async def _fetch_many(
    response: _PendingResponse, partitions: Sequence[FetchPartition], parameters: FetchParameters
) -> None:
    """Read and respond while the loop goes on; the connection waits, as with any coroutine."""
    services, session = response.services, response.in_flight.session
    session.reserve_response(parameters.max_bytes)
    try:
        results = await services.replicas.client_fetches.fetch_many(
            partitions, parameters, services.heavy_work.pause
        )
    finally:
        session.reserve_response(-parameters.max_bytes)
    if not session.is_closed:
        encode = response.encoding(results)
        response.in_flight.reply(await services.heavy_work.run(response.in_flight, encode))


def _handle_follower(
    services: Services,
    in_flight: InFlightRequest,
    request: FetchRequest,
    node_id: int,
    requested: list[FetchPartition],
    forgotten: list[SessionKey],
) -> None:
    """Note how far a follower is, and respond with what is new to it (REP-3)."""
    version = in_flight.api_version
    broker_epoch = request.replica_state.replica_epoch if version >= REPLICA_STATE_SINCE else -1
    fetches = services.replicas.follower_fetches
    make_session = fetches.sessions.session_maker(node_id, broker_epoch)
    uses_topic_ids, now_ms = version >= IDS_SINCE, services.clock.monotonic_ms()
    if version >= SESSIONS_SINCE:
        known = services.fetch_sessions.get(request.session_id)
        if isinstance(known, FollowerSession):
            # A session is one incarnation's: the next one fetches all its partitions anew.
            is_same = known.broker_epoch == broker_epoch or request.session_epoch in _NEW_SESSION
            if known.node_id != node_id or not is_same:
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        context = services.fetch_sessions.resolve(
            request.session_id,
            request.session_epoch,
            requested,
            forgotten,
            is_follower=True,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
            make_session=make_session,
        )
    else:
        context = FetchContext(requested, None, True)
    session = context.session
    if session is None:  # for this one request
        session = make_session(NO_SESSION_ID, uses_topic_ids, now_ms)
        session.update(requested, ())
        context = FetchContext((), session, True)
    assert isinstance(session, FollowerSession)
    parameters = FetchParameters(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        read_committed=False,
        is_follower=True,
    )
    response = _PendingResponse(services, in_flight, context)
    response.wait_for(fetches.fetch(session, parameters, response), 0)


def _refuse_follower(services: Services, in_flight: InFlightRequest, request: FetchRequest) -> None:
    """Refuse each partition, as Apache Kafka does; no session is made for who may not follow."""
    requested, _ = _requested(services.replicas.image, request, in_flight.api_version)
    response = _PendingResponse(services, in_flight, FetchContext((), None, True))
    response([refused_data(partition) for partition in requested])


def _choice(services: Services, rack: str) -> ChooseReplica | None:
    """How to find a replica near to a consumer, None for the leader only (KIP-392)."""
    if not rack or not services.config.replica_selector_class:
        return None
    return partial(replica_in_rack, rack=rack, brokers=services.image.brokers)


def _requested_once(
    image: MetadataImage, request: FetchRequest, version: int
) -> tuple[list[FetchPartition], list[SessionKey]]:
    """The partitions of a large request; one that is there twice is read once."""
    requested, forgotten = _requested(image, request, version)
    return list({session_key(one): one for one in requested}.values()), list(
        dict.fromkeys(forgotten)
    )


def _requested(
    image: MetadataImage, request: FetchRequest, version: int
) -> tuple[list[FetchPartition], list[SessionKey]]:
    by_id = image.topics.by_id
    requested = []
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        if version >= IDS_SINCE:
            found = by_id.get(topic_id)
            name = "" if found is None else found.name
        requested.extend(
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
    return requested, forgotten


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


def _throttle(
    quota: BandwidthThrottle, in_flight: InFlightRequest, results: list[PartitionData]
) -> int:
    """Count what a client fetches; take the records out of the results if they are too many.

    Returns for how long the client is to wait, behind the response (KIP-219).
    """
    throttle_ms, is_sent = quota.charge_or_refuse(
        in_flight, sum([data.size_bytes for data in results])
    )
    if not is_sent:
        for data in results:
            data.buffers, data.size_bytes = [], 0
            data.aborted = None if data.aborted is None else []
    if throttle_ms:
        in_flight.session.mute(throttle_ms)
    return quota.longest_ms(in_flight, throttle_ms)


def _changed(context: FetchContext, results: list[PartitionData]) -> list[PartitionData]:
    """What of the results goes into the response.

    In a session, only what is new to the client (REQ-9).
    """
    session = context.session
    if session is None:
        return results
    changed = []
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
                partition.sent_high_watermark = -1  # sent again when the error has gone
            changed.append(data)
        if data.size_bytes > 0 and len(results) > 1:
            session.move_to_end(partition)
    return changed


def failed(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """The error of the whole request."""
    return FetchResponse(error_code=error.code)


# The response.


def encode_fetch_response(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    results: Sequence[PartitionData],
    current_leaders: CurrentLeaders | None = None,
    throttle_ms: int = 0,
) -> list[Buffer]:
    """The response without its size prefix, as parts: our bytes and the log's buffers in turn.

    `current_leaders` are for versions from 16 on.
    """
    parts: list[Buffer] = []
    flexible = version >= FLEXIBLE_SINCE
    if flexible:
        out = bytearray(_HEAD_V12.pack(correlation_id, 0, throttle_ms, error_code, session_id))
    elif version >= 7:
        out = bytearray(_HEAD_V7.pack(correlation_id, throttle_ms, error_code, session_id))
    else:
        out = bytearray(_HEAD_V4.pack(correlation_id, throttle_ms))
    topics = _by_topic(results, version >= IDS_SINCE)
    append_count(out, len(topics), flexible)
    for topic in topics:
        first = topic[0].request
        if version >= IDS_SINCE:
            out += first.topic_id
        else:
            append_string(out, first.topic_partition.topic, flexible)
        append_count(out, len(topic), flexible)
        for data in topic:
            out = _partition(out, parts, data, version, flexible, current_leaders)
        if flexible:
            out.append(0)
    if current_leaders is not None:
        current_leaders.append_endpoints(out)
    elif flexible:
        out.append(0)
    parts.append(out)
    return parts


def _partition(
    out: bytearray,
    parts: list[Buffer],
    data: PartitionData,
    version: int,
    flexible: bool,
    current_leaders: CurrentLeaders | None,
) -> bytearray:
    index = data.request.topic_partition.partition
    if version >= 5:
        out += _OFFSETS_V5.pack(
            index,
            data.error,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
        )
    else:
        out += _OFFSETS_V4.pack(index, data.error, data.high_watermark, data.last_stable_offset)
    _aborted(out, data.aborted, flexible)
    if version >= 11:
        out += _INT.pack(data.preferred_replica)
    if flexible:
        append_unsigned_varint(out, data.size_bytes + 1)
    else:
        out += _INT.pack(data.size_bytes)
    if data.size_bytes:
        parts.append(out)
        parts.extend(data.buffers)
        out = bytearray()
    if flexible:
        position = len(out)
        out.append(0)  # the number of tags
        if data.diverging is not None:
            out[position] += 1
            out += _DIVERGING.pack(0, _DIVERGING_BYTES, *data.diverging, 0)
        if (
            current_leaders is not None
            and data.error
            and current_leaders.append_leader(out, _LEADER_TAG, data.request.topic_partition)
        ):
            out[position] += 1
    return out


def _aborted(out: bytearray, aborted: list[tuple[int, int]] | None, flexible: bool) -> None:
    """The aborted transactions: null unless the reader wants committed records only."""
    if aborted is None:
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"
        return
    append_count(out, len(aborted), flexible)
    for producer_id, first_offset in aborted:
        out += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            out.append(0)


def _by_topic(results: Sequence[PartitionData], by_id: bool) -> list[list[PartitionData]]:
    """Neighbours of one topic together, in the order in which they were read."""
    topics: list[list[PartitionData]] = []
    last: bytes | str | None = None
    for data in results:
        topic_partition: TopicPartition = data.request.topic_partition
        topic = data.request.topic_id if by_id else topic_partition.topic
        if topic != last:
            topics.append([])
            last = topic
        topics[-1].append(data)
    return topics
