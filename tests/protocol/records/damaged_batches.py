"""Batches at the edges of the format, and damaged ones."""

from typing import Any

from hypothesis import strategies as st

from barnabas_protocol.records.record import Record, encode_batch
from tests.protocol.records.drawn_records import record_lists

# Lengths and deltas on both sides of where a varint gets longer.
EDGES = [0, 1, 2, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 20000]


@st.composite
def damaged_batches(draw: Any) -> bytes:
    records = draw(record_lists(min_size=1))
    batch = bytearray(encode_batch(records, base_offset=100, compression=draw(st.integers(0, 4))))
    for _ in range(draw(st.integers(1, 4))):
        batch[draw(st.integers(17, len(batch) - 1))] = draw(st.integers(0, 255))
    return bytes(batch)


@st.composite
def raw_batches(draw: Any) -> bytes:
    """Records of bytes that are likely in records: more of them pass the first checks."""
    likely = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 14, 16, 20, 0x80, 0x81, 0xFF, 0x7F])
    body = bytes(draw(st.lists(likely, min_size=7, max_size=40)))
    batch = bytearray(encode_batch([Record(0, 0, None, None)])[:61] + body)
    batch[8:12] = (49 + len(body)).to_bytes(4, "big")
    batch[57:61] = draw(st.integers(1, 3)).to_bytes(4, "big")
    return bytes(batch)


@st.composite
def alike_batches(draw: Any) -> bytes:
    """Records that differ in one thing or in nothing but their deltas; sometimes damaged."""
    count, start = draw(st.integers(7, 90)), draw(st.sampled_from([0, 30, 63, 64, 200, 8150, 9000]))
    key = draw(st.sampled_from([None, b"", b"key", b"k" * 63, b"k" * 64]))
    value = draw(st.sampled_from([None, b"", b"value", b"v" * 63, b"v" * 64, b"v" * 9000]))
    step = draw(st.sampled_from([0, 1, 2, 100, 200, 70000, -1, -90]))
    headers = draw(st.sampled_from([(), (), (), (("h", b"x"),)]))
    records = [Record(start + i, 2**40 + step * i, key, value, headers) for i in range(count)]
    odd = draw(st.integers(0, 3 * count))
    if odd < count:
        changes: list[dict[str, Any]] = [
            {"key": b"other"},
            {"key": None},
            {"value": b"w" * draw(st.integers(0, 130))},
            {"value": None},
            {"timestamp": 2**40 + 9000},
            {"headers": (("h", None),)},
        ]
        records[odd] = records[odd]._replace(**draw(st.sampled_from(changes)))
    if draw(st.booleans()):
        gap = draw(st.integers(0, count))
        records[gap:] = [record._replace(offset=record.offset + 1) for record in records[gap:]]
    batch = bytearray(encode_batch(records))
    for _ in range(draw(st.integers(0, 2))):
        batch[draw(st.integers(61, min(len(batch) - 1, 400)))] = draw(st.integers(0, 255))
    return bytes(batch)
