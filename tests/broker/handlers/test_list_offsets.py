"""Where a log ends, while that is not known yet."""

import asyncio

import pytest

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import list_offsets
from tests.simulation import requests
from tests.support.raw_client import RawClient
from tests.support.simulated_broker import Life, Machine

LATEST, EARLIEST = -1, -2


async def listed(client: RawClient, timestamp: int, version: int = 7) -> tuple[int, int]:
    """Error code and offset."""
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name="t",
                partitions=[
                    list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                ],
            )
        ],
    )
    response = await client.call(ApiKey.LIST_OFFSETS, version, request)
    (found,) = response.topics[0].partitions
    return found.error_code, found.offset


@pytest.mark.parametrize(
    ("version", "code"),
    [(7, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)],
)
def test_the_end_is_told_only_when_what_was_recovered_is_committed(version: int, code: int) -> None:
    """REQ-11: a consumer would else start below what others have read already."""
    machine = Machine(1, {"barnabas.flush.policy": "group-fsync"})

    async def append(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, "t")
            for _ in range(3):
                answer = await requests.append(client, requests.append_request("t", 0, [b"v"]))
                assert answer.error_code == 0
            assert await listed(client, LATEST) == (0, 3)

    async def look(life: Life) -> None:
        async with await life.connect() as client:
            (log,) = [log for name, log in life.server.logs.logs.items() if name.topic == "t"]
            await asyncio.sleep(5)  # the start is over
            log.high_watermark = 1  # as while the first fsync has not ended
            assert await listed(client, LATEST, version) == (code, -1)
            assert await listed(client, 0, version) == (code, -1)
            assert await listed(client, EARLIEST, version) == (0, 0)
            log.advance_high_watermark(3)
            assert await listed(client, LATEST, version) == (0, 3)

    machine.live(append)
    machine.live(look)
