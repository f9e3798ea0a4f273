"""Produce requests that name a transactional id, whatever their batches are."""

import struct
from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import produce
from barnabas_protocol.records.batch import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    is_transactional,
)
from tests.broker.broker_requests import batch, produce_request, topic_id_of, with_broker
from tests.support.raw_client import RawClient

GOOD = batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
LENGTH_POSITION = LOG_OVERHEAD_BYTES - 4


def with_bytes(position: int, data: bytes) -> bytes:
    return GOOD[:position] + data + GOOD[position + len(data) :]


DAMAGED = {
    "magic -1": with_bytes(MAGIC_POSITION, b"\xff"),
    "magic 0": with_bytes(MAGIC_POSITION, b"\0"),
    "length 0": with_bytes(LENGTH_POSITION, bytes(4)),
    "length -1": with_bytes(LENGTH_POSITION, b"\xff" * 4),
    "length of a header less one": with_bytes(
        LENGTH_POSITION, struct.pack(">i", BATCH_LENGTH_MIN - 1)
    ),
    "a header cut off": GOOD[: HEADER_BYTES - 1],
    "attributes only": bytes(ATTRIBUTES_POSITION + 2),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_header_that_cannot_be_read_is_of_no_transaction(damage: str) -> None:
    assert is_transactional(GOOD)
    assert not is_transactional(DAMAGED[damage])
    assert not is_transactional(memoryview(DAMAGED[damage]))


def test_a_damaged_batch_is_refused_and_the_connection_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        for damaged in DAMAGED.values():
            request = produce_request(damaged)
            request.transactional_id = "t"
            request.topic_data[0].partition_data.append(
                produce.PartitionProduceData(index=1, records=damaged)
            )
            response = await client.call(ApiKey.PRODUCE, 12, request)
            codes = [one.error_code for one in response.responses[0].partition_responses]
            assert len(codes) == 2
            assert ErrorCode.NONE not in codes
        assert "Traceback" not in caplog.text

    with_broker(tmp_path, test, **{"num.partitions": "2"})
