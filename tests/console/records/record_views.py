"""Records as a viewer sees them, made by hand."""

from barnabas_client.consumer.records import ConsumerRecord
from barnabas_console.records.decoding import DecodingRules, TopicDecoding
from barnabas_console.records.masking import NO_MASK, TopicMask
from barnabas_console.records.record_view import RecordView
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.record import Header, Record, encode_batch

NOW_MS = 1_800_000_000_000
_BATCH = read_header(encode_batch([Record(0, 0, None, None)]))


def view(
    value: bytes | None = b"",
    key: bytes | None = None,
    *,
    headers: tuple[Header, ...] = (),
    partition: int = 0,
    offset: int = 0,
    timestamp_ms: int = NOW_MS,
    decoding: TopicDecoding | None = None,
    mask: TopicMask = NO_MASK,
    topic: str = "orders",
) -> RecordView:
    """A record of no batch in particular, decoded by guess unless told otherwise."""
    record = ConsumerRecord(topic, partition, offset, timestamp_ms, 0, key, value, headers, 0)
    return RecordView(record, _BATCH, decoding or DecodingRules().for_topic(topic), mask)
