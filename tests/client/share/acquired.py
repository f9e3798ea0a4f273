"""Acquisitions and their records, as tests of the share consumer's parts need them."""

from collections.abc import Callable, Iterable
from typing import Any

from barnabas_client.consumer.deserialization import RecordDeserializer
from barnabas_client.share.acquired_fetch import AcquiredFetch
from barnabas_client.share.acquisition import Acquisition, TopicIdPartition
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.share_fetch import AcquiredRecords
from barnabas_protocol.records.record import Record, encode_batch

TOPIC_ID = b"t" * 16
T0 = TopicPartition("t", 0)
LOCK_MS = 30_000


def acquisition(number: int = 0, *, session_number: int = 0, at_ms: int = 0) -> Acquisition:
    """What a response that was sent and received at once acquired of `t-<number>`."""
    return Acquisition(
        TopicPartition("t", number),
        TopicIdPartition(TOPIC_ID, number),
        node_id=1,
        session_number=session_number,
        lock_ms=LOCK_MS,
        sent_at_ms=at_ms,
        received_at_ms=at_ms,
    )


def batch(base_offset: int, offsets: Iterable[int], last_offset: int, **options: Any) -> bytes:
    """A batch with records at these offsets only."""
    records = [Record(offset, 5, None, b"%d" % offset) for offset in offsets]
    return encode_batch(
        records,
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        leader_epoch=3,
        **options,
    )


def acquired_fetch(
    data: bytes,
    *ranges: tuple[int, int, int],
    deserializer: Callable[[bytes], Any] | None = None,
) -> AcquiredFetch:
    """A fetch of `t-0` with ranges of first offset, last offset and delivery count."""
    return AcquiredFetch(
        acquisition(),
        data,
        [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in ranges
        ],
        RecordDeserializer(None, deserializer),
    )
