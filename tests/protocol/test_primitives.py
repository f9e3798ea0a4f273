"""Varints against the examples of the format description, and against hostile input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.primitives import (
    append_count,
    append_string,
    read_signed_varint,
    read_signed_varlong,
    read_unsigned_varint,
    read_unsigned_varlong,
    signed_varint,
    skip_tagged_fields,
    unsigned_varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (8191, "fe7f"),
        (8192, "808001"),
    ],
)
def test_signed_varints_are_zig_zag(value: int, encoded: str) -> None:
    """The examples of formats, section 1."""
    assert signed_varint(value).hex() == encoded
    assert read_signed_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_of_32_bits_survive(value: int) -> None:
    """Lengths and tags."""
    encoded = unsigned_varint(value)
    assert len(encoded) <= 5
    assert read_unsigned_varint(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))


@given(
    st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
)
def test_varints_of_other_widths_survive(unsigned: int, signed: int, short: int) -> None:
    """Timestamps and offset deltas."""
    encoded = unsigned_varint(unsigned)
    assert read_unsigned_varlong(encoded, 0) == (unsigned, len(encoded))
    encoded = signed_varint(signed)
    assert read_signed_varlong(encoded, 0) == (signed, len(encoded))
    encoded = signed_varint(short)
    assert read_signed_varint(encoded, 0) == (short, len(encoded))


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffffff01", "ffffffff1f"])
def test_varints_that_end_early_or_are_too_wide_are_parse_errors(encoded: str) -> None:
    """At most five bytes and 32 bits."""
    with pytest.raises(ParseError):
        read_unsigned_varint(bytes.fromhex(encoded), 0)


def test_a_varlong_has_64_bits() -> None:
    """At most ten bytes."""
    with pytest.raises(ParseError):
        read_unsigned_varlong(b"\xff" * 9 + b"\x02", 0)
    assert read_unsigned_varlong(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)


def test_a_negative_number_has_no_unsigned_varint() -> None:
    """It would never end."""
    with pytest.raises(ValueError, match="-1"):
        unsigned_varint(-1)


def test_tagged_fields_are_skipped_by_their_sizes() -> None:
    """A field may not reach behind the end."""
    assert skip_tagged_fields(b"\x05\x02ab\x90\x01\x00z", 0, 2) == 7
    with pytest.raises(ParseError):
        skip_tagged_fields(b"\x05\x09ab", 0, 1)
    with pytest.raises(ParseError):
        skip_tagged_fields(b"\x05\x02ab", 0, 2)


@pytest.mark.parametrize("count", [0, 1, 125, 126, 127, 128, 16_382, 16_383, 2**31 - 2])
def test_appended_counts_are_those_that_are_read(count: int) -> None:
    """One byte up to 126, where no varint is made, and the varint from there on."""
    out = bytearray()
    append_count(out, count, True)
    assert bytes(out) == unsigned_varint(count + 1)
    out.clear()
    append_count(out, count, False)
    assert int.from_bytes(out, "big") == count


@pytest.mark.parametrize("size", [0, 1, 126, 127, 300])
def test_appended_strings_have_their_size_before_them(size: int) -> None:
    text = "x" * size
    out = bytearray()
    append_string(out, text, True)
    assert bytes(out) == unsigned_varint(size + 1) + text.encode()
    out.clear()
    append_string(out, text, False)
    assert bytes(out) == size.to_bytes(2, "big") + text.encode()
