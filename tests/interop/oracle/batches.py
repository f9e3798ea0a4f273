"""Record batches for scripts: good ones, and good ones with one thing broken."""

import struct
from typing import Any

from barnabas_protocol.records.batch import stamp_crc
from barnabas_protocol.records.record import Record, encode_batch
from tests.interop.oracle.side import Side

FIRST_TIMESTAMP = 1_700_000_000_000

_FIELDS = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def records(
    count: int = 1, *, key: bytes | None = b"k", size: int = 1, at: int = FIRST_TIMESTAMP
) -> list[Record]:
    """Records a millisecond apart."""
    return [Record(i, at + i, key, bytes([65 + i % 26]) * size) for i in range(count)]


def batch(
    count: int = 1,
    *,
    key: bytes | None = b"k",
    size: int = 1,
    at: int = FIRST_TIMESTAMP,
    **more: Any,
) -> bytes:
    """One whole batch."""
    return encode_batch(records(count, key=key, size=size, at=at), **more)


def changed(data: bytes, *, keeps_crc: bool = False, **fields: int) -> bytes:
    """The batch with other header fields, its CRC made right unless told not to."""
    out = bytearray(data)
    for name, value in fields.items():
        position, form = _FIELDS[name]
        struct.pack_into(form, out, position, value)
    if not keeps_crc and "crc" not in fields:
        stamp_crc(out, 0)
    return bytes(out)


def topic_field(side: Side, topic: str, version: int) -> dict[str, Any]:
    """The topic by its id where the version has ids; for requests of Produce and Fetch."""
    return {"topic_id": side.topic_ids.get(topic, bytes(range(16)))} if version >= 13 else {}


def produce_fields(
    side: Side,
    version: int,
    topic: str,
    data: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
) -> dict[str, Any]:
    """A Produce request with one partition."""
    return {
        "acks": acks,
        "timeout_ms": 5000,
        "topic_data": [
            {
                "name": topic,
                **topic_field(side, topic, version),
                "partition_data": [{"index": partition, "records": data}],
            }
        ],
    }
