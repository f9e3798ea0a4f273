import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import check_crc, read_header
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.protocol.records.drawn_records import record_lists
from tests.protocol.records.golden_batches import GOLDEN
from tests.support.kafka_python import DefaultRecordBatch, DefaultRecordBatchBuilder


def test_golden_batch_is_written_and_read() -> None:
    """formats.md 2."""
    assert encode_batch([Record(0, 0, b"k", b"v")]) == GOLDEN
    assert decode_records(GOLDEN) == [Record(0, 0, b"k", b"v", ())]


@given(record_lists(), st.integers(0, 4), st.none() | st.integers(0, 2**41))
def test_records_survive_a_round_trip(
    records: list[Record], codec: int, delete_horizon_ms: int | None
) -> None:
    """Offset gaps, nulls, headers, every codec, deltas against a delete horizon."""
    batch = encode_batch(
        records,
        base_offset=90,
        compression=codec,
        producer_id=5,
        producer_epoch=1,
        base_sequence=3,
        leader_epoch=8,
        delete_horizon_ms=delete_horizon_ms,
        last_offset_delta=2**20,
    )
    assert decode_records(b"xyz" + batch + b"behind", 3) == records
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.last_offset_delta, header.record_count) == (2**20, len(records))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 3)
    assert header.max_timestamp == max((record.timestamp for record in records), default=-1)


@given(record_lists(min_size=1))
def test_writing_what_was_read_gives_the_same_bytes(records: list[Record]) -> None:
    """formats.md 13: write, read, write."""
    batch = encode_batch(records, base_offset=100)
    assert encode_batch(decode_records(batch), base_offset=100) == batch


@given(record_lists(min_size=1), st.integers(0, 4))
def test_kafka_python_reads_what_we_write(records: list[Record], codec: int) -> None:
    """An independent reader sees the same records, whatever the codec."""
    batch = encode_batch(records, base_offset=100, compression=codec)
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert theirs.base_offset == 100
    read = [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in theirs
    ]
    assert read == records


@given(record_lists(min_size=1), st.integers(0, 4))
def test_we_read_what_kafka_python_writes(records: list[Record], codec: int) -> None:
    """The other direction; its builder takes offset deltas."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000_000,
    )
    for delta, record in enumerate(records):
        appended = builder.append(
            delta, record.timestamp, record.key, record.value, list(record.headers)
        )
        assert appended is not None
    batch = bytes(builder.build())
    expected = [record._replace(offset=delta) for delta, record in enumerate(records)]
    assert check_crc(batch, 0, read_header(batch))
    assert decode_records(batch) == expected
    if codec == 0:
        assert encode_batch(expected, leader_epoch=0) == batch


def test_an_empty_batch_keeps_its_range_and_timestamp() -> None:
    """formats.md 2: compaction may remove every record of a batch."""
    batch = encode_batch([], base_offset=40, last_offset_delta=9, max_timestamp=777, compression=1)
    header = read_header(batch)
    assert (header.last_offset, header.record_count, header.size_bytes) == (49, 0, 61)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 777)
    assert decode_records(batch) == []


def test_records_without_timestamp_stay_so() -> None:
    """formats.md 2: "no timestamp" is -1."""
    records = [Record(0, -1, None, b"a"), Record(1, -1, None, b"b")]
    assert decode_records(encode_batch(records)) == records
    assert read_header(encode_batch(records)).max_timestamp == -1


@pytest.mark.parametrize("offsets", [(5, 5), (6, 5), (4, 5)])
def test_offsets_that_do_not_rise_are_refused(offsets: tuple[int, int]) -> None:
    """A batch with such offsets could never be read in order."""
    with pytest.raises(ValueError, match="does not follow"):
        encode_batch([Record(offset, 0, None, None) for offset in offsets], base_offset=5)


@given(st.data())
def test_damaged_records_raise_only_parse_errors(data: st.DataObject) -> None:
    """Past a wrong CRC check nothing else may leave the reader, nor may it loop or allocate."""
    records = data.draw(record_lists(min_size=1))
    batch = bytearray(
        encode_batch(records, base_offset=100, compression=data.draw(st.integers(0, 7)) % 5)
    )
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(17, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_records(batch, max_decompressed_bytes=1 << 20)
    except ParseError:
        return


@pytest.mark.parametrize("count", [-1, 2, 1000, 2**31 - 1])
def test_a_wrong_record_count_is_found(count: int) -> None:
    """The count is bounded by the bytes before anything is reserved."""
    damaged = bytearray(GOLDEN)
    struct.pack_into(">i", damaged, 57, count)
    with pytest.raises(ParseError):
        decode_records(damaged)


def test_bytes_behind_the_last_record_are_found() -> None:
    """Otherwise a count that is too low would hide records."""
    two = bytearray(encode_batch([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")]))
    struct.pack_into(">i", two, 57, 1)
    with pytest.raises(ParseError, match="behind the last record"):
        decode_records(two)


@pytest.mark.parametrize("cut", range(1, 70))
def test_a_cut_batch_is_a_parse_error(cut: int) -> None:
    """Whatever is missing."""
    with pytest.raises(ParseError):
        decode_records(GOLDEN[:-cut])
