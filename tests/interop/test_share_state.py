"""Kafka's own tools read what our share coordinator writes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from barnabas_broker.coordinator.share.coordinator import SHARE_STATE_TOPIC
from barnabas_broker.share.persister import SharePartitionKey, StateBatch
from barnabas_protocol.ids import uuid_to_text
from tests.broker.broker_requests import topic_id_of
from tests.support.in_process_broker import running_broker
from tests.support.kafka_tools import ToolCall, ToolResult, run_tools
from tests.support.raw_client import RawClient
from tests.support.share_state import switch_on_share_groups

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"


def test_kafkas_tools_read_the_state_of_share_partitions(tmp_path: Path) -> None:
    """SHR-23: snapshots, updates and tombstones, from segments and through a consumer."""
    directory = tmp_path / "broker"

    async def work() -> tuple[str, list[ToolResult]]:
        properties = {
            "share_coordinator_state_topic_num_partitions": "1",
            "share_coordinator_state_topic_replication_factor": "1",
            "share_coordinator_state_topic_min_isr": "1",
        }
        async with running_broker(directory, **properties) as server:
            async with await RawClient.connect(server.port) as client:
                await switch_on_share_groups(client)
                topic_id = await topic_id_of(client)
            persister = server.data.share_state.persister
            key = SharePartitionKey("group", topic_id, 0)
            await persister.initialize(key, 3, 100)
            batches = [StateBatch(100, 109, 2, 1), StateBatch(110, 119, 0, 2)]
            await persister.write(key, 3, 0, 100, 10, batches)
            await persister.initialize(SharePartitionKey("gone", topic_id, 0), 1, -1)
            await persister.delete(SharePartitionKey("gone", topic_id, 0))
            consume = ToolCall(
                "console-consumer",
                (
                    *("--bootstrap-server", f"127.0.0.1:{server.port}"),
                    *("--topic", SHARE_STATE_TOPIC, "--from-beginning", "--max-messages", "4"),
                    *("--formatter", FORMATTER, "--timeout-ms", "60000"),
                ),
            )
            results = await asyncio.to_thread(run_tools, [consume], tmp_path / "consume")
        return uuid_to_text(topic_id), results

    topic_id, (consumed,) = asyncio.run(work())
    assert consumed.exit_code == 0, consumed.errors
    # The formatter writes one after the other, without lines.
    records = json.loads("[" + consumed.output.strip().replace("}{", "},{") + "]")
    assert [record["key"]["type"] for record in records] == [0, 1, 0, 0]
    snapshot, update, _, tombstone = (record["value"] for record in records)
    assert records[0]["key"]["data"] == {"groupId": "group", "topicId": topic_id, "partition": 0}
    assert snapshot["version"] == 0
    assert (snapshot["data"]["stateEpoch"], snapshot["data"]["startOffset"]) == (3, 100)
    assert update["data"]["stateBatches"] == [
        {"firstOffset": 100, "lastOffset": 109, "deliveryState": 2, "deliveryCount": 1},
        {"firstOffset": 110, "lastOffset": 119, "deliveryState": 0, "deliveryCount": 2},
    ]
    assert tombstone is None

    (segment,) = (directory / f"{SHARE_STATE_TOPIC}-0").glob("*.log")
    dump = ToolCall("dump-log", ("--share-group-state-decoder", "--files", str(segment)))
    (dumped,) = run_tools([dump], tmp_path / "dump")
    assert dumped.exit_code == 0, dumped.errors
    assert not dumped.errors
    for found in ('"stateEpoch":3', '"lastOffset":119', '"type":"1"'):
        assert found in re.sub(r"\s", "", dumped.output), dumped.output
