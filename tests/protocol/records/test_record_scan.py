"""Going through a batch without building records: the twin of `decode_records`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import read_header, stamp_crc
from barnabas_protocol.records.compression import compress
from barnabas_protocol.records.record import RECORDS_MAX, Record, decode_records, encode_batch
from barnabas_protocol.records.record_scan import scan_records
from tests.protocol.records.drawn_records import record_lists


@given(record_lists(), st.integers(0, 4), st.booleans())
def test_a_scan_tells_what_decoding_tells(
    records: list[Record], codec: int, is_append_time: bool
) -> None:
    batch = encode_batch(
        records, base_offset=90, compression=codec, timestamp_type=int(is_append_time)
    )
    decoded = decode_records(batch)
    scanned = list(scan_records(memoryview(b"xyz" + batch + b"behind"), 3))
    assert scanned == [(one.offset, one.timestamp, one.key is not None) for one in decoded]


@given(record_lists(), st.integers(61, 400), st.integers(1, 255))
def test_a_scan_refuses_what_decoding_refuses(
    records: list[Record], position: int, flipped: int
) -> None:
    """The cleaner decodes what the validator has only scanned: nothing may pass here alone."""
    batch = bytearray(encode_batch(records, base_offset=90))
    batch[min(position, len(batch) - 1)] ^= flipped
    try:
        decoded = len(decode_records(batch))
    except ParseError:
        with pytest.raises(ParseError):
            list(scan_records(batch))
    else:
        assert len(list(scan_records(batch))) == decoded


def test_a_bomb_of_records_is_refused_by_its_count() -> None:
    """Attack: 16 million empty records in eleven kilobytes took 26 s and 2.6 GB."""
    batch = bytearray(encode_batch([Record(0, 0, b"", b"")], compression=4))
    count = RECORDS_MAX + 1
    payload = compress(4, bytes(7) * count)
    bomb = bytearray(batch[:61]) + payload
    bomb[8:12] = (len(bomb) - 12).to_bytes(4, "big")
    bomb[57:61] = count.to_bytes(4, "big")
    stamp_crc(bomb, 0)
    assert read_header(bomb).record_count == count
    for read in (decode_records, lambda data: list(scan_records(data))):
        with pytest.raises(ParseError, match="records in a batch"):
            read(bomb)
