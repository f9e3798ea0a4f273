"""Round trips of every version, both headers, and what must not be copied."""

import struct
import subprocess
import sys

import pytest

from barnabas_protocol.api import INTERNAL, KNOWN, ApiKey, first_flexible_version
from barnabas_protocol.codec import (
    api_key_of,
    decode,
    decode_response,
    encode,
    encode_into,
    encode_request,
    encode_response,
    encode_response_parts,
    read_request_header,
    request_class,
    response_class,
)
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.messages.records_consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas_protocol.messages.records_transaction_state import (
    PartitionsSchema,
    TransactionLogValue,
)
from barnabas_protocol.schema import MessageType
from tests.protocol.message_classes import all_classes, versions
from tests.protocol.random_messages import RandomMessages


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_every_version_of_every_message_survives_writing_and_reading(kind: MessageType) -> None:
    """Also those versions and records that no other codec here knows."""
    for version in versions(kind):
        for seed in range(3):
            message = RandomMessages(seed).message(kind, version)
            payload = encode(message, version)
            assert decode(kind, payload, version) == (message, len(payload)), (version, seed)


@pytest.mark.parametrize("key", KNOWN, ids=lambda key: key.name.lower())
def test_the_classes_of_an_api_have_its_versions(key: ApiKey) -> None:
    """The list of APIs and the schema table may not drift apart."""
    for kind in (request_class(key), response_class(key)):
        assert kind.__versions__ == KNOWN[key]
        flexible = [version for version in versions(kind) if version >= kind.__flexible__]
        assert flexible == [v for v in versions(kind) if v >= first_flexible_version(key)]


def test_a_class_tells_its_api() -> None:
    """Who sends a message need not name its key."""
    for key in {**KNOWN, **INTERNAL}:
        assert api_key_of(request_class(key)) is api_key_of(response_class(key)) is key


def test_a_message_starts_anywhere_and_the_end_is_returned() -> None:
    """A handler decides for itself whether bytes may follow a request."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    out = bytearray(b"before")
    encode_into(request, 9, out)
    message, end = decode(MetadataRequest, bytes(out) + b"after", 9, 6)
    assert message == request
    assert end == len(out)


def test_fields_that_a_version_lacks_are_left_out_and_read_as_defaults() -> None:
    """One class serves all versions; only what the version has travels."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    assert decode(MetadataRequest, encode(request, 1), 1)[0].allow_auto_topic_creation is True
    assert decode(MetadataRequest, encode(request, 4), 4)[0].allow_auto_topic_creation is False


def test_an_unknown_version_is_a_parse_error() -> None:
    """Produce is advertised from 0 but known from 3 only."""
    with pytest.raises(ParseError, match="no version 2"):
        decode(ProduceRequest, b"", 2)
    with pytest.raises(TypeError):
        decode(TopicProduceData, b"", 3)


def test_record_batches_are_read_as_slices_of_the_frame() -> None:
    """The log appends the very bytes that the socket filled."""
    data = PartitionProduceData(index=1, records=b"batch")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])])
    frame = bytearray(encode(request, 9))
    message, _ = decode(ProduceRequest, memoryview(frame), 9)
    records = message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert bytes(records) == b"batch"


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_response_in_parts_has_the_same_bytes_and_the_same_buffers(version: int) -> None:
    """A Fetch response sends what the log returned, without copying it together."""
    first, second = memoryview(b"x" * 300), b"y" * 5
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="topic",
                topic_id=bytes(16),
                partitions=[
                    PartitionData(records=[first, second]),
                    PartitionData(partition_index=1, records=second, aborted_transactions=None),
                    PartitionData(partition_index=2, records=None),
                ],
            )
        ]
    )
    parts = encode_response_parts(response, ApiKey.FETCH, version, 7)
    assert b"".join(parts) == encode_response(response, ApiKey.FETCH, version, 7)
    assert any(part is first for part in parts)
    assert sum(part is second for part in parts) == 2


def fetched(partition: PartitionData) -> FetchResponse:
    """Return a response with one partition."""
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


def test_default_structs_in_tagged_fields_are_not_written() -> None:
    """Kafka leaves a tagged field out when it has its default."""
    plain = encode(fetched(PartitionData(records=b"")), 12)
    same = encode(fetched(PartitionData(diverging_epoch=EpochEndOffset(), records=b"")), 12)
    other = PartitionData(diverging_epoch=EpochEndOffset(epoch=3, end_offset=9), records=b"")
    assert same == plain
    # Tag, size, epoch, end offset and the struct's own count of tags.
    assert len(encode(fetched(other), 12)) == len(plain) + 2 + 4 + 8 + 1


@pytest.mark.parametrize("count", [0, 1, 63, 64, 126, 127, 128, 20_000])
def test_arrays_of_numbers_of_any_length_are_written_and_read(count: int) -> None:
    """Short ones share a compiled format, long ones have lengths of several bytes."""
    partition = MetadataResponsePartition(
        partition_index=5, replica_nodes=list(range(count)), isr_nodes=[1], offline_replicas=[]
    )
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
    for version in (8, 12):
        assert decode(MetadataResponse, encode(response, version), version)[0] == response


