"""The reader of portions: the same records as `decode_records`, the same verdict on damage."""

from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from barnabas_protocol.records.record_reader import RecordReader
from tests.protocol.records.damaged_batches import (
    EDGES,
    alike_batches,
    damaged_batches,
    raw_batches,
)
from tests.protocol.records.drawn_records import contents, header_lists, record_lists
from tests.protocol.records.golden_batches import GOLDEN


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]
    leader_epoch: int


def read_all(
    batch: Any, portion: int = 3, first_offset: int = -(1 << 80), position: int = 0
) -> list[Read]:
    reader = RecordReader(
        Read,
        "topic",
        7,
        batch,
        position,
        first_offset=first_offset,
        max_decompressed_bytes=1 << 20,
    )
    records: list[Read] = []
    while portion_read := reader.read(portion):
        assert len(portion_read) <= portion
        assert type(portion_read[0]) is Read
        records += portion_read
    assert reader.remaining_count == 0
    return records


def plain(records: list[Read]) -> list[Record]:
    return [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


@given(record_lists(), st.integers(0, 4), st.integers(1, 7), st.none() | st.integers(0, 2**41))
def test_any_portions_give_what_the_plain_reader_gives(
    records: list[Record], codec: int, portion: int, delete_horizon_ms: int | None
) -> None:
    """Gaps, nulls, headers, negative deltas, every codec, at any position."""
    batch = encode_batch(
        records, base_offset=90, compression=codec, delete_horizon_ms=delete_horizon_ms
    )
    read = read_all(memoryview(b"xyz" + batch + b"behind"), portion, position=3)
    assert plain(read) == records


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("delta", [*EDGES, 2**30])
def test_numbers_of_every_length_are_read(size: int, delta: int) -> None:
    """A varint is read in line where it is short, elsewhere by the plain function."""
    records = [
        Record(5, 1000, b"k" * size, None),
        Record(6 + delta, 1000 + delta, None, b"v" * size, (("h" * size, b"x" * size),)),
        Record(7 + delta, 1000 - delta, b"", b"", (("", None), ("", b""))),
    ]
    assert plain(read_all(encode_batch(records, base_offset=5))) == records


def test_the_constant_fields_are_those_of_the_batch() -> None:
    """The class is not called, so its fields have to be in place."""
    batch = encode_batch([Record(3, 50, b"k", b"v")], leader_epoch=4)
    assert read_all(batch) == [Read("topic", 7, 3, 50, 0, b"k", b"v", (), 4)]


def test_log_append_time_stands_for_every_record() -> None:
    """The broker's clock is in the header only."""
    records = [Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]
    batch = encode_batch(records, timestamp_type=1, max_timestamp=999)
    assert [(r.timestamp, r.timestamp_type) for r in read_all(batch)] == [(999, 1), (999, 1)]


@pytest.mark.parametrize("first_offset", [0, 10, 11, 15, 29, 30, 99])
def test_records_before_the_position_are_left_out(first_offset: int) -> None:
    """A fetch from the middle of a batch gets the whole batch."""
    batch = encode_batch([Record(10 + i, 0, None, b"%d" % i) for i in range(20)], base_offset=10)
    offsets = [record.offset for record in read_all(batch, 4, first_offset)]
    assert offsets == [offset for offset in range(10, 30) if offset >= first_offset]


def test_a_batch_without_records_gives_none() -> None:
    """Compaction leaves such batches."""
    assert read_all(encode_batch([], base_offset=40, last_offset_delta=9)) == []


def verdict(decode: Any) -> Any:
    try:
        return decode()
    except ParseError:
        return ParseError


@given(damaged_batches() | raw_batches() | alike_batches(), st.sampled_from([1, 2, 3, 20, 500]))
@example(GOLDEN[:61] + b"\x0e\0\0\0\x01\x01\0", 1)
@example(GOLDEN[:61] + b"\x10\0\0\0\x81\0\x01\0", 1)
@example(GOLDEN[:61] + b"\x10\0\0\0\x01\x81\0\0", 1)
@example(GOLDEN[:61] + b"\x0f\0\0\0\x01\x01\0", 1)
@example(GOLDEN[:61] + b"\x8f\0\0\0\0\x01\x01\0", 1)
def test_damage_meets_the_same_verdict(batch: bytes, portion: int) -> None:
    """Malformed input is a ParseError, and nothing else is read out of it."""
    expected = verdict(lambda: decode_records(batch, max_decompressed_bytes=1 << 20))
    found = verdict(lambda: plain(read_all(batch, portion)))
    assert found == expected


@given(st.lists(st.tuples(contents, contents, header_lists), min_size=1, max_size=4))
def test_a_batch_cut_anywhere_is_refused(parts: list[Any]) -> None:
    """What a fetch leaves at its end is often half a batch."""
    batch = encode_batch([Record(i, 9, *part) for i, part in enumerate(parts)])
    for end in range(0, len(batch), 7):
        with pytest.raises(ParseError):
            read_all(batch[:end])
