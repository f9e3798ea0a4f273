"""The same cluster described by Kafka's own tools and by us."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_client.admin.values.groups import MemberIdentity
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition, uuid_to_text
from tests.client.admin.raw_requests import (
    connected,
    create_topics,
    join_classic_group,
    produce,
)
from tests.support.kafka_tools import ToolCall, run_tools

Unique = Callable[[str], str]


@pytest.mark.interop
def test_kafkas_tools_and_ours_tell_the_same(
    bootstrap: str, unique: Unique, tmp_path: Path
) -> None:
    """Topics, settings, offsets and a group with a member, of either broker, as users see them."""
    topic, group = unique("admin.java"), unique("admin.group")
    partitions = [TopicPartition(topic, number) for number in range(2)]
    server = ("--bootstrap-server", bootstrap)
    calls = [
        ToolCall("topics", (*server, "--describe", "--topic", topic)),
        ToolCall(
            "configs", (*server, "--describe", "--entity-type", "topics", "--entity-name", topic)
        ),
        ToolCall("get-offsets", (*server, "--topic", topic)),
        ToolCall("groups", (*server, "--describe", "--group", group)),
    ]

    async def run() -> None:
        async with connected(bootstrap, client_id="ours") as (client, admin):
            config = {"retention.ms": "123000"}
            await create_topics(admin, NewTopic(name=topic, partition_count=2, configs=config))
            await produce(client, partitions[0], [1, 2, 3])
            offsets = dict.fromkeys(partitions, OffsetAndMetadata(1))
            (await admin.group_offsets.alter(group, offsets)).unwrap()
            member_id = await join_classic_group(client, group, {topic: (0, 1)})
            results = await asyncio.to_thread(run_tools, calls, tmp_path)
            assert [one.exit_code for one in results] == [0, 0, 0, 0], results
            topics, configs, ends, groups = (one.output for one in results)

            described = (await admin.topics.describe([topic]))[topic].unwrap()
            assert f"TopicId: {uuid_to_text(described.topic_id)}" in topics
            assert f"PartitionCount: {described.partition_count}" in topics
            for number, one in described.partitions.items():
                line = next(
                    line for line in topics.splitlines() if f"Partition: {number}\t" in line
                )
                assert f"Leader: {one.leader_id}\t" in line
                assert f"Replicas: {','.join(map(str, one.replica_ids))}\t" in line
                assert f"Isr: {','.join(map(str, one.in_sync_replica_ids))}" in line

            assert "retention.ms=123000" in configs
            latest = dict.fromkeys(partitions, OffsetSpec.LATEST)
            listed = (await admin.partitions.list_offsets(latest)).unwrap()
            expected = {f"{topic}:{one.partition}:{listed[one].offset}" for one in partitions}
            assert set(ends.split()) == expected

            (member,) = (await admin.groups.describe([group]))[group].unwrap().members
            committed = (await admin.group_offsets.list([group]))[group].unwrap()
            rows = [line.split() for line in groups.splitlines() if member_id in line]
            told = {TopicPartition(row[1], int(row[2])): int(row[3]) for row in rows}
            assert told == {one: offset.offset for one, offset in committed.items() if offset}
            assert set(told) == set(member.assignment)
            assert {row[8] for row in rows} == {member.client_id} == {"ours"}
            await admin.groups.remove_members(group, [MemberIdentity(member_id=member_id)])
            await admin.groups.delete([group])
            await admin.topics.delete([topic])

    asyncio.run(run())
