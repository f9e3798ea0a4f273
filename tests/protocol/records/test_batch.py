import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import (
    BatchHeader,
    check_crc,
    is_transactional,
    iterate_headers,
    read_header,
    stamp,
    stamp_log_append_time,
)
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.protocol.records.golden_batches import GOLDEN


def test_header_of_the_golden_batch() -> None:
    """formats.md 2."""
    header = read_header(b"abc" + GOLDEN, 3)
    assert header == BatchHeader(0, 58, -1, 2, 0xFE917CAB, 0, 0, 0, 0, -1, -1, -1, 1)
    assert (header.size_bytes, header.last_offset, header.last_sequence) == (70, 0, -1)
    assert check_crc(b"abc" + GOLDEN, 3, header)


@pytest.mark.parametrize("bit", range(17 * 8, 70 * 8))
def test_any_flipped_bit_from_byte_17_on_fails_the_checksum(bit: int) -> None:
    """formats.md 13: the CRC covers itself and all behind it."""
    damaged = bytearray(GOLDEN)
    damaged[bit // 8] ^= 1 << bit % 8
    assert not check_crc(damaged, 0, read_header(damaged))


def test_attribute_bits_have_their_names() -> None:
    """formats.md 2, attributes."""
    record = Record(0, 5, None, b"")
    plain = read_header(encode_batch([record]))
    assert not (
        plain.is_control
        or plain.is_transactional
        or plain.is_log_append_time
        or plain.has_delete_horizon
    )
    batch = encode_batch(
        [record],
        compression=4,
        timestamp_type=1,
        is_transactional=True,
        is_control=True,
        delete_horizon_ms=77,
    )
    header = read_header(batch)
    assert header.attributes == 0x7C
    assert header.is_control and header.is_transactional and header.is_log_append_time
    assert header.has_delete_horizon and header.base_timestamp == 77
    assert header.compression == 4


def test_sequences_wrap_to_zero() -> None:
    """formats.md 2: from 2^31 - 1 to 0."""
    records = [Record(offset, 0, None, b"v") for offset in range(3)]
    batch = encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0


def test_stamping_offset_and_leader_epoch_keeps_the_checksum() -> None:
    """formats.md 2: both lie outside the CRC."""
    buffer = bytearray(b"??" + GOLDEN)
    stamp(memoryview(buffer), 2, 2**40, 7)
    header = read_header(buffer, 2)
    assert (header.base_offset, header.leader_epoch) == (2**40, 7)
    assert check_crc(buffer, 2, header)
    assert decode_records(buffer, 2) == [Record(2**40, 0, b"k", b"v")]


def test_log_append_time_counts_for_every_record() -> None:
    """LOG-6: the broker's clock for the batch, with a new CRC."""
    batch = encode_batch([Record(0, 10, None, b"a"), Record(1, 20, None, b"b")], compression=1)
    buffer = bytearray(batch) + GOLDEN
    stamp_log_append_time(buffer, 0, 12345)
    header = read_header(buffer)
    assert header.is_log_append_time and header.max_timestamp == 12345 and header.compression == 1
    assert check_crc(buffer, 0, header)
    assert [record.timestamp for record in decode_records(buffer)] == [12345, 12345]
    assert buffer[header.size_bytes :] == GOLDEN


@given(st.integers(0, 3), st.integers(0, 69))
def test_iteration_stops_at_a_trailing_partial_batch(whole: int, partial_bytes: int) -> None:
    """LOG-2 c: a client may cut the last batch of a fetched range."""
    buffer = GOLDEN * whole + GOLDEN[:partial_bytes]
    assert [position for position, _ in iterate_headers(buffer)] == [70 * i for i in range(whole)]


@given(
    st.integers(0, 63),
    st.sampled_from([0, 1, 2, 3, 0xFF]),
    st.sampled_from([-1, 0, 48, 49, 50, 2**31 - 1]),
    st.integers(0, 255),
)
def test_batch_of_a_transaction_is_known_by_a_header_that_can_be_read(
    size: int, magic: int, length: int, attributes: int
) -> None:
    """What a leader takes for one must be what it then reads, and the other way round."""
    data = bytearray(64)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    data[16], data[22] = magic, attributes
    data = data[:size]
    try:
        expected = read_header(data).is_transactional
    except ParseError:
        expected = False
    assert is_transactional(data) is expected


def test_impossible_headers_are_parse_errors() -> None:
    """Length, magic and size are checked before anything relies on them."""
    with pytest.raises(ParseError, match="cut off"):
        read_header(GOLDEN[:60])
    with pytest.raises(ParseError, match="magic 1"):
        read_header(GOLDEN[:16] + b"\x01" + GOLDEN[17:40])
    with pytest.raises(ParseError, match="magic 0"):
        read_header(GOLDEN[:16] + b"\x00" + GOLDEN[17:])
    for length in (48, 0, -1):
        damaged = GOLDEN[:8] + length.to_bytes(4, "big", signed=True) + GOLDEN[12:]
        with pytest.raises(ParseError, match="length"):
            read_header(damaged)
        with pytest.raises(ParseError):
            list(iterate_headers(damaged))


def test_a_batch_that_is_not_all_there_fails_the_checksum() -> None:
    """Recovery asks about batches at a torn end."""
    assert not check_crc(GOLDEN[:-1], 0, read_header(GOLDEN))
