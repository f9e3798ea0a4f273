"""ShareFetch (78), versions 1 and 2.

Records for a member of a share group, each under a lock, and on the way what it makes of those that
it has. It opens (epoch 0), continues and ends (-1) the member's share session.

v2: the acquire mode and the renewal of locks. Source: KIP-932, KIP-1206, KIP-1222; SHR-8 to SHR-21.

The response is written by hand for the reason that `fetch.py` gives; a test compares it with the
generated writer.
"""

import asyncio
from collections.abc import Sequence
from struct import Struct

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_requests import (
    SINCE_RENEWAL,
    Leaders,
    acknowledgements_of,
    begin_acknowledgements,
    check_named_partitions,
    member_of,
    named_partitions,
    results_of,
    unreadable_topics,
)
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.share.acquisition import AcquireParameters
from barnabas_broker.share.delayed_share_fetch import FetchedPartition, ShareFetchParameters
from barnabas_broker.share.share_partitions import Outcome
from barnabas_broker.share.share_session import MemberKey, SessionPartition, ShareSession
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.fetch_metadata import FINAL_EPOCH, INITIAL_EPOCH
from barnabas_protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from barnabas_protocol.primitives import append_count, append_string, append_unsigned_varint

RECORD_LIMIT = 1
_KEPT_FRAME_BYTES = 4096

_HEAD = Struct(">iBih")  # correlation id, header tags, throttle, error
_INT = Struct(">i")
_ERROR = Struct(">h")
_PARTITION = Struct(">ih")  # index, error
_LEADER = Struct(">iiB")  # leader, leader epoch, no tags
_ACQUIRED = Struct(">qqhB")  # first offset, last offset, delivery count, no tags


async def handle(
    services: Services, in_flight: InFlightRequest, request: ShareFetchRequest
) -> None:
    """Acknowledge and fetch, and respond when both are done.

    Raises: KafkaError for the session as a whole; ConnectionGoneError.
    """
    check_share_version(services)
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id or "")
    member = member_of(request)
    _check_renewal(request)
    for topics in (request.topics, request.forgotten_topics_data):
        check_named_partitions(topics)
    acknowledgements = await acknowledgements_of(services, in_flight, request.topics)
    session_epoch, shares = request.share_session_epoch, services.share_partitions
    if session_epoch == FINAL_EPOCH:
        shares.sessions.get(member)
        session = None
    else:
        session = await _session(services, in_flight, member, request, bool(acknowledgements))
    if len(in_flight.frame) > _KEPT_FRAME_BYTES:
        in_flight.session.release_frame(in_flight)
    outcomes = await begin_acknowledgements(
        services,
        in_flight,
        member,
        acknowledgements,
        unreadable_topics(services, in_flight, acknowledgements),
        is_renew=request.is_renew_ack,
    )
    fetched: Sequence[FetchedPartition] = ()
    if session is None:
        await shares.end_session(member)
    elif not request.is_renew_ack:
        fetched = await _fetch(services, in_flight, session, request)
    results = await results_of(outcomes)
    if in_flight.session.is_closed:
        return
    throttle_ms, quota = 0, services.quotas.fetch
    if quota is not None:
        throttle_ms = quota.charge(in_flight, sum(one.size_bytes for one in fetched))
        in_flight.session.mute(throttle_ms)
    in_flight.reply(
        encode_share_fetch_response(
            in_flight.correlation_id,
            throttle_ms,
            shares.lock_duration_ms(member.group_id),
            _answered(fetched, results, is_first=session_epoch == INITIAL_EPOCH),
            results,
            Leaders(
                services,
                in_flight,
                [*((one.session_partition, one.error) for one in fetched), *results.items()],
            ),
        )
    )


def _check_renewal(request: ShareFetchRequest) -> None:
    """Refuse a request that renews locks and fetches as well (SHR-19)."""
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a request that renews locks fetches nothing")


