"""What a Produce request is made of is counted before it is read."""

from pathlib import Path

import pytest

from barnabas_broker.handlers import produce as produce_handler
from barnabas_broker.handlers.produce import ELEMENTS_MAX, check_frame
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages import metadata, produce
from tests.broker.broker_requests import with_broker
from tests.protocol.random_messages import RandomMessages
from tests.support.raw_client import RawClient

VERSIONS = range(3, 14)


def request_of(topics: int, partitions: int) -> produce.ProduceRequest:
    each = [produce.PartitionProduceData(index=n, records=None) for n in range(partitions)]
    named = [
        produce.TopicProduceData(name="t", topic_id=bytes(16), partition_data=each)
        for _ in range(topics)
    ]
    return produce.ProduceRequest(acks=-1, timeout_ms=1, topic_data=named)


def checked(request: produce.ProduceRequest, version: int) -> None:
    frame = codec.encode_request(request, ApiKey.PRODUCE, version, 1, "client")
    check_frame(memoryview(frame), version, codec.read_request_header(frame).position)


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_and_partitions_are_counted_together(version: int) -> None:
    half = ELEMENTS_MAX // 2 - 1
    checked(request_of(2, half), version)
    with pytest.raises(ParseError, match="elements"):
        checked(request_of(2, half + 1), version)
    with pytest.raises(ParseError, match="elements"):
        checked(request_of(ELEMENTS_MAX + 1, 0), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_the_codec_writes_is_stepped_over(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly as many elements are found as there are, for any names, records and tags."""
    messages = RandomMessages(version)
    for _ in range(60):
        request = messages.message(produce.ProduceRequest, version)
        count = sum(1 + len(topic.partition_data) for topic in request.topic_data)
        monkeypatch.setattr(produce_handler, "ELEMENTS_MAX", count)
        checked(request, version)
        if count:
            monkeypatch.setattr(produce_handler, "ELEMENTS_MAX", count - 1)
            with pytest.raises(ParseError):
                checked(request, version)


def test_tagged_fields_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_handler, "ELEMENTS_MAX", 4)
    tags = b"\x02\x00\x01x\x01\x00"  # two fields, with a byte and with none
    frame = codec.encode_request(request_of(1, 1), ApiKey.PRODUCE, 9, 1, "client")
    position = codec.read_request_header(frame).position
    check_frame(memoryview(frame[:-1] + tags), 9, position)
    monkeypatch.setattr(produce_handler, "ELEMENTS_MAX", 3)
    with pytest.raises(ParseError):
        check_frame(memoryview(frame[:-1] + tags), 9, position)


@pytest.mark.parametrize("version", [8, 9, 13])
def test_a_request_that_is_cut_off_is_malformed(version: int) -> None:
    frame = codec.encode_request(request_of(2, 2), ApiKey.PRODUCE, version, 1, "client")
    position = codec.read_request_header(frame).position
    for end in range(position, len(frame) - 9):
        with pytest.raises(ParseError):
            check_frame(memoryview(frame)[:end], version, position)


def test_a_request_of_very_many_partitions_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a million partitions without records, read and answered on the loop."""

    def never(*_: object) -> None:
        raise AssertionError("it is carried out")

    async def test(server: Server, client: RawClient) -> None:
        monkeypatch.setattr(server.replicas.leader_append, "produce", never)
        client.send(ApiKey.PRODUCE, 9, request_of(1, 100_000))
        assert await client.is_closed_by_peer()
        async with await RawClient.connect(server.port) as other:
            request = metadata.MetadataRequest(topics=[])
            assert (await other.call(ApiKey.METADATA, 12, request)).error_code == 0

    with_broker(tmp_path, test)
