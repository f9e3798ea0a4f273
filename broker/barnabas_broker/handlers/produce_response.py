"""Produce responses, versions 3 to 13, written by hand: one pack per partition, no message objects.

Layout: Kafka's ProduceResponse schema; a test compares it with the generated writer for every
version. v5 adds the log start offset, v8 record errors and a message, v9 is flexible, v10 tells who
leads instead (KIP-951), v13 has ids.
"""

from collections.abc import Sequence
from struct import Struct

from barnabas_broker.handlers.leader_hints import LeaderHints
from barnabas_broker.handlers.wire_append import append_count, append_string
from barnabas_broker.replication.producing import ProduceResult
from barnabas_protocol.messages.produce import TopicProduceData

FLEXIBLE_SINCE = 9
HINTS_SINCE = 10
_LEADER_TAG = 0
IDS_SINCE = 13
_NONE = -1

_HEAD = Struct(">i").pack  # correlation id
_FLEXIBLE_HEAD = Struct(">iB").pack  # correlation id, header tags
_V3 = Struct(">ihqq").pack  # index, error, base offset, log append time
_V5 = Struct(">ihqqq").pack  # and log start offset
_INT = Struct(">i").pack
_NO_ERRORS_V8 = b"\x00\x00\x00\x00\xff\xff"  # no record errors, no message
_NO_ERRORS_V9 = b"\x01\x00\x00"  # the same, and no tags
_END_V3 = bytes(4)  # throttle
_END_V9 = bytes(5)  # throttle, tags
_THROTTLE = bytes(4)


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicProduceData],
    results: Sequence[ProduceResult],
    hints: LeaderHints | None = None,
) -> bytearray:
    """The response without its size prefix; `results` are in the order of the request.

    `hints` are for versions from 10 on.
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
            _append_partition(out, result, version, hints)
        position = end
        if is_flexible:
            out.append(0)
    if hints is not None:
        out += _THROTTLE
        hints.append_endpoints(out)
    else:
        out += _END_V9 if is_flexible else _END_V3
    return out


def _append_partition(
    out: bytearray, result: ProduceResult, version: int, hints: LeaderHints | None
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
        _append_errors(out, result, version, hints)
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
    out: bytearray, result: ProduceResult, version: int, hints: LeaderHints | None
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
        if hints is not None and hints.append_leader(out, _LEADER_TAG, result.topic_partition):
            out[position] = 1
