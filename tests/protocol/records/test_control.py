import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import check_crc, read_header
from barnabas_protocol.records.control import (
    ControlType,
    control_type_of,
    encode_marker,
    plain_marker,
    read_marker,
)
from barnabas_protocol.records.record import Record, decode_records, encode_batch

GOLDEN = bytes.fromhex(
    "0000000000000000 00000042 ffffffff 02 bda9896c 0030 00000000 0000000000000000"
    "0000000000000000 0000000000000001 0000 ffffffff 00000001 20 00 00 00 08 00000001 0c"
    "000000000000 00"
)


def test_the_golden_commit_marker_is_written_and_read() -> None:
    """formats.md 4."""
    marker = encode_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    assert marker == GOLDEN
    header = read_header(marker)
    assert header.is_control and header.is_transactional and check_crc(marker, 0, header)
    [record] = decode_records(marker)
    assert read_marker(record) == (ControlType.COMMIT, 0)


def test_an_abort_marker_names_its_coordinator_epoch() -> None:
    """formats.md 4: type 0."""
    marker = encode_marker(
        ControlType.ABORT,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp=5,
        base_offset=99,
        leader_epoch=4,
    )
    [record] = decode_records(marker)
    assert (record.offset, record.timestamp) == (99, 5)
    assert read_marker(record) == (ControlType.ABORT, 12)


@given(st.sampled_from(ControlType), st.integers(0, 2**31 - 1), st.integers(0, 2**41))
def test_marker_as_it_is_written_is_read_without_decoding_its_record(
    control_type: ControlType, coordinator_epoch: int, timestamp: int
) -> None:
    marker = encode_marker(
        control_type,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )
    [record] = decode_records(marker)
    assert plain_marker(marker) == read_marker(record) == (control_type, coordinator_epoch)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x00\x00\x03", bytes(6)),
        (b"\xff\xff\x00\x01", bytes(6)),
        (b"\x00\x00\x00\x01", b"\xff\xff" + bytes(4)),
        (b"\x00\x00\x00\x01", bytes(7)),
        (b"\x00\x00\x00\x01more", bytes(2)),
        (b"\x00\x00\x00\x01", None),
    ],
)
def test_record_of_another_layout_is_left_to_be_decoded(key: bytes, value: bytes | None) -> None:
    batch = encode_batch([Record(0, 0, key, value)], is_control=True, is_transactional=True)
    assert plain_marker(batch) is None


def test_other_types_are_named_but_not_markers() -> None:
    """formats.md 4: 2 to 6 stand in Kafka's metadata log; newer keys may be longer."""
    record = Record(0, 0, b"\x00\x01\x00\x03more", b"")
    assert control_type_of(record) == 3
    assert read_marker(record) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\x00\x00\x00", b""),
        (b"\xff\xff\x00\x00", bytes(6)),
        (bytes(4), None),
        (bytes(4), bytes(5)),
        (bytes(4), b"\xff\xff" + bytes(4)),
    ],
)
def test_malformed_markers_are_parse_errors(key: bytes | None, value: bytes | None) -> None:
    """They are read while logs are recovered."""
    with pytest.raises(ParseError):
        read_marker(Record(0, 0, key, value))
