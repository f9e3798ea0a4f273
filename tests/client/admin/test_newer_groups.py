"""`admin.share_groups`, `admin.streams_groups`, features switched on and replicas moved.

All of it on an Apache Kafka of the tests' own, since it changes the cluster; and refused.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.share_groups import ShareGroups
from barnabas_client.admin.values.cluster import FeatureUpdate
from barnabas_client.admin.values.groups import GroupState, GroupType
from barnabas_client.admin.values.log_dirs import TopicPartitionReplica
from barnabas_client.admin.values.share_groups import ShareGroupOffset
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import NotFoundError, UnsupportedError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from barnabas_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas_protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.client.admin.raw_requests import ask_coordinator, connected, create_topics, produce
from tests.client.admin.scripted_client import ScriptedClient
from tests.client.admin.secured_kafka import SecuredKafka
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]

MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_barnabas_says_in_one_line_what_it_does_not_serve(barnabas: str, unique: Unique) -> None:
    """Streams groups are not served yet."""
    group = unique("admin.group")

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            error = (await admin.streams_groups.describe([group]))[group].error
            assert isinstance(error, UnsupportedError)
            assert "\n" not in str(error)

    asyncio.run(run())


def test_a_share_group_that_barnabas_does_not_know_is_not_found(
    barnabas: str, unique: Unique
) -> None:
    """SHR-32: setting offsets makes the group; they are told and forgotten."""
    group, topic = unique("admin.group"), unique("admin.shared")
    partition = TopicPartition(topic, 0)

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            await create_topics(admin, NewTopic(name=topic, partition_count=1))
            described = (await admin.share_groups.describe([group]))[group]
            assert isinstance(described.error, NotFoundError)
            missing = TopicPartition(unique("no-such-topic"), 0)
            altered = await admin.share_groups.alter_offsets(group, {missing: 1})
            assert altered[missing].error is not None
            (await admin.share_groups.alter_offsets(group, {partition: 0})).unwrap()
            listed = (await admin.share_groups.list_offsets([group]))[group].unwrap()
            offset = listed[partition]
            assert offset is not None
            assert offset.start_offset == 0
            (await admin.share_groups.delete_offsets(group, [topic])).unwrap()
            (await admin.groups.delete([group])).unwrap()
            await admin.topics.delete([topic])

    asyncio.run(run())


def test_offsets_of_share_groups_are_told_and_altered_per_partition() -> None:
    """What brokers after Kafka 4.1 answer: a verdict per partition and topic, or one for all."""
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    client = ScriptedClient()
    client.script(
        ApiKey.FIND_COORDINATOR,
        lambda _, request: FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=2)]),
    )
    client.script(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        lambda _, request: AlterShareGroupOffsetsResponse(
            responses=[
                AlterShareGroupOffsetsResponseTopic(
                    topic_name="a",
                    partitions=[
                        AlterShareGroupOffsetsResponsePartition(partition_index=0),
                        AlterShareGroupOffsetsResponsePartition(
                            partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    ],
                )
            ]
        ),
        lambda _, request: AlterShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP),
    )
    client.script(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda _, request: DescribeShareGroupOffsetsResponse(
            groups=[
                DescribeShareGroupOffsetsResponseGroup(
                    group_id="g",
                    topics=[
                        DescribeShareGroupOffsetsResponseTopic(
                            topic_name="a",
                            partitions=[
                                DescribeShareGroupOffsetsResponsePartition(
                                    partition_index=1, start_offset=7, leader_epoch=3, lag=2
                                )
                            ],
                        )
                    ],
                )
            ]
        ),
    )

    async def run() -> None:
        share_groups = ShareGroups(AdminRouting(client))  # type: ignore[arg-type]
        altered = await share_groups.alter_offsets("g", {first: 1, second: 2})
        assert altered[first].is_ok
        assert isinstance(altered[second].error, NotFoundError)
        taken = await share_groups.alter_offsets("g", {first: 1, second: 2})
        assert {error.code for error in taken.errors.values()} == {ErrorCode.NON_EMPTY_GROUP}
        offset = ShareGroupOffset(start_offset=7, leader_epoch=3, lag=2)
        assert (await share_groups.list_offsets(["g"])).unwrap() == {"g": {second: offset}}

    asyncio.run(run())


async def switch_on(admin: Admin, feature: str) -> None:
    """Raise a feature to its first level and wait until the broker acts on it."""
    (await admin.features.update({feature: FeatureUpdate(level=1)})).unwrap()

    async def is_on() -> bool:
        finalized = (await admin.features.describe()).finalized
        return feature in finalized and finalized[feature].maximum == 1

    await eventually(is_on)


@pytest.mark.interop
def test_share_groups_are_described_and_their_offsets_set(
    secured: SecuredKafka, unique: Unique
) -> None:
    """KIP-932: a member, then an empty group whose start is set, told and forgotten."""
    topic, group = unique("admin.shared"), unique("admin.group")
    partition = TopicPartition(topic, 0)

    async def run() -> None:
        async with connected(secured.bootstrap) as (client, admin):
            await switch_on(admin, "share.version")
            await create_topics(admin, NewTopic(name=topic, partition_count=1))
            await produce(client, partition, [1, 2, 3])
            epochs = [0]

            async def heartbeat(member_epoch: int) -> Any:
                request = ShareGroupHeartbeatRequest(
                    group_id=group,
                    member_id=MEMBER_ID,
                    member_epoch=member_epoch,
                    subscribed_topic_names=[topic],
                )
                return await ask_coordinator(client, group, request)

            async def is_assigned() -> bool:
                answer = await heartbeat(epochs[-1])
                assert answer.error_code == ErrorCode.NONE, answer.error_message
                epochs.append(answer.member_epoch)
                described = (await admin.share_groups.describe([group]))[group].unwrap()
                return [one.assignment for one in described.members] == [(partition,)]

            await eventually(is_assigned)
            described = await admin.share_groups.describe([group, "no-such-group"])
            share_group = described[group].unwrap()
            assert share_group.state is GroupState.STABLE
            assert share_group.members[0].member_id == MEMBER_ID
            assert share_group.members[0].subscribed_topics == (topic,)
            assert isinstance(described["no-such-group"].error, NotFoundError)
            of_type = await admin.groups.list(types=[GroupType.SHARE])
            assert group in {one.group_id for one in of_type}
            listed = (await admin.share_groups.list_offsets([group]))[group].unwrap()
            assert listed == {partition: None}, "nothing was read yet"
            named = await admin.share_groups.list_offsets({group: [partition]})
            assert named[group].unwrap() == listed

            await heartbeat(-1)
            # Kafka 4.1 answers about no partition, whatever it did: that must not pass for success.
            altered = await admin.share_groups.alter_offsets(group, {partition: 2})
            assert "does not contain it" in str(altered[partition].error)
            (await admin.share_groups.delete_offsets(group, [topic])).unwrap()
            left = (await admin.share_groups.list_offsets([group]))[group].unwrap()
            assert left.get(partition) is None
            (await admin.groups.delete([group])).unwrap()
            await admin.topics.delete([topic])

    asyncio.run(run())


@pytest.mark.interop
def test_streams_groups_are_described_with_topology_and_tasks(
    secured: SecuredKafka, unique: Unique
) -> None:
    """KIP-1071: one subtopology that reads one topic, one member that is given its task."""
    topic, group = unique("admin.streams"), unique("admin.group")

    async def run() -> None:
        async with connected(secured.bootstrap) as (client, admin):
            await switch_on(admin, "streams.version")
            epochs = [0]

            async def is_ready() -> bool:
                request = StreamsGroupHeartbeatRequest(
                    group_id=group,
                    member_id=MEMBER_ID,
                    member_epoch=epochs[-1],
                    rebalance_timeout_ms=30_000,
                    topology=topology if epochs[-1] == 0 else None,
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                    process_id="process-1",
                    client_tags=[],
                )
                answer = await ask_coordinator(client, group, request)
                assert answer.error_code == ErrorCode.NONE, answer.error_message
                epochs.append(answer.member_epoch)
                described = (await admin.streams_groups.describe([group]))[group].unwrap()
                return described.topology_epoch is not None

            topology = Topology(
                epoch=3, subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic])]
            )
            # Kafka 4.1 shows a topology only once it has changed: when its topics were there before
            # the group was, it never tells of one.
            assert not await is_ready()
            await create_topics(admin, NewTopic(name=topic, partition_count=2))
            await eventually(is_ready)
            described = await admin.streams_groups.describe([group, "no-such-group"])
            streams = described[group].unwrap()
            assert streams.topology_epoch == 3
            (subtopology,) = streams.subtopologies
            assert subtopology.source_topics == (topic,)
            (member,) = streams.members
            assert (member.member_id, member.process_id) == (MEMBER_ID, "process-1")
            assert member.target_tasks.active == {"0": (0, 1)}
            assert isinstance(described["no-such-group"].error, NotFoundError)
            await ask_coordinator(
                client,
                group,
                StreamsGroupHeartbeatRequest(group_id=group, member_id=MEMBER_ID, member_epoch=-1),
            )
            (await admin.groups.delete([group])).unwrap()
            await admin.topics.delete([topic])

    asyncio.run(run())


@pytest.mark.interop
def test_replicas_move_to_another_directory_of_their_broker(
    secured: SecuredKafka, unique: Unique
) -> None:
    """AlterReplicaLogDirs, watched by DescribeLogDirs until the replica has arrived."""
    partition = TopicPartition(unique("admin.moved"), 0)
    replica = TopicPartitionReplica(*partition, 1)

    async def run() -> None:
        async with connected(secured.bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=partition.topic, partition_count=1))
            await produce(client, partition, [1, 2, 3])

            async def places() -> dict[str, bool]:
                directories = (await admin.log_dirs.describe([1], partitions=[partition]))[
                    1
                ].unwrap()
                return {
                    path: directory.replicas[partition].is_future
                    for path, directory in directories.items()
                    if partition in directory.replicas
                }

            ((now, _),) = (await places()).items()
            (other,) = set(secured.directories) - {now}
            (await admin.log_dirs.move_replicas({replica: other})).unwrap()

            async def has_moved() -> bool:
                return await places() == {other: False}

            await eventually(has_moved)
            missing = replica._replace(topic="no-such-topic")
            outcomes = await admin.log_dirs.move_replicas(
                {replica: "/no/such/directory", missing._replace(broker_id=9): now}
            )
            nowhere = outcomes[replica].error
            assert isinstance(nowhere, NotFoundError)
            assert nowhere.code is ErrorCode.LOG_DIR_NOT_FOUND
            assert isinstance(outcomes[missing._replace(broker_id=9)].error, NotFoundError)
            await admin.topics.delete([partition.topic])

    asyncio.run(run())
