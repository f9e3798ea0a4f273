"""DeleteRecords on a real broker: what is acknowledged outlives the process."""

import asyncio
import shutil
from pathlib import Path

from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.broker.broker_requests import TOPIC, batch, produce_request, produced, topic_id_of
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient


def test_deleted_records_do_not_come_back_when_the_broker_is_killed(tmp_path: Path) -> None:
    """SEG-13: the checkpoint of log starts was written once a minute, and at a clean stop."""
    data, killed = tmp_path / "data", tmp_path / "killed"
    deletion = DeleteRecordsRequest(
        timeout_ms=5_000,
        topics=[
            DeleteRecordsTopic(
                name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
            )
        ],
    )

    async def delete() -> None:
        async with (
            running_broker(data) as server,
            await RawClient.connect(server.port) as client,
        ):
            await topic_id_of(client)
            for value in (b"a", b"b", b"c"):
                await produced(client, 9, produce_request(batch(value)))
            response = await client.call(ApiKey.DELETE_RECORDS, 2, deletion)
            (result,) = response.topics[0].partitions
            assert (result.error_code, result.low_watermark) == (0, 2)
            # What the next process finds where this one is killed now.
            await asyncio.to_thread(shutil.copytree, data, killed)

    async def look() -> tuple[int, int]:
        async with running_broker(killed) as server:
            log = server.logs.logs[TopicPartition(TOPIC, 0)]
            return log.log_start_offset, log.log_end_offset

    asyncio.run(delete())
    assert asyncio.run(look()) == (2, 3)