async def _session(
    services: Services,
    in_flight: InFlightRequest,
    member: MemberKey,
    request: ShareFetchRequest,
    has_acknowledgements: bool,
) -> ShareSession:
    """The session of a request, opened or continued. Raises: KafkaError."""
    shares, connection = services.share_partitions, in_flight.session
    named = named_partitions(request.topics)
    if request.share_session_epoch == INITIAL_EPOCH:
        if has_acknowledgements:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "acknowledgements need a share session")
        session = shares.begin_session(member, connection, named)
        if session is None:
            # Or the client would be here again at once, and all others like it.
            await _wait(in_flight, request.max_wait_ms)
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        return session
    forgotten = [
        SessionPartition(topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return shares.resume_session(member, connection, request.share_session_epoch, named, forgotten)


async def _wait(in_flight: InFlightRequest, wait_ms: int) -> None:
    """Wait for a time, or for the end of the connection."""
    closed = asyncio.Event()
    in_flight.on_closed(closed.set)
    try:
        async with asyncio.timeout(max(wait_ms, 0) / 1000):
            await closed.wait()
    except TimeoutError:
        return


async def _fetch(
    services: Services,
    in_flight: InFlightRequest,
    session: ShareSession,
    request: ShareFetchRequest,
) -> Sequence[FetchedPartition]:
    """What is acquired, when there is something or MaxWait is over.

    Where rights change while it waits it acquires nothing: the client's next fetch is judged anew.
    """
    authorizer = services.authorizer
    generation = None if authorizer is None else authorizer.generation

    def has_new_rights() -> bool:
        return authorizer is not None and authorizer.generation != generation

    shares, connection, quota = services.share_partitions, in_flight.session, services.quotas.fetch
    max_bytes = min(
        request.max_bytes, services.config.fetch_max_bytes, connection.response_bytes_max
    )
    quota_bytes = None if quota is None else quota.bytes_max(in_flight)
    if quota_bytes is not None:
        max_bytes = min(max_bytes, quota_bytes)
    parameters = ShareFetchParameters(
        AcquireParameters(
            member_id=session.key.member_id,
            records_max=request.max_records,
            batch_size=max(request.batch_size, 1),
            is_record_limit=(
                in_flight.api_version >= SINCE_RENEWAL
                and request.share_acquire_mode == RECORD_LIMIT
            ),
        ),
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        is_gone=lambda: connection.is_closed or not shares.is_open(session) or has_new_rights(),
        reserve=connection.reserve_response,
    )
    fetched: asyncio.Future[Sequence[FetchedPartition]] = asyncio.get_running_loop().create_future()

    def done(results: Sequence[FetchedPartition]) -> None:
        if not fetched.done():
            fetched.set_result(results)

    partitions = session.in_turn(request.share_session_epoch)
    unreadable = unreadable_topics(services, in_flight, partitions)
    refused = [
        FetchedPartition(one, None, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        for one in partitions
        if one.topic_id in unreadable
    ]
    if refused:
        partitions = [one for one in partitions if one.topic_id not in unreadable]
        if not partitions:
            return refused
    delayed = await shares.fetch(session.key.group_id, partitions, parameters, done)

    def closed() -> None:
        if not delayed.is_completed:
            delayed.cancel()
            done(())

    in_flight.on_closed(closed)
    if connection.is_closed:  # while the share partitions were looked up
        closed()
    return [*await fetched, *refused]


def _answered(
    fetched: Sequence[FetchedPartition],
    results: dict[SessionPartition, Outcome],
    *,
    is_first: bool,
) -> list[FetchedPartition]:
    """Which partitions are in the response: those with news, or at first all."""
    answered = [
        one
        for one in fetched
        if is_first or one.acquired or one.error is not None or one.session_partition in results
    ]
    known = {one.session_partition for one in answered}
    answered.extend(FetchedPartition(one, None) for one in results if one not in known)
    return answered


def failed(request: ShareFetchRequest, error: KafkaError) -> ShareFetchResponse:
    """The error of the whole request."""
    return ShareFetchResponse(error_code=error.code, error_message=error.message)


# The response.


def encode_share_fetch_response(
    correlation_id: int,
    throttle_ms: int,
    lock_duration_ms: int,
    answered: Sequence[FetchedPartition],
    acknowledged: dict[SessionPartition, Outcome],
    leaders: Leaders,
) -> list[Buffer]:
    """The response without its size prefix, as parts: our bytes and the log's buffers in turn."""
    parts: list[Buffer] = []
    out = bytearray(_HEAD.pack(correlation_id, 0, throttle_ms, ErrorCode.NONE))
    append_string(out, None, True)
    out += _INT.pack(lock_duration_ms)
    topics: dict[bytes, list[FetchedPartition]] = {}
    for one in answered:
        topics.setdefault(one.session_partition.topic_id, []).append(one)
    append_count(out, len(topics), True)
    for topic_id, partitions in topics.items():
        out += topic_id
        append_count(out, len(partitions), True)
        for one in partitions:
            out = _partition(out, parts, one, acknowledged.get(one.session_partition), leaders)
        out.append(0)
    append_count(out, len(leaders.endpoints), True)
    for endpoint in leaders.endpoints:
        out += _INT.pack(endpoint.node_id)
        append_string(out, endpoint.host, True)
        out += _INT.pack(endpoint.port)
        append_string(out, endpoint.rack, True)
        out.append(0)
    out.append(0)
    parts.append(out)
    return parts


def _partition(
    out: bytearray,
    parts: list[Buffer],
    one: FetchedPartition,
    acknowledge_error: Outcome,
    leaders: Leaders,
) -> bytearray:
    error = one.error
    out += _PARTITION.pack(
        one.session_partition.partition, ErrorCode.NONE if error is None else error.code
    )
    append_string(out, None if error is None else error.message, True)
    out += _ERROR.pack(ErrorCode.NONE if acknowledge_error is None else acknowledge_error.code)
    append_string(out, None if acknowledge_error is None else acknowledge_error.message, True)
    out += _LEADER.pack(*leaders.leader_of(one.session_partition), 0)
    append_unsigned_varint(out, one.size_bytes + 1)
    if one.size_bytes:
        parts.append(out)
        parts.extend(one.buffers)
        out = bytearray()
    append_count(out, len(one.acquired), True)
    for acquired in one.acquired:
        out += _ACQUIRED.pack(*acquired, 0)
    out.append(0)
    return out
