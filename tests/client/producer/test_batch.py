"""Batches are what Kafka's format says, whatever mixture of records is put into them."""

from hypothesis import example, given
from hypothesis import strategies as st

from barnabas_client.producer.batch import ProducerBatch, record_size
from barnabas_protocol.records.batch import HEADER_BYTES, check_crc, read_header
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import Record, decode_records, encode_batch

contents = st.none() | st.binary(max_size=20) | st.just(b"v" * 9000) | st.just(b"w" * 64)
header_lists = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2
)
rows = st.tuples(contents, contents, header_lists, st.integers(0, 2**40))
plain_rows = st.tuples(st.none(), st.binary(max_size=80), st.just([]), st.integers(0, 2**40))
keyed_rows = st.tuples(st.binary(), st.binary(), st.just([]), st.integers(0, 2**40))
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


def filled(records: list[Row]) -> ProducerBatch:
    batch = ProducerBatch("t", 0, room_bytes=1 << 30, reserved_bytes=1 << 30, created_ms=0)
    for key, value, headers, timestamp in records:
        size = record_size(key, value, headers)
        batch.append(key, value, headers, timestamp, size)
    return batch


@given(
    records=st.lists(plain_rows, min_size=1)
    | st.lists(keyed_rows, min_size=1)
    | st.lists(rows, min_size=1)
    | st.lists(plain_rows | keyed_rows, min_size=1),
    codec=st.sampled_from(list(Compression)),
    is_transactional=st.booleans(),
)
@example(records=[(None, b"", [], 5)], codec=Compression.NONE, is_transactional=False)
@example(records=[(b"k", b"v", [], 5), (None, None, [], 4)] * 50, codec=0, is_transactional=False)
def test_a_closed_batch_is_the_one_that_the_reference_encoder_makes(
    records: list[Row], codec: int, is_transactional: bool
) -> None:
    """The columnar encoder is fast and intricate; the plain one is neither."""
    batch = filled(records)
    batch.close(codec, None)
    batch.producer_id, batch.producer_epoch, batch.sequence = 7, 3, 11
    wire = bytes(batch.stamp(is_transactional=is_transactional))
    expected = [
        Record(offset, timestamp, key, value, tuple(headers))
        for offset, (key, value, headers, timestamp) in enumerate(records)
    ]
    reference = encode_batch(
        expected,
        compression=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        is_transactional=is_transactional,
    )
    assert wire == reference
    assert check_crc(wire, 0, read_header(wire))
    assert decode_records(wire) == expected


def test_offset_deltas_of_three_bytes_are_written() -> None:
    """A large `batch_size` and empty values make batches of many thousand records."""
    count = 20_000
    batch = filled([(None, b"", [], 1)] * count)
    batch.close(Compression.NONE, None)
    assert [r.offset for r in decode_records(bytes(batch.stamp(is_transactional=False)))] == list(
        range(count)
    )


@given(st.lists(rows, min_size=1))
def test_the_size_that_is_reckoned_with_is_close_to_the_real_one(records: list[Row]) -> None:
    """Room is reserved by the estimate (PRD-4), so it must not be far off."""
    batch = filled(records)
    before = batch.room_bytes
    batch.close(Compression.NONE, None)
    reckoned = (1 << 30) - before
    assert batch.wire is not None
    # Timestamps that jump take up to eight bytes more each.
    assert abs(len(batch.wire) - HEADER_BYTES - reckoned) <= 12 * len(records)


def test_stamping_again_changes_only_who_sends() -> None:
    """A batch that is repeated after an epoch bump keeps its records (KIP-360)."""
    batch = filled([(b"k", b"v", [], 1)])
    batch.close(Compression.GZIP, None)
    batch.producer_id, batch.producer_epoch, batch.sequence = 1, 0, 41
    first = bytes(batch.stamp(is_transactional=False))
    batch.producer_epoch, batch.sequence = 1, 0
    second = bytes(batch.stamp(is_transactional=False))
    assert read_header(first).base_sequence == 41
    assert read_header(second).base_sequence == 0
    assert first[HEADER_BYTES:] == second[HEADER_BYTES:]
    assert check_crc(second, 0, read_header(second))


def test_metadata_tells_offsets_timestamps_and_sizes() -> None:
    """PRD-7: the timestamp is the record's own unless the broker says its clock counts."""
    batch = filled([(None, b"abc", [], 5), (b"key", None, [], 9)])
    batch.close(Compression.NONE, None)
    batch.finish(100, -1)
    assert batch.metadata(0) == ("t", 0, 100, 5, -1, 3)
    assert batch.metadata(1) == ("t", 0, 101, 9, 3, -1)
    batch.log_append_time_ms = 77
    assert batch.metadata(1).timestamp_ms == 77
