"""How consumed records are written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.facts.record_format import renderer

RECORD = ConsumerRecord(
    "orders", 2, 7, 1_795_284_278_811, 0, b"k", b"v\xff", (("source", b"cli"), ("empty", None)), 0
)
TOMBSTONE = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("style", "options", "expected"),
    [
        ("value", {}, b"v\xff"),
        ("value", {"with_keys": True}, b"k\tv\xff"),
        ("key-value", {"separator": "\\t|"}, b"k\t|v\xff"),
        ("value", {"with_headers": True}, b"source=cli,empty=null\tv\xff"),
        ("value", {"with_position": True}, b"orders-2@7\t2026-11-21T18:04:38.811Z\tv\xff"),
        ("hex", {}, b"2:7 6b 76ff"),
        ("{partition}:{offset} {key}={value}\\n", {}, b"2:7 k=v\\xff\n"),
        (
            "{timestamp} {headers} {value_bytes:>3}",
            {},
            b"2026-11-21T18:04:38.811Z source=cli,empty=null   2",
        ),
    ],
)
def test_formats(style: str, options: dict[str, object], expected: bytes) -> None:
    assert renderer(style, **options)(RECORD) == expected  # type: ignore[arg-type]


def test_null_is_shown_as_it_was_asked_for() -> None:
    assert renderer("key-value")(TOMBSTONE) == b"null\tnull"
    assert renderer("value", null="-")(TOMBSTONE) == b"-"
    assert renderer("hex")(TOMBSTONE) == b"2:7 null null"
    assert json.loads(renderer("json")(TOMBSTONE))["value"] is None


def test_json_keeps_bytes_that_are_no_text() -> None:
    data = json.loads(renderer("json")(RECORD))
    assert (data["key"], data["value_base64"]) == ("k", "dv8=")
    assert data["headers"] == [["source", "cli"], ["empty", None]]


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("jsn", "Did you mean 'json'"),
        ("{ofset}", "Did you mean 'offset'"),
        ("{key", "the template '{key' is wrong"),
        ("{key.__class__}", "no such field 'key.__class__'"),
    ],
)
def test_unknown_formats_and_fields_get_the_nearest(style: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("{", r"\{")):
        renderer(style)


@given(st.binary(), st.binary())
def test_plain_formats_change_no_byte(key: bytes, value: bytes) -> None:
    """What is piped into a file is what was stored."""
    record = RECORD._replace(key=key, value=value)
    assert renderer("value")(record) == value
    assert renderer("key-value", separator="\0")(record) == key + b"\0" + value
