"""Produce (0), versions 3 to 13: append one record batch to each of some partitions.

Listed from 0, or old librdkafka stops compressing; below 3 the connection is closed. v8: record
errors and a message. v10: the current leader (KIP-951). v12: transactions v2. v13: topic ids.
acks=0 has no response; an error closes the connection then (REQ-2). v5 adds the log start offset;
v9 is flexible.

Responses are written by hand, one pack per partition, without message objects; a test compares them
with the generated writer for every version.
"""

import logging
import struct
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.bandwidth_throttle import BandwidthThrottle
from barnabas_broker.handlers.current_leaders import CurrentLeaders
from barnabas_broker.handlers.produce_rights import (
    check_transactional_id,
    writable,
    writable_of_many,
)
from barnabas_broker.handlers.request_limits import encode
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.transactional_produce import VerifiedTransaction, verified
from barnabas_broker.network.heavy_work import SLICE, ConnectionGoneError
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.leader.delayed_produce import (
    Done,
    HeavyAppends,
    ProduceResult,
    TopicRecords,
)
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas_protocol.primitives import append_count, append_string, read_unsigned_varint
from barnabas_protocol.records.batch import ATTRIBUTES_POSITION, COMPRESSION_MASK, HEADER_BYTES
from barnabas_protocol.records.compression import Compression

logger = logging.getLogger(__name__)

ZSTD_SINCE = 7
FLEXIBLE_SINCE = 9
CURRENT_LEADERS_SINCE = 10
IDS_SINCE = 13
COUNTED_BYTES_MIN = 16 * 1024
"""A smaller frame has 3,000 partitions at most, which are read in some milliseconds."""
ELEMENTS_MAX = 10_000
"""Topics, partitions and tagged fields of one request."""
# Stands for no id at all; no topic has it.
_UNKNOWN_ID = b"\xff" * 16
_LEADER_TAG = 0
_NONE = -1
_READ_INT16 = struct.Struct(">h").unpack_from
_READ_INT32 = struct.Struct(">i").unpack_from
_HEAD = struct.Struct(">i").pack  # correlation id
_FLEXIBLE_HEAD = struct.Struct(">iB").pack  # correlation id, header tags
_V3 = struct.Struct(">ihqq").pack  # index, error, base offset, log append time
_V5 = struct.Struct(">ihqqq").pack  # and log start offset
_INT = struct.Struct(">i").pack
_NO_ERRORS_V8 = b"\x00\x00\x00\x00\xff\xff"  # no record errors, no message
_NO_ERRORS_V9 = b"\x01\x00\x00"  # the same, and no tags
_END_V9 = struct.Struct(">iB").pack  # throttle, tags


def handle(services: Services, in_flight: InFlightRequest, request: ProduceRequest) -> None:
    """Append, and respond when `acks` is met."""
    quota = services.quotas.produce
    throttle_ms = 0 if quota is None else _charge(quota, in_flight, request)
    acks = request.acks
    if acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)

    def respond(results: Sequence[ProduceResult]) -> None:
        if acks == 0:
            _finish_without_response(in_flight, results)
        elif quota is None:
            _respond(services, in_flight, request, results, throttle_ms)
        else:
            longest_ms = quota.longest_ms(in_flight, throttle_ms)
            _respond(services, in_flight, request, results, longest_ms)

    version = in_flight.api_version
    if version < ZSTD_SINCE and any(map(_is_zstd, _batches(request))):
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce 7")
    entries = _entries(services, request, version)
    append = partial(_append, services, in_flight, request)
    authorizer = services.authorizer
    if authorizer is None:
        append(entries, respond)
        return
    try:
        check_transactional_id(services, in_flight, request.transactional_id, entries)
    except KafkaError as error:
        _refuse(in_flight, request, error)
        return
    if len(request.topic_data) <= SLICE:
        append(*writable(services, authorizer, in_flight, entries, respond))
        return
    judged = writable_of_many(services, authorizer, in_flight, entries, respond)
    in_flight.session.hold()
    _spawn(services, in_flight, _append_judged(in_flight, judged, append))


async def _append_judged(
    in_flight: InFlightRequest,
    judged: Coroutine[Any, Any, tuple[TopicRecords, Done]],
    append: Callable[[TopicRecords, Done], None],
) -> None:
    """Append to the topics that the client may write to; its next requests wait."""
    try:
        append(*await judged)
    except ConnectionGoneError:
        return
    except Exception:
        logger.exception("rights to very many topics could not be checked")
        in_flight.session.close("rights to very many topics could not be checked")
    finally:
        in_flight.session.release()


