"""Keys and values as people read them (CON-114)."""

import io
import json
import struct
import sys
from pathlib import Path
from typing import Any

import fastavro
import pip._vendor.msgpack
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from barnabas_console.records.content import TREE_BYTES_MAX, Content, Format
from barnabas_console.records.decoding import (
    CHOICES,
    DecodingRules,
    RulesError,
    read_decoding_rules,
)
from barnabas_protocol.codec import encode
from barnabas_protocol.messages.records_consumer_offsets import OffsetCommitKey, OffsetCommitValue
from barnabas_protocol.records.record import Record

ORDER_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
ORDER = {"id": 9007199254740993, "tags": ["a"]}
TREE_SCHEMA = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "next", "type": ["null", "Tree"]}],
}


@pytest.fixture
def message_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library as pip brings it, for which nothing has to be installed."""
    monkeypatch.setitem(sys.modules, "msgpack", pip._vendor.msgpack)


def read(data: bytes | None, how: str = "auto", rules: DecodingRules | None = None) -> Content:
    decoding = (rules or DecodingRules()).for_topic("orders", value=how)
    return decoding.value(Record(0, 0, None, data))


@pytest.mark.parametrize(
    ("data", "expected", "text"),
    [
        (None, Format.NULL, None),
        (b"", Format.TEXT, ""),
        (b"hello", Format.TEXT, "hello"),
        ("Zoë\n".encode(), Format.TEXT, "Zoë\n"),
        (b' {"id": 9007199254740993}', Format.JSON, ' {"id": 9007199254740993}'),
        (b"[1]", Format.JSON, "[1]"),
        (b"{broken", Format.TEXT, "{broken"),
        (b"42", Format.TEXT, "42"),
        (b"\xff\xfe", Format.HEX, "fffe"),
        (struct.pack(">q", -5), Format.NUMBER, "-5"),
        (struct.pack(">i", 1), Format.NUMBER, "1"),
        (b"a\x00b", Format.HEX, "610062"),
        (b'\x00\x00\x00\x00\x07{"a":1}', Format.JSON, '{"a":1}'),
    ],
)
def test_format_is_guessed(data: bytes | None, expected: Format, text: str | None) -> None:
    content = read(data)
    assert (content.format, content.text) == (expected, text)


def test_frame_of_a_registry_is_taken_off_and_its_id_shown() -> None:
    assert read(b"\x00\x00\x00\x00\x07[1]").schema_id == 7
    framed = read(b"\x00\x00\x00\x00\x07\x02\xff\xff\xff")
    assert (framed.format, framed.schema_id) == (Format.HEX, 7)
    assert "schema 7" in (framed.problem or "")


@pytest.mark.parametrize(
    ("how", "data", "problem"),
    [
        ("json", b"{", "no JSON"),
        ("json", b"\xff", "byte 0"),
        ("text", b"ok\xff", "byte 2"),
        ("number", b"abc", "not 3"),
        ("double", b"abcde", "not 5"),
    ],
)
def test_failure_shows_bytes_and_why(how: str, data: bytes, problem: str) -> None:
    content = read(data, how)
    assert (content.format, content.text) == (Format.HEX, data.hex())
    assert problem in (content.problem or "")


def test_format_is_chosen() -> None:
    assert read(b"12", "json").format is Format.JSON
    assert read(b"[1]", "text").format is Format.TEXT
    assert read(b"[1]", "hex").text == "5b315d"
    assert read(struct.pack(">d", 0.1), "double").text == "0.1"
    with pytest.raises(ValueError, match="no format"):
        read(b"", "xml")


@given(st.binary(max_size=60), st.sampled_from(CHOICES))
def test_reading_never_fails(data: bytes, how: str) -> None:
    content = read(data, how)
    assert content.text is not None
    assert content.size_bytes == len(data)


def test_deep_and_large_json_is_shown_as_text() -> None:
    """Bombs stop: depth 256, and nothing large is taken apart."""
    assert read(b"[" * 100_000).format is Format.TEXT
    large = json.dumps("x" * TREE_BYTES_MAX).encode()
    assert read(b"[" + large + b"]").format is Format.TEXT
    assert "KiB" in (read(large, "json").problem or "")


@pytest.mark.usefixtures("message_pack")
def test_message_pack_is_read_by_its_library() -> None:
    value: dict[Any, Any] = {"id": 2**63, "b": b"\xff", 7: [None, True, "é"]}
    data = pip._vendor.msgpack.packb(value)
    for how in ("auto", "msgpack"):
        content = read(data, how)
        assert content.format is Format.MESSAGE_PACK
        assert content.text == '{"id":9223372036854775808,"b":"ff","7":[null,true,"é"]}'


@pytest.mark.usefixtures("message_pack")
@pytest.mark.parametrize(
    "data", [b"\x91" * 50_000, b"\xdd\xff\xff\xff\xff", b"\x81", b"\x81\x01\x02\x03", b"\xc1"]
)
def test_message_pack_that_is_none_shows_why(data: bytes) -> None:
    content = read(data, "msgpack")
    assert content.format is Format.HEX
    assert content.problem


def test_message_pack_without_its_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    assert "library msgpack" in (read(b"\x81\x01\x02", "msgpack").problem or "")


# ---- schemas ------------------------------------------------------------------------------------


def rules_of(folder: Path, text: str) -> DecodingRules:
    path = folder / "decoding.yaml"
    path.write_text(text)
    return read_decoding_rules(path)


def avro_bytes(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def avro_rules(folder: Path, schema: Any) -> DecodingRules:
    (folder / "order.avsc").write_text(json.dumps(schema))
    return rules_of(folder, "- topics: ord*\n  value: {avro: order.avsc}\n")


def test_avro_is_read_by_a_schema_file_with_a_frame_and_without(tmp_path: Path) -> None:
    rules = avro_rules(tmp_path, ORDER_SCHEMA)
    data = avro_bytes(ORDER_SCHEMA, ORDER)
    for framed, schema_id in ((data, None), (b"\x00\x00\x00\x01\x00" + data, 256)):
        content = read(framed, rules=rules)
        assert content.format is Format.AVRO
        assert content.text == '{"id":9007199254740993,"tags":["a"]}'
        assert (content.schema_id, content.size_bytes) == (schema_id, len(framed))
    assert read(data, "hex", rules).format is Format.HEX
    assert read(b"\x01", rules=rules).problem
    assert "behind" in (read(data + b"x", rules=rules).problem or "")


def test_avro_that_contains_itself_is_nested_as_deep_as_it_likes_and_stops(tmp_path: Path) -> None:
    """The compiled reader ends the process here: by the stack of C."""
    rules = avro_rules(tmp_path, TREE_SCHEMA)
    assert read(b"\x02\x02\x00", rules=rules).text == '{"next":{"next":{"next":null}}}'
    assert read(b"\x02" * 200_000 + b"\x00", rules=rules).format is Format.HEX


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "E", "fields": []},
        {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]},
        {"type": "fixed", "name": "F", "size": 0},
    ],
)
def test_avro_array_of_nothing_is_refused(tmp_path: Path, items: Any) -> None:
    """Ten bytes of it are 2^60 items."""
    with pytest.raises(RulesError, match="endless"):
        avro_rules(tmp_path, {"type": "array", "items": items})


@given(data=st.binary(max_size=40))
def test_avro_of_any_bytes_is_read_or_shown(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    rules = avro_rules(tmp_path_factory.getbasetemp(), ORDER_SCHEMA)
    assert read(data, rules=rules).text is not None


def protobuf_rules(folder: Path, message: str | None = "shop.Order") -> DecodingRules:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=field.TYPE_UINT64, label=field.LABEL_OPTIONAL)
    order.field.add(
        name="part",
        number=2,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_OPTIONAL,
        type_name=".shop.Order",
    )
    file.message_type.add(name="Other")
    (folder / "shop.desc").write_bytes(
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    )
    named = "" if message is None else f", message: {message}"
    return rules_of(folder, f"- topics: '*'\n  value: {{protobuf: shop.desc{named}}}\n")


def test_protobuf_is_read_by_descriptors_with_a_frame_and_without(tmp_path: Path) -> None:
    rules = protobuf_rules(tmp_path)
    data = b"\x08" + b"\xff" * 9 + b"\x01"
    for framed in (
        data,
        b"\x00\x00\x00\x00\x09\x00" + data,
        b"\x00\x00\x00\x00\x09\x02\x00" + data,
    ):
        content = read(framed, rules=rules)
        assert content.format is Format.PROTOBUF
        assert content.text == '{"id":"18446744073709551615"}'
    assert read(b"\xff", rules=rules).problem


def test_protobuf_nested_too_deep_is_shown_as_bytes(tmp_path: Path) -> None:
    """A message in a message in a message: the library stops at a hundred."""
    rules = protobuf_rules(tmp_path)
    data = b""
    for _ in range(200):
        size = len(data)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        data = b"\x12" + length + data
    assert read(data, rules=rules).format is Format.HEX


def test_message_has_to_be_named_where_there_are_more(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"shop\.Order, shop\.Other"):
        protobuf_rules(tmp_path, None)
    with pytest.raises(RulesError, match=r"it has shop\.Order"):
        protobuf_rules(tmp_path, "shop.None")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("topics: a", "a list of rules"),
        ("- value: json", "has no topics"),
        ("- topics: a\n  valu: json", "did you mean value"),
        ("- topics: a\n  value: xml", "is none of json"),
        ("- topics: a\n  value: {avro: none.avsc}", "none.avsc"),
        ("- [", "decoding.yaml"),
    ],
)
def test_rule_file_that_cannot_be_used_is_refused_in_words(
    tmp_path: Path, text: str, part: str
) -> None:
    with pytest.raises(RulesError, match=part):
        rules_of(tmp_path, text)


def test_first_rule_that_fits_counts(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "- topics: order?\n  value: hex\n- topics: '*'\n  value: text\n")
    assert read(b"{}", rules=rules).format is Format.HEX
    other = rules.for_topic("shop").value(Record(0, 0, None, b"{}"))
    assert other.format is Format.TEXT


def test_internal_topics_are_told_in_words() -> None:
    key = OffsetCommitKey(group="billing", topic="orders", partition=3)
    value = OffsetCommitValue(offset=7, leader_epoch=1, metadata="", commit_timestamp=5)
    record = Record(
        0,
        0,
        b"\x00\x01" + bytes(encode(key, 0)),
        b"\x00\x03" + bytes(encode(value, 3)),
    )
    decoding = DecodingRules().for_topic("__consumer_offsets")
    told = json.loads(decoding.key(record).text or "")
    assert (told["group"], told["partition"]) == ("billing", 3)
    assert json.loads(decoding.value(record).text or "")["offset"] == 7
    assert decoding.key(Record(0, 0, b"\x00", None)).format is Format.HEX
    assert DecodingRules().for_topic("__consumer_offsets", value="hex").value(record).text