def test_request_headers_carry_tagged_fields_in_flexible_versions_only() -> None:
    """The client id keeps its two-byte length in both forms of the header."""
    request = MetadataRequest(topics=None)
    old = encode_request(request, ApiKey.METADATA, 8, 11, "me")
    assert old[:12] == struct.pack(">hhih2s", 3, 8, 11, 2, b"me")
    header = read_request_header(old)
    assert header == (3, 8, 11, "me", 12)
    assert decode(MetadataRequest, old, 8, header.position) == (request, len(old))
    new = encode_request(request, ApiKey.METADATA, 9, 11, None)
    header = read_request_header(memoryview(new))
    assert header == (3, 9, 11, None, 11)
    assert decode(MetadataRequest, new, 9, header.position) == (request, len(new))


def test_unknown_tags_of_a_request_header_are_skipped() -> None:
    """Newer clients may add some."""
    head = struct.pack(">hhih", 18, 3, 1, -1)
    assert read_request_header(head + b"\x01\x07\x02ab" + b"body").position == len(head) + 5


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x09\x00\x00\x00\x01\x00",
        b"\x00\x03\x00\x09\x00\x00\x00\x01\x00\x05abc",
        b"\x00\x03\x00\x08\x00\x00\x00\x01\x00\x05abc",
        b"\x00\x03\x00\x08\x00\x00\x00\x01\xff\xfe",
        b"\x00\x03\x00\x08\x00\x00\x00\x01\x00\x01\xff",
        b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff\x01\x00\x09a",
    ],
)
def test_malformed_request_headers_are_parse_errors(frame: bytes) -> None:
    """NET: one kind of error, whatever is wrong."""
    with pytest.raises(ParseError):
        read_request_header(frame)


def test_api_versions_responses_never_have_tags_in_their_header() -> None:
    """A client does not know yet what the broker speaks (KIP-511)."""
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    frame = encode_response(response, ApiKey.API_VERSIONS, 3, 5)
    assert frame == struct.pack(">i", 5) + encode(response, 3)
    assert decode_response(frame, ApiKey.API_VERSIONS, 3) == (5, response)


def test_flexible_responses_have_tags_in_their_header() -> None:
    """Every other API follows the version of its body."""
    response = MetadataResponse()
    assert encode_response(response, ApiKey.METADATA, 8, 5)[:4] == struct.pack(">i", 5)
    frame = encode_response(response, ApiKey.METADATA, 9, 5)
    assert frame == struct.pack(">ix", 5) + encode(response, 9)
    assert decode_response(frame, ApiKey.METADATA, 9) == (5, response)
    with pytest.raises(ParseError):
        decode_response(frame + b"x", ApiKey.METADATA, 9)
    with pytest.raises(ParseError):
        decode_response(b"\x00", ApiKey.METADATA, 9)


def test_a_committed_offset_has_the_bytes_of_formats_10() -> None:
    """Apache Kafka must be able to load what we wrote (`__consumer_offsets`)."""
    key = OffsetCommitKey(group="g", topic="t", partition=7)
    assert encode(key, 0) == b"\x00\x01g\x00\x01t\x00\x00\x00\x07"
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    head = struct.pack(">qi", 5, 2)
    assert encode(value, 3) == head + b"\x00\x01m" + struct.pack(">q", 9)
    assert encode(value, 2) == struct.pack(">q", 5) + b"\x00\x01m" + struct.pack(">q", 9)
    assert encode(value, 1) == encode(value, 2) + struct.pack(">q", -1)
    assert encode(value, 4) == head + b"\x02m" + struct.pack(">q", 9) + b"\x00"


def test_a_group_without_members_has_the_bytes_of_formats_10() -> None:
    """The fields and their order are those of GroupMetadataValue 3."""
    assert encode(GroupMetadataKey(group="g"), 0) == b"\x00\x01g"
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None)
    expected = b"\x00\x08consumer" + struct.pack(">ihhqi", 3, -1, -1, -1, 0)
    assert encode(value, 3) == expected


def test_a_transaction_has_the_bytes_of_formats_11() -> None:
    """Version 0 of the value; partitions are null exactly in state Empty."""
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[4])],
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=6,
    )
    partitions = struct.pack(">ih1sii", 1, 1, b"t", 1, 4)
    assert encode(value, 0) == struct.pack(">qhib", 1, 2, 3, 1) + partitions + struct.pack(
        ">qq", 5, 6
    )
    empty = TransactionLogValue(transaction_partitions=None)
    assert decode(TransactionLogValue, encode(empty, 0), 0)[0] == empty


def test_message_modules_are_imported_on_first_use() -> None:
    """Start-up has half a second for everything."""
    program = (
        "import sys, barnabas_protocol.codec as codec\n"
        "prefix = 'barnabas_protocol.messages.'\n"
        "loaded = [name for name in sys.modules if name.startswith(prefix)]\n"
        "assert not loaded, loaded\n"
        "codec.request_class(3)\n"
        "assert 'barnabas_protocol.messages.metadata' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_key_without_an_api_is_a_value_error() -> None:
    """The caller checks keys against what it serves before it asks for classes."""
    with pytest.raises(ValueError, match="4"):
        request_class(4)
    with pytest.raises(ValueError, match="999"):
        response_class(999)
