"""Confluent's framing of keys and values, byte by byte."""

import pytest

from barnabas_pipelines.registry.reading import (
    UnreadableError,
    split,
    split_message_indexes,
)


def test_split_gives_the_schema_id_and_the_payload() -> None:
    assert split(b"\x00\x01\x02\x03\x04rest") == (0x01020304, b"rest")
    assert split(b"\x00\x00\x00\x00\x01") == (1, b"")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "it is empty"),
        (b'{"a": 1}', "the byte 123 in place of the magic byte 0"),
        (b"\x01\x00\x00\x00\x01", "the byte 1 in place of the magic byte 0"),
        (b"\x00\x00\x00\x01", "cut off before the end of its schema id"),
        (b"\x00\x80\x00\x00\x00", "names the schema 2147483648, an id that no registry gives"),
    ],
)
def test_split_says_why_a_value_names_no_schema(value: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        split(value)


def test_message_indexes_are_zigzag_varints_and_a_zero_is_the_first_message() -> None:
    """As in Confluent's documentation: [0] is one byte, [1, 0] is 04 02 00, 300 needs two bytes."""
    assert split_message_indexes(b"\x00rest") == ((0,), b"rest")
    assert split_message_indexes(b"\x04\x02\x00rest") == ((1, 0), b"rest")
    assert split_message_indexes(b"\x02\xd8\x04rest") == ((300,), b"rest")


@pytest.mark.parametrize(
    "payload", [b"", b"\x04\x02", b"\x02\x80", b"\x01", b"\xff\xff\xff\xff\x7f", b"\x80" * 9]
)
def test_message_indexes_that_are_none_are_refused(payload: bytes) -> None:
    with pytest.raises(UnreadableError):
        split_message_indexes(payload)
