"""`admin.partitions.record_timestamps`: Fetch (1), sent to leaders for one record a partition.

Kafka has no request for the timestamp of an offset. The header of a batch often tells it, so first
a few bytes of many partitions are fetched at once, then whole batches where those did not do.

Version 13 and later name topics by id only and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_client.admin.api_errors import ApiError, error_of, errors_of
from barnabas_client.admin.lookup_strategies import PartitionLeaderStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call
from barnabas_client.cluster.partitions import by_topic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas_protocol.records.record_time import timestamp_at

_LAST_VERSION_WITH_NAMES: Final = 12
# A whole batch of a producer with default settings; of larger ones the header.
_FIRST_LOOK_BYTES: Final = 17 * 1024
_RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024


async def record_timestamps(
    routing: AdminRouting, offsets: Mapping[TopicPartition, int], timeout_ms: int | None
) -> Outcomes[TopicPartition, int | None]:
    """The timestamp of the record at each offset; None where there is none."""
    remaining_ms = routing.countdown(timeout_ms)
    first = await routing.each(offsets, _call(offsets, per_request=None), timeout_ms)
    unclear = [place for place, found in first.successes.items() if found is None]
    if not unclear:
        return first
    whole = await routing.each(unclear, _call(offsets, per_request=1), remaining_ms())
    return Outcomes({**first, **whole})


def _call(
    offsets: Mapping[TopicPartition, int], per_request: int | None
) -> Call[TopicPartition, int | None]:
    """A broker returns at least one whole batch for the first partition of a request."""
    return Call(
        action="read the timestamp of a record of",
        api=ApiKey.FETCH,
        to=PartitionLeaderStrategy(lambda partition: partition),
        build=lambda context: FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_RESPONSE_BYTES_MAX if per_request is None else 1,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=one.partition,
                            fetch_offset=offsets[one],
                            partition_max_bytes=_FIRST_LOOK_BYTES,
                        )
                        for one in partitions
                    ],
                )
                for topic, partitions in by_topic(context.keys).items()
            ],
        ),
        read=lambda response, context: (
            errors_of(context.keys, response) or _read(response, offsets)
        ),
        version_max=_LAST_VERSION_WITH_NAMES,
        items_per_request=lambda version: per_request,
    )


def _read(
    response: Any, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ApiError | None]:
    found: dict[TopicPartition, int | ApiError | None] = {}
    for topic in response.responses:
        for one in topic.partitions:
            place = TopicPartition(topic.topic, one.partition_index)
            found[place] = error_of(one) or timestamp_at(_bytes(one.records), offsets[place])
    return found


def _bytes(records: Any) -> bytes | memoryview:
    if records is None:
        return b""
    return b"".join(records) if isinstance(records, list) else records
