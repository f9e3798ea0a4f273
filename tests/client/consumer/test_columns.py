"""Columns hold what the plain reader reads, and refuse what it refuses."""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas_client.consumer import column_arrays, columns
from barnabas_client.consumer.columns import RecordColumns, iterate_columns, read_columns
from barnabas_client.consumer.records import FetchedBatch
from barnabas_client.errors import UsageError
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.protocol.records.damaged_batches import (
    EDGES,
    alike_batches,
    damaged_batches,
    raw_batches,
)
from tests.protocol.records.drawn_records import record_lists
from tests.protocol.records.golden_batches import GOLDEN

INT64_MAX = 2**63 - 1
DECOMPRESSED_MAX = 1 << 20


def fetched(batch: bytes, first_offset: int | None = None, topic: str = "topic") -> FetchedBatch:
    """The batch as a consumer passes it on."""
    header = read_header(batch)
    return FetchedBatch(
        topic=topic,
        partition=7,
        header=header,
        data=memoryview(batch),
        first_offset=header.base_offset if first_offset is None else first_offset,
    )


def fetched_together(batches: Sequence[bytes], first_offset: int | None = None) -> Any:
    """The batches in one answer, as views of the same memory, something else between them."""
    answer = bytearray(b"?".join(batches))
    found, position = [], 0
    for batch in batches:
        view = memoryview(answer)[position : position + len(batch)]
        found.append(dataclasses.replace(fetched(batch, first_offset), data=view))
        position += len(batch) + 1
    return found


def rows(chunk: RecordColumns) -> list[Record]:
    """The columns as records again; what Arrow holds is checked on the way."""
    arrays = (chunk.offsets, chunk.timestamps.cast(pa.int64()), chunk.keys, chunk.values)
    for array in (*arrays, chunk.headers):
        array.validate(full=True)
        assert len(array) == len(chunk)
    headers = [
        tuple((header["key"], header["value"]) for header in several)
        for several in chunk.headers.to_pylist()
    ]
    fields = (array.to_pylist() for array in arrays)
    return [Record(*values) for values in zip(*fields, headers, strict=True)]


def read_all(batches: Iterable[FetchedBatch], **options: Any) -> list[Record]:
    chunks = iterate_columns(batches, max_decompressed_bytes=DECOMPRESSED_MAX, **options)
    return [record for chunk in chunks for record in rows(chunk)]


@given(
    st.lists(st.tuples(record_lists(), st.integers(0, 4), st.booleans()), max_size=5),
    st.sampled_from([1, 1000, columns.CHUNK_BYTES]),
)
def test_columns_hold_what_the_plain_reader_reads(
    parts: list[tuple[list[Record], int, bool]], chunk_bytes: int
) -> None:
    """Gaps, nulls, headers, negative deltas, every codec, both timestamp types, empty batches."""
    batches = [
        encode_batch(
            records,
            base_offset=90,
            compression=codec,
            timestamp_type=int(is_log_append_time),
            last_offset_delta=2**20,
            max_timestamp=12345,
        )
        for records, codec, is_log_append_time in parts
    ]
    expected = [
        record._replace(timestamp=12345) if is_log_append_time else record
        for records, _, is_log_append_time in parts
        for record in records
    ]
    assert read_all([fetched(batch) for batch in batches], chunk_bytes=chunk_bytes) == expected
    assert read_all(fetched_together(batches), chunk_bytes=chunk_bytes) == expected


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("delta", [0, 63, 64, 8191, 8192, 2**20, 2**27, 2**30])
def test_numbers_of_every_length_are_decoded(size: int, delta: int) -> None:
    """Varints of one and two bytes have ways of their own; all lengths meet in one batch."""
    header = ("h" * size, b"x" * size)
    records = [
        Record(5, 2**40, b"k" * size, None),
        Record(6 + delta, 2**40 + delta**2, None, b"v" * size, (header, ("n", None))),
        Record(7 + delta, 2**40 - delta, b"", b"", (("", None), ("", b""))),
    ]
    assert read_all([fetched(encode_batch(records, base_offset=5))]) == records


@pytest.mark.parametrize("sizes", [[100], [3, 3, 100], [50, 51], [9000, 9000, 70000], [0]])
@pytest.mark.parametrize("count", [1, 11, 12, 13, 64, 65, 66, 200])
def test_rows_of_equal_records_are_followed(sizes: list[int], count: int) -> None:
    """Records of one size in a row are stepped over together; sizes change within a batch."""
    values = [b"v" * size for size in sizes for _ in range(count)]
    records = [Record(index, 0, None, value) for index, value in enumerate(values)]
    batch = encode_batch(records)
    batches = [batch, encode_batch(records[:1]), batch]
    expected = [*records, records[0], *records]
    assert read_all([fetched(one) for one in batches]) == expected
    assert read_all(fetched_together(batches)) == expected
    assert read_all(reversed(fetched_together(batches))) == expected


