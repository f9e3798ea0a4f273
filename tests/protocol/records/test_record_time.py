"""Timestamps of records at an offset: from headers alone, whole batches, compacted ones."""

import pytest

from barnabas_protocol.records.batch import HEADER_BYTES
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import Record, encode_batch
from barnabas_protocol.records.record_time import timestamp_at

RECORDS = [Record(100 + n, 5000 + 10 * n, None, b"x" * 50) for n in range(5)]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_each_record_of_a_batch_has_its_own_timestamp(codec: Compression) -> None:
    batch = encode_batch(RECORDS, base_offset=100, compression=codec)
    assert [timestamp_at(batch, one.offset) for one in RECORDS] == [5000, 5010, 5020, 5030, 5040]
    assert timestamp_at(batch, 105) is None


def test_the_header_tells_the_first_record_and_no_other() -> None:
    """A few bytes of each of many partitions are enough for most."""
    batch = encode_batch(RECORDS, base_offset=100)[: HEADER_BYTES + 3]
    assert timestamp_at(batch, 100) == 5000
    assert timestamp_at(batch, 42) == 5000, "the first one at or after the offset"
    assert timestamp_at(batch, 101) is None
    assert timestamp_at(batch[: HEADER_BYTES - 1], 100) is None


def test_later_batches_are_looked_at_where_the_first_ends_before_the_offset() -> None:
    first = encode_batch(RECORDS, base_offset=100)
    second = encode_batch([Record(105, 7000, None, b"")], base_offset=105)
    assert timestamp_at(first + second, 105) == 7000
    assert timestamp_at(first + second[:HEADER_BYTES], 105) == 7000


def test_the_brokers_clock_stands_for_every_record_of_its_batch() -> None:
    batch = encode_batch(RECORDS, base_offset=100, timestamp_type=1, max_timestamp=9000)
    assert timestamp_at(batch, 103) == 9000


def test_compacted_batches_are_read_as_they_are_left() -> None:
    """The next record that is there counts; a delete horizon is no record's timestamp (KIP-534)."""
    kept = encode_batch(
        [RECORDS[0], RECORDS[2]], base_offset=100, last_offset_delta=4, delete_horizon_ms=99
    )
    empty = encode_batch([], base_offset=105, last_offset_delta=4)
    after = encode_batch([Record(110, 8000, None, b"")], base_offset=110)
    assert timestamp_at(kept, 100) == 5000
    assert timestamp_at(kept, 101) == 5020
    assert timestamp_at(kept + empty + after, 103) == 8000
    assert timestamp_at(kept[:HEADER_BYTES], 100) is None


def test_what_has_no_timestamp_or_is_no_batch_tells_nothing() -> None:
    assert timestamp_at(encode_batch([Record(0, -1, None, b"")]), 0) is None
    assert timestamp_at(b"\x00" * 100, 0) is None
    assert timestamp_at(b"", 0) is None
