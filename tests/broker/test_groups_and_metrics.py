"""A group through a whole broker: join, commit, restart; and what Prometheus sees of it."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.compression import Compression
from tests.broker.broker_requests import TOPIC, batch, produce_request, produced, topic_id_of
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient

GROUP = "billing"


async def coordinator_is_ready(client: RawClient) -> bool:
    request = find_coordinator.FindCoordinatorRequest(key=GROUP)
    response = await client.call(ApiKey.FIND_COORDINATOR, 3, request)
    if response.error_code != ErrorCode.NONE:
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        return False
    beat = await client.call(
        ApiKey.HEARTBEAT, 4, heartbeat.HeartbeatRequest(group_id=GROUP, member_id="nobody")
    )
    return beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def joined(client: RawClient) -> join_group.JoinGroupResponse:
    request = join_group.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    first = await client.call(ApiKey.JOIN_GROUP, 7, request)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = first.member_id
    response = await client.call(ApiKey.JOIN_GROUP, 7, request)
    assert response.error_code == 0
    return response


async def committed(client: RawClient) -> int:
    response = await client.call(
        ApiKey.OFFSET_FETCH,
        7,
        offset_fetch.OffsetFetchRequest(
            group_id=GROUP,
            topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
        ),
    )
    assert response.error_code == 0
    return int(response.topics[0].partitions[0].committed_offset)


async def commit(client: RawClient, member: join_group.JoinGroupResponse, offset: int) -> ErrorCode:
    response = await client.call(
        ApiKey.OFFSET_COMMIT,
        8,
        offset_commit.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset
                        )
                    ],
                )
            ],
        ),
    )
    return ErrorCode(response.topics[0].partitions[0].error_code)


async def beats(client: RawClient, member: join_group.JoinGroupResponse) -> ErrorCode:
    response = await client.call(
        ApiKey.HEARTBEAT,
        4,
        heartbeat.HeartbeatRequest(
            group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id
        ),
    )
    return ErrorCode(response.error_code)


def value_of(server: Server, name: str, **labels: str) -> float:
    (found,) = (
        sample.value
        for sample in server.collector.snapshot()
        if sample.name == name and labels.items() <= dict(sample.labels).items()
    )
    assert isinstance(found, int | float)
    return found


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_group_survives_a_broker_restart(tmp_path: Path, codec: Compression) -> None:
    """GRP-20, OFS-3: members go on in their generation, offsets are there, no rebalance.

    Whichever codec `offsets.topic.compression.codec` has the group's records written with.
    """

    async def run() -> None:
        async with (
            running_broker(tmp_path, offsets_topic_compression_codec=str(int(codec))) as server,
            await RawClient.connect(server.port) as client,
        ):
            await topic_id_of(client)
            await produced(client, 9, produce_request(batch(b"a", b"b", b"c")))
            await eventually(lambda: coordinator_is_ready(client))
            member = await joined(client)
            synced = await client.call(
                ApiKey.SYNC_GROUP,
                5,
                sync_group.SyncGroupRequest(
                    group_id=GROUP,
                    generation_id=member.generation_id,
                    member_id=member.member_id,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=[
                        sync_group.SyncGroupRequestAssignment(
                            member_id=member.member_id, assignment=b"all"
                        )
                    ],
                ),
            )
            assert bytes(synced.assignment) == b"all"
            assert await commit(client, member, 2) == ErrorCode.NONE
            labels = {"group": GROUP, "topic": TOPIC, "partition": "0"}
            assert value_of(server, "barnabas_group_lag_records", **labels) == 1
            assert value_of(server, "barnabas_groups", state="Stable", protocol="classic") == 1

        written = b"".join(
            path.read_bytes() for path in tmp_path.glob("__consumer_offsets-*/*.log")
        )
        assert {header.compression for _, header in iterate_headers(written)} == {codec}

        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            await eventually(lambda: coordinator_is_ready(client))
            assert await beats(client, member) == ErrorCode.NONE
            assert await committed(client) == 2
            assert await commit(client, member, 3) == ErrorCode.NONE

    asyncio.run(run())