@pytest.mark.parametrize("count", [3, 15, 16, 40])
def test_headers_are_found_in_few_and_in_many_records(count: int) -> None:
    """Many records take a round per header, a few left over a plain loop; both in one batch."""
    records = [
        Record(i, 0, b"k", b"v", tuple((f"é{j}", b"%d" % i if j % 3 else None) for j in range(i)))
        for i in range(count)
    ]
    assert read_all([fetched(encode_batch(records))]) == records


@pytest.mark.parametrize("first_offset", [0, 10, 11, 15, 29, 30, 99])
def test_records_before_the_position_are_left_out(first_offset: int) -> None:
    """A fetch from the middle of a batch gets the whole batch; headers go with their records."""
    records = [
        Record(10 + i, 50 + i, b"k" if i % 2 else None, b"%d" % i, (("h", b"%d" % i),) * (i % 3))
        for i in range(20)
    ]
    behind = [Record(200, 1, None, None)]
    batches = [
        fetched(encode_batch(records, base_offset=10), first_offset),
        fetched(encode_batch(behind, base_offset=200)),
    ]
    wanted = [record for record in records if record.offset >= first_offset]
    assert read_all(batches) == wanted + behind


def test_a_chunk_ends_at_its_size_and_with_its_partition() -> None:
    """Memory is bounded by the chunk; a chunk belongs to one partition."""
    batch = encode_batch([Record(0, 0, None, b"v" * 100)])
    one = [fetched(batch)] * 4
    sizes = [len(chunk) for chunk in iterate_columns(one, chunk_bytes=2 * (len(batch) - 61))]
    assert sizes == [2, 2]
    two = [fetched(batch), fetched(batch, topic="other")]
    assert [chunk.topic for chunk in iterate_columns(two)] == ["topic", "other"]


def test_a_chunk_tells_where_reading_goes_on() -> None:
    """Also when compaction left nothing of the last batch; CON-6."""
    full = encode_batch([Record(4, 0, None, b"v")], base_offset=4, leader_epoch=2)
    empty = encode_batch([], base_offset=5, last_offset_delta=9, leader_epoch=3)
    (chunk,) = iterate_columns([fetched(full), fetched(empty)])
    assert (len(chunk), chunk.next_offset, chunk.leader_epoch) == (1, 15, 3)
    (chunk,) = iterate_columns([fetched(empty)])
    assert (len(chunk), chunk.next_offset) == (0, 15)
    assert chunk.to_table().schema.equals(columns.schema())
    assert list(iterate_columns([])) == []


def test_a_broken_batch_comes_after_all_before_it() -> None:
    """CON-6: an error is raised when the records before it were handed out."""
    good = [fetched(encode_batch([Record(i, 0, None, b"v")], base_offset=i)) for i in range(3)]
    broken = bytearray(encode_batch([Record(3, 0, None, b"v")], base_offset=3))
    broken[-1] = 2
    chunks = iterate_columns([*good, fetched(bytes(broken)), *good])
    chunk = next(chunks)
    assert (chunk.offsets.to_pylist(), chunk.next_offset) == ([0, 1, 2], 3)
    with pytest.raises(ParseError):
        next(chunks)
    broken[22] = 5
    chunks = iterate_columns([*good, fetched(bytes(broken))])
    assert len(next(chunks)) == 3
    with pytest.raises(ParseError):
        next(chunks)


def test_a_consumer_learns_where_the_broken_batch_is() -> None:
    """What was read before it is handed out; then the error names the offset to seek behind."""
    good = fetched(encode_batch([Record(7, 0, None, b"v")], base_offset=7))
    broken = fetched(encode_batch([Record(8, 0, None, b"v")], base_offset=8)[:-1] + b"\2")
    found, error = read_columns([good, broken])
    assert [rows(chunk)[0].offset for chunk in found] == [7]
    assert error is not None and error.position == ("topic", 7, 8)
    found, error = read_columns([broken, good])
    assert (found, error and error.position) == ([], ("topic", 7, 8))
    assert "topic-7 cannot be read at offset 8" in str(error)
    found, error = read_columns([good])
    assert (len(found), error) == (1, None)


