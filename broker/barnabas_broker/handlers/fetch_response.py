"""Fetch responses, versions 4 to 17, written by hand so that record bytes are never copied.

The generated writers would join the records into the response; here they stay the buffers that the
log gave. Layout: Kafka's FetchResponse schema; a test compares it with the generated writer for
every version. Fields by version: v4 last stable offset and aborted transactions, v5 log start
offset, v7 error and session id, v11 preferred read replica, v12 flexible, v13 topic ids, v16 who
leads instead (KIP-951).
"""

from collections.abc import Sequence
from struct import Struct

from barnabas_broker.env.disk import Buffer
from barnabas_broker.handlers.leader_hints import LeaderHints
from barnabas_broker.handlers.wire_append import (
    append_count,
    append_string,
    append_unsigned_varint,
)
from barnabas_broker.replication.fetching import PartitionData
from barnabas_protocol.ids import TopicPartition

FLEXIBLE_SINCE = 12
IDS_SINCE = 13
HINTS_SINCE = 16
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


def encode_fetch_response(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    results: Sequence[PartitionData],
    hints: LeaderHints | None = None,
) -> list[Buffer]:
    """The response without its size prefix, as parts: our bytes and the log's buffers in turn.

    `hints` are for versions from 16 on.
    """
    parts: list[Buffer] = []
    flexible = version >= FLEXIBLE_SINCE
    if flexible:
        out = bytearray(_HEAD_V12.pack(correlation_id, 0, 0, error_code, session_id))
    elif version >= 7:
        out = bytearray(_HEAD_V7.pack(correlation_id, 0, error_code, session_id))
    else:
        out = bytearray(_HEAD_V4.pack(correlation_id, 0))
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
            out = _partition(out, parts, data, version, flexible, hints)
        if flexible:
            out.append(0)
    if hints is not None:
        hints.append_endpoints(out)
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
    hints: LeaderHints | None,
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
            hints is not None
            and data.error
            and hints.append_leader(out, _LEADER_TAG, data.request.topic_partition)
        ):
            out[position] += 1
    return out


def _aborted(out: bytearray, aborted: list[tuple[int, int]] | None, flexible: bool) -> None:
    """The aborted transactions: null where the reader does not ask for committed records only."""
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