def _append(
    services: Services,
    in_flight: InFlightRequest,
    request: ProduceRequest,
    entries: TopicRecords,
    done: Done,
) -> None:
    acks, timeout_ms, now_ms = request.acks, request.timeout_ms, services.clock.wall_ms()

    def append(transaction: VerifiedTransaction | None) -> HeavyAppends | None:
        return services.replicas.leader_append.produce(
            entries,
            acks=acks,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            done=done,
            transaction=transaction,
        )

    if request.transactional_id is not None:
        in_flight.session.hold()
        _spawn(
            services,
            in_flight,
            _append_in_transaction(services, in_flight, request, entries, append),
        )
        return
    heavy = append(None)
    if heavy is not None:
        # The next requests of the connection wait: appends stay in their order.
        in_flight.session.hold()
        _spawn(services, in_flight, _append_heavy(services, in_flight, heavy))


def _charge(quota: BandwidthThrottle, in_flight: InFlightRequest, request: ProduceRequest) -> int:
    """Count the bytes of a client; returns for how long its connection is muted from now on."""
    throttle_ms = quota.charge(in_flight, len(in_flight.frame))
    if throttle_ms:
        # Also of a request that is refused, and before its acks are there: the next ones of the
        # connection would pass meanwhile.
        in_flight.session.mute(throttle_ms)
    if request.acks == 0 and quota.request_time is not None:
        quota.request_time.exempt()
    return throttle_ms


def _spawn(services: Services, in_flight: InFlightRequest, work: Coroutine[Any, Any, None]) -> None:
    """Run what goes on behind the handler; its time is the client's."""
    request_time = services.quotas.request
    services.spawn(work if request_time is None else request_time.timed(in_flight, work))


async def _append_in_transaction(
    services: Services,
    in_flight: InFlightRequest,
    request: ProduceRequest,
    entries: TopicRecords,
    append: Callable[[VerifiedTransaction | None], HeavyAppends | None],
) -> None:
    """Append when the coordinator has said that the transaction is open; the next requests wait."""
    assert request.transactional_id is not None
    try:
        transaction = await verified(
            services, request.transactional_id, entries, in_flight.api_version
        )
        heavy = append(transaction)
        if heavy is not None:
            in_flight.session.hold()
            _spawn(services, in_flight, _append_heavy(services, in_flight, heavy))
    except KafkaError as error:
        _refuse(in_flight, request, error)
    except Exception:
        logger.exception("a batch of a transaction could not be appended")
        in_flight.session.close("a batch of a transaction could not be appended")
    finally:
        in_flight.session.release()


async def _append_heavy(
    services: Services, in_flight: InFlightRequest, heavy: HeavyAppends
) -> None:
    """Append the batches that are left; none to be checked of a connection that has gone before."""
    try:
        await heavy(
            lambda check: services.heavy_work.run(in_flight, check), services.heavy_work.pause
        )
    except ConnectionGoneError:
        return
    except Exception:
        logger.exception("a batch could not be checked")
        in_flight.session.close("a batch could not be checked")
    finally:
        in_flight.session.release()


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


def _refuse(in_flight: InFlightRequest, request: ProduceRequest, error: KafkaError) -> None:
    """Respond with an error for every partition; acks=0 has no response to put it in."""
    if request.acks == 0:
        in_flight.reply_nothing()
        in_flight.session.close(f"produce with acks=0 failed: {error.code.name}")
    else:
        in_flight.reply([encode(in_flight, failed(request, error))])


def _finish_without_response(in_flight: InFlightRequest, results: Sequence[ProduceResult]) -> None:
    in_flight.reply_nothing()
    for result in results:
        if result.error is not None:
            in_flight.session.close(
                f"produce with acks=0 failed: {result.topic_partition}: {result.error.code.name}"
            )
            return