def _as_arrow_has_it(record: Record) -> Record:
    """Header keys that are not UTF-8 have U+FFFD for what is not."""
    readable = [
        (key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
        for key, value in record.headers
    ]
    return record._replace(headers=tuple(readable))


def test_a_header_key_that_is_not_utf_8_costs_no_record() -> None:
    """Clients in C write any bytes; one such record made its partition unreadable."""
    record = Record(0, 1, b"k", b"v", (("caf\udce9", b"1"),))
    batch = encode_batch([record])
    assert b"caf\xe9" in batch
    assert decode_records(batch) == [record], "the bytes stay what they were"
    assert read_all([fetched(batch)]) == [record._replace(headers=(("caf\ufffd", b"1"),))]


@given(damaged_batches() | raw_batches() | alike_batches(), st.booleans())
@example(GOLDEN[:61] + b"\x10\0\0\0\x81\0\x01\0", True)
@example(GOLDEN[:61] + b"\x10\0\0\0\x01\x81\0\0", True)
@example(GOLDEN[:61] + b"\x0f\0\0\0\x01\x01\0", True)
@example(GOLDEN[:61] + b"\x8f\0\0\0\0\x01\x01\0", True)
@example(GOLDEN[:61] + b"\x0e\0\xff\0\x01\x01\0", True)
@example(GOLDEN[:61] + b"\x18\0\0\0\x01\x01\x02\x02a\x81\0\0", True)
@example(GOLDEN[:61] + b"\x12\0\0\0\x01\x01\x80\0", True)
def test_damage_meets_the_verdict_of_the_plain_reader(batch: bytes, is_alone: bool) -> None:
    """Never other records, never another exception; only numbers above 64 bits differ."""
    try:
        expected: Any = decode_records(batch, max_decompressed_bytes=DECOMPRESSED_MAX)
        if any(not _fits(record) for record in expected):
            expected = ParseError
    except ParseError:
        expected = ParseError
    good = Record(3, 4, b"k", b"v" * 70)
    around = [] if is_alone else [encode_batch([good], base_offset=3)]
    beside = [] if is_alone else [good]
    if expected is not ParseError:
        expected = [*beside, *map(_as_arrow_has_it, expected), *beside]
    batches = [*around, batch, *around]
    first_offset = -(2**63)
    apart = [fetched(one, first_offset) for one in batches]
    for several in (apart, fetched_together(batches, first_offset)):
        try:
            found: Any = read_all(several)
        except ParseError:
            found = ParseError
        assert found == expected


def _fits(record: Record) -> bool:
    return all(-INT64_MAX - 1 <= number <= INT64_MAX for number in record[:2])


def _with_numbers(timestamp_delta: bytes, offset_delta: bytes) -> bytes:
    body = b"\0" + timestamp_delta + offset_delta + b"\x01\x01\0"
    batch = bytearray(GOLDEN[:61] + bytes([len(body) * 2]) + body)
    batch[8:12] = (49 + len(body) + 1).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("number", [b"\xff" * 9 + b"\x01", b"\xfe" * 1 + b"\xff" * 8 + b"\x01"])
def test_the_largest_numbers_are_decoded(number: bytes) -> None:
    """A varlong of ten bytes holds all of 64 bits."""
    batch = _with_numbers(number, number)
    assert read_all([fetched(batch, first_offset=-(2**63))]) == decode_records(batch)


@pytest.mark.parametrize("number", [b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x7f", b"\xff" * 10])
def test_numbers_above_64_bits_are_refused(number: bytes) -> None:
    """Arrow has no place for them, and no Kafka writes them."""
    for batch in (_with_numbers(number, b"\0"), _with_numbers(b"\0", number)):
        with pytest.raises(ParseError):
            read_all([fetched(batch)])


def test_a_sum_above_64_bits_is_refused() -> None:
    """Base and delta fit, what they make does not: it must not wrap around."""
    batch = bytearray(_with_numbers(b"\x02", b"\0"))
    batch[27:35] = INT64_MAX.to_bytes(8, "big")
    with pytest.raises(ParseError):
        read_all([fetched(bytes(batch))])


def test_tables_have_one_schema() -> None:
    """Tables of any topics can be put together."""
    records = [Record(0, 1700000000000, b"k", None, (("h", None),)), Record(1, -1, None, b"v")]
    (chunk,) = iterate_columns([fetched(encode_batch(records))])
    table = chunk.to_table()
    assert table.schema.equals(columns.schema())
    table.validate(full=True)
    first, second = table.to_pylist()
    assert (first["topic"], first["partition"], first["key"], first["value"]) == (
        *("topic", 7, b"k"),
        None,
    )
    assert first["timestamp"].isoformat() == "2023-11-14T22:13:20+00:00"
    assert first["headers"] == [{"key": "h", "value": None}]
    assert (second["offset"], second["timestamp_type"], second["headers"]) == (1, 0, [])
    assert len(pa.concat_tables([table, table])) == 4


def test_headers_that_nobody_wants_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They cost memory and time, and their keys may be of any bytes; all else stays the same."""
    records = [
        Record(0, 1700000000000, b"k", b"v", (("h", b"1"), ("i", None))),
        Record(1, -1, None, b"w"),
    ]
    batch = fetched(encode_batch(records))
    (wanted,) = iterate_columns([batch])
    seen: list[object] = []
    real = column_arrays.header_array

    def watched(data: bytes, headers: Any, count: int) -> Any:
        seen.append(headers)
        return real(data, headers, count)

    monkeypatch.setattr(column_arrays, "header_array", watched)
    (chunk,) = iterate_columns([batch], include_headers=False)
    assert seen == [None]
    table = chunk.to_table()
    table.validate(full=True)
    assert table.column("headers").to_pylist() == [[], []]
    assert table.drop(["headers"]).equals(wanted.to_table().drop(["headers"]))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most programs do without pyarrow: who asks for columns learns what to install."""
    import barnabas_client.consumer as package

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "barnabas_client.consumer.column_arrays", raising=False)
    monkeypatch.delattr(package, "column_arrays", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'barnabas\[columnar\]'"):
        next(iterate_columns([]))
