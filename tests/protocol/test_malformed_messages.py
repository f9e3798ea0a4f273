"""Whatever is malformed raises ParseError, soon and without large allocations."""

import random
import struct
import tracemalloc
from typing import Any

import pytest

from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages.create_topics import CreateTopicsRequest
from barnabas_protocol.messages.fetch import FetchRequest, FetchTopic
from barnabas_protocol.messages.join_group import JoinGroupRequest
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas_protocol.messages.produce import ProduceRequest
from barnabas_protocol.schema import Field, Message, MessageType, string
from tests.protocol.message_classes import all_classes, versions
from tests.protocol.random_messages import RandomMessages

MUTATIONS_PER_VERSION = 30


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_a_message_cut_at_any_byte_is_a_parse_error(kind: MessageType) -> None:
    """A length may promise more than there is at every place where one can stand."""
    for version in versions(kind):
        payload = encode(RandomMessages(1, small=True).message(kind, version), version)
        for size in range(len(payload)):
            with pytest.raises(ParseError):
                decode(kind, payload[:size], version)


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_changed_bytes_are_read_or_are_a_parse_error(kind: MessageType) -> None:
    """Never an IndexError, struct.error, UnicodeDecodeError, MemoryError or anything else."""
    pick = random.Random(kind.__name__)
    for version in versions(kind):
        payload = encode(RandomMessages(2, small=True).message(kind, version), version)
        for _ in range(MUTATIONS_PER_VERSION if payload else 0):
            changed = bytearray(payload)
            for _ in range(pick.choice((1, 1, 4))):
                changed[pick.randrange(len(changed))] = pick.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
            try:
                _, end = decode(kind, bytes(changed), version)
            except ParseError as error:
                assert error.reason
            else:
                assert end <= len(changed)


def newer(kind: MessageType, known: dict[MessageType, MessageType]) -> MessageType:
    """Return the class as a newer peer has it: every struct with one more tagged field."""
    if kind in known:
        return known[kind]
    fields: dict[str, Any] = {}
    for field in kind.__fields__:
        item = field.item
        if isinstance(item, MessageType):
            item = newer(item, known)
        fields[field.name] = Field(
            field.kind, field.since, field.until, field.nullable, field.tag, field.default, item
        )
    fields["from_the_future"] = string(tag=4000)
    known[kind] = MessageType(
        kind.__name__, (Message,), fields, versions=kind.__versions__, flexible=kind.__flexible__
    )
    return known[kind]


def as_newer(value: Any, known: dict[MessageType, MessageType]) -> Any:
    """Return the message as the newer peer sends it, the new field set everywhere."""
    if isinstance(value, list):
        return [as_newer(item, known) for item in value]
    if not isinstance(value, Message):
        return value
    kind = next(ours for ours in known if ours.__fields__ is value.__fields__)
    copy = known[kind]()
    for field in kind.__fields__:
        setattr(copy, field.name, as_newer(getattr(value, field.name), known))
    copy.from_the_future = "unknown"  # type: ignore[attr-defined]
    return copy


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_unknown_tagged_fields_are_skipped_in_every_struct(kind: MessageType) -> None:
    """Newer peers may add tagged fields to a version that we know (KIP-482)."""
    known: dict[MessageType, MessageType] = {}
    twin = newer(kind, known)
    for version in versions(kind):
        if version < kind.__flexible__:
            continue
        message = RandomMessages(3, small=True).message(kind, version)
        payload = encode(as_newer(message, known), version)
        assert len(payload) > len(encode(message, version))
        assert decode(kind, payload, version) == (message, len(payload)), version
        assert decode(twin, payload, version)[0].from_the_future == "unknown"


@pytest.mark.parametrize(
    ("kind", "version", "payload"),
    [
        (MetadataRequest, 8, struct.pack(">i", 2**31 - 1)),
        (MetadataRequest, 8, struct.pack(">i", -2)),
        (MetadataRequest, 0, struct.pack(">i", -1)),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x7f"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\xff\x01"),
        (MetadataRequest, 8, struct.pack(">ih", 1, 32767)),
        (MetadataRequest, 8, struct.pack(">ih", 1, -1)),
        (MetadataRequest, 8, struct.pack(">ih2sbbb", 1, 2, b"\xc3\x28", 0, 0, 0)),
        (MetadataRequest, 9, b"\x02\x04\xed\xa0\x80\x00\x00\x00\x00\x00"),
        (MetadataRequest, 9, b"\x01\x00\x00\x00\xff\xff\xff\xff\x0f"),
        (MetadataRequest, 9, b"\x01\x00\x00\x00\x01\x05\xff\xff\xff\xff\x0f"),
        (ProduceRequest, 8, struct.pack(">hhiih1sii", -1, 1, 0, 1, 1, b"t", 1, 0) + b"\x7f" * 4),
        (ProduceRequest, 8, struct.pack(">hhiih1siii", -1, 1, 0, 1, 1, b"t", 1, 0, -2)),
        (JoinGroupRequest, 0, struct.pack(">h1sih1sh", 1, b"g", 0, 1, b"m", -2)),
    ],
)
def test_hostile_lengths_are_parse_errors_and_cost_no_memory(
    kind: type[Message], version: int, payload: bytes
) -> None:
    """Every length is bounded by the bytes that are left before anything is allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(ParseError):
            decode(kind, payload, version)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_an_array_may_not_count_more_elements_than_its_bytes_can_hold() -> None:
    """100 MB of zeros must not become millions of structs: each needs its least size."""
    payload = struct.pack(">iiiibiii", -1, 0, 0, 0, 0, 0, 0, 100) + bytes(100 * 5)
    with pytest.raises(ParseError, match="more elements"):
        decode(FetchRequest, payload, 7)


def test_a_known_tagged_field_must_fill_its_size() -> None:
    """Else two readers of one message would disagree on what follows."""
    payload = bytearray(encode(FetchRequest(cluster_id="abc", topics=[FetchTopic(topic="t")]), 12))
    place = payload.rindex(b"\x00\x04\x04abc") + 1
    payload[place] = 5
    with pytest.raises(ParseError, match="wrong tagged size"):
        decode(FetchRequest, bytes(payload) + b"\x00", 12)


def test_a_parse_error_says_what_and_where() -> None:
    """It ends in the one log line of a closed connection."""
    with pytest.raises(ParseError) as caught:
        decode(CreateTopicsRequest, struct.pack(">i", 1000) + bytes(20), 2)
    assert caught.value.position == 4
    assert "CreateTopicsRequest.topics" in str(caught.value)
    assert "at byte 4" in str(caught.value)
    with pytest.raises(ParseError, match="MetadataResponse 1"):
        decode(MetadataResponse, b"\x00", 1)