def _respond(
    services: Services,
    in_flight: InFlightRequest,
    request: ProduceRequest,
    results: Sequence[ProduceResult],
    throttle_ms: int,
) -> None:
    version = in_flight.api_version
    current_leaders = None
    moved = [
        result.topic_partition
        for result in results
        if result.error is not None and result.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    ]
    if moved and version >= CURRENT_LEADERS_SINCE:
        current_leaders = CurrentLeaders.find(services.image, in_flight, moved)
    in_flight.reply(
        [
            encode_produce_response(
                version,
                in_flight.correlation_id,
                request.topic_data,
                results,
                current_leaders,
                throttle_ms,
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


# The response.


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicProduceData],
    results: Sequence[ProduceResult],
    current_leaders: CurrentLeaders | None = None,
    throttle_ms: int = 0,
) -> bytearray:
    """The response without its size prefix; `results` are in the order of the request.

    `current_leaders` are for versions from 10 on.
    """
    is_flexible = version >= FLEXIBLE_SINCE
    out = bytearray(_FLEXIBLE_HEAD(correlation_id, 0) if is_flexible else _HEAD(correlation_id))
    append_count(out, len(topics), is_flexible)
    position = 0
    for topic in topics:
        if version >= IDS_SINCE:
            out += topic.topic_id
        else:
            append_string(out, topic.name, is_flexible)
        end = position + len(topic.partition_data)
        append_count(out, end - position, is_flexible)
        for result in results[position:end]:
            _append_partition(out, result, version, current_leaders)
        position = end
        if is_flexible:
            out.append(0)
    if current_leaders is not None:
        out += _INT(throttle_ms)
        current_leaders.append_endpoints(out)
    else:
        out += _END_V9(throttle_ms, 0) if is_flexible else _INT(throttle_ms)
    return out


def _append_partition(
    out: bytearray, result: ProduceResult, version: int, current_leaders: CurrentLeaders | None
) -> None:
    info, error = result.info, result.error
    index = result.topic_partition[1]
    if info is None or error is not None:
        code = 0 if error is None else error.code
        start = _NONE if result.partition is None else result.partition.log.log_start_offset
        out += (
            _V5(index, code, _NONE, _NONE, start)
            if version >= 5
            else _V3(index, code, _NONE, _NONE)
        )
        _append_errors(out, result, version, current_leaders)
        return
    if version >= 5:
        out += _V5(index, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset)
        if version >= FLEXIBLE_SINCE:
            out += _NO_ERRORS_V9
        elif version >= 8:
            out += _NO_ERRORS_V8
    else:
        out += _V3(index, 0, info.first_offset, info.log_append_time_ms)


def _append_errors(
    out: bytearray, result: ProduceResult, version: int, current_leaders: CurrentLeaders | None
) -> None:
    if version < 8:
        return
    is_flexible = version >= FLEXIBLE_SINCE
    errors = getattr(result.error, "record_errors", ())
    append_count(out, len(errors), is_flexible)
    for record, message in errors:
        out += _INT(record)
        append_string(out, message, is_flexible)
        if is_flexible:
            out.append(0)
    append_string(out, None if result.error is None else result.error.message, is_flexible)
    if is_flexible:
        position = len(out)
        out.append(0)  # the number of tags
        if current_leaders is not None and current_leaders.append_leader(
            out, _LEADER_TAG, result.topic_partition
        ):
            out[position] = 1


# The frame.


def check_frame(frame: memoryview, version: int, position: int) -> None:
    """Count the elements of the request at `position` before it is read.

    A Produce frame may be as large as a batch may, so its size bounds nothing: ten megabytes hold a
    million partitions without records, which takes seconds to read and to serve. Steps over
    records and names; builds nothing. The codec checks whether the request is well-formed.
    Raises: ParseError where it has too many.
    """
    try:
        if version >= FLEXIBLE_SINCE:
            _check_flexible(frame, version, position)
        else:
            _check_fixed(frame, position)
    except (struct.error, IndexError):
        raise ParseError("Produce cut off", len(frame)) from None


def _check_fixed(frame: memoryview, position: int) -> None:
    position += 2 + max(_READ_INT16(frame, position)[0], 0) + 6
    (topic_count,), position = _READ_INT32(frame, position), position + 4
    left = _taken(ELEMENTS_MAX, topic_count, position)
    for _ in range(topic_count):
        position += 2 + max(_READ_INT16(frame, position)[0], 0)
        (count,), position = _READ_INT32(frame, position), position + 4
        left = _taken(left, count, position)
        for _ in range(count):
            position += 8 + max(_READ_INT32(frame, position + 4)[0], 0)


def _check_flexible(frame: memoryview, version: int, position: int) -> None:
    size, position = read_unsigned_varint(frame, position)
    position += max(size - 1, 0) + 6
    topic_count, position = read_unsigned_varint(frame, position)
    left = _taken(ELEMENTS_MAX, topic_count - 1, position)
    for _ in range(topic_count - 1):
        if version >= IDS_SINCE:
            position += 16
        else:
            size, position = read_unsigned_varint(frame, position)
            position += max(size - 1, 0)
        count, position = read_unsigned_varint(frame, position)
        left = _taken(left, count - 1, position)
        for _ in range(count - 1):
            size, position = read_unsigned_varint(frame, position + 4)
            left, position = _behind_tags(frame, position + max(size - 1, 0), left)
        left, position = _behind_tags(frame, position, left)
    _behind_tags(frame, position, left)


def _behind_tags(frame: memoryview, position: int, left: int) -> tuple[int, int]:
    """What is left to be counted, and the position behind tagged fields."""
    if frame[position] == 0:
        return left, position + 1
    count, position = read_unsigned_varint(frame, position)
    left = _taken(left, count, position)
    for _ in range(count):
        _, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        position += size
    return left, position


def _taken(left: int, count: int, position: int) -> int:
    if count > left:
        raise ParseError(f"a Produce request of more than {ELEMENTS_MAX} elements", position)
    return left - max(count, 0)
