"""`admin.groups` and `admin.group_offsets` on real brokers: members, offsets, the end of groups."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.groups import GroupState, GroupType, MemberIdentity
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import NotFoundError, RejectedError, UsageError
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.admin.raw_requests import (
    ask_coordinator,
    connected,
    create_topics,
    join_classic_group,
)
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]


async def state_of(admin: Admin, group_id: str) -> GroupState:
    return (await admin.groups.describe([group_id]))[group_id].unwrap().state


def test_offsets_are_committed_listed_and_deleted_for_groups_without_members(
    bootstrap: str, unique: Unique
) -> None:
    """What a reset does: a group comes into being with its first offset (OffsetCommit)."""
    topic, group, other = unique("admin.offsets"), unique("admin.group"), unique("admin.group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, NewTopic(name=topic, partition_count=2))
            offsets = {
                first: OffsetAndMetadata(7, metadata="by hand"),
                second: OffsetAndMetadata(8),
            }
            (await admin.group_offsets.alter(group, offsets)).unwrap()
            (await admin.group_offsets.alter(other, {first: OffsetAndMetadata(1)})).unwrap()
            listed = (await admin.group_offsets.list([group, other, "no-such-group"])).unwrap()
            assert listed == {
                group: offsets,
                other: {first: OffsetAndMetadata(1)},
                "no-such-group": {},
            }
            some = await admin.group_offsets.list(
                {group: [second], other: [second]}, require_stable=True
            )
            assert some.unwrap() == {group: {second: OffsetAndMetadata(8)}, other: {second: None}}

            missing = TopicPartition("no-such-topic", 0)
            partly = await admin.group_offsets.alter(
                group, {first: OffsetAndMetadata(9), missing: OffsetAndMetadata(1)}
            )
            assert partly[first].is_ok
            assert isinstance(partly[missing].error, NotFoundError)

            (await admin.group_offsets.delete(group, [second])).unwrap()
            left = (await admin.group_offsets.list([group]))[group].unwrap()
            assert left == {first: OffsetAndMetadata(9)}
            nowhere = await admin.group_offsets.delete("no-such-group", [first])
            assert isinstance(nowhere[first].error, NotFoundError)
            await admin.groups.delete([group, other])
            await admin.topics.delete([topic])

    asyncio.run(run())


def test_a_group_with_a_member_is_described_and_guarded(bootstrap: str, unique: Unique) -> None:
    """The member's assignment is read; its offsets and its group cannot be taken from under it."""
    topic, group = unique("admin.members"), unique("admin.group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def run() -> None:
        async with connected(bootstrap, client_id="watched") as (client, admin):
            await create_topics(admin, NewTopic(name=topic, partition_count=2))
            member_id = await join_classic_group(client, group, {topic: (0, 1)})
            described = (await admin.groups.describe([group], include_authorized_operations=True))[
                group
            ].unwrap()
            assert (described.type, described.state) == (GroupType.CLASSIC, GroupState.STABLE)
            assert (described.assignor, described.coordinator_id) == ("range", 1)
            assert described.group_epoch is None
            assert described.authorized_operations
            (member,) = described.members
            assert (member.member_id, member.client_id) == (member_id, "watched")
            assert member.assignment == (first, second)
            assert member.subscribed_topics == (topic,)
            raw = (await admin.groups.describe_classic([group]))[group].unwrap()
            assert raw.protocol_type == "consumer"
            assert raw.members[0].assignment

            taken = (await admin.group_offsets.alter(group, {first: OffsetAndMetadata(1)}))[first]
            assert isinstance(taken.error, RejectedError)
            assert taken.error.code is ErrorCode.NON_EMPTY_GROUP
            deleted = (await admin.groups.delete([group]))[group].error
            assert deleted is not None
            assert deleted.code is ErrorCode.NON_EMPTY_GROUP
            read = (await admin.group_offsets.delete(group, [first]))[first].error
            assert read is not None
            assert read.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

            removed = await admin.groups.remove_members(group, reason="test")
            assert removed.unwrap() == {MemberIdentity(member_id=member_id): None}
            assert await state_of(admin, group) is GroupState.EMPTY
            again = await admin.groups.remove_members(group, removed)
            assert isinstance(again[MemberIdentity(member_id=member_id)].error, NotFoundError)
            assert (await admin.groups.delete([group])).errors == {}
            gone = (await admin.groups.describe([group]))[group].error
            assert isinstance(gone, NotFoundError)
            await admin.topics.delete([topic])

    asyncio.run(run())


def test_static_members_are_removed_by_their_instance_id(bootstrap: str, unique: Unique) -> None:
    """KIP-345: they do not leave by themselves, so an administrator takes them out."""
    topic, group = unique("admin.static"), unique("admin.group")

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=topic))
            await join_classic_group(client, group, {topic: (0,)}, group_instance_id="rack-7")
            member = (await admin.groups.describe([group]))[group].unwrap().members[0]
            assert member.group_instance_id == "rack-7"
            known = MemberIdentity(group_instance_id="rack-7")
            unknown = MemberIdentity(group_instance_id="rack-8")
            removed = await admin.groups.remove_members(group, [known, unknown])
            assert removed[known].is_ok
            assert isinstance(removed[unknown].error, NotFoundError)
            assert await state_of(admin, group) is GroupState.EMPTY
            await admin.groups.delete([group])
            await admin.topics.delete([topic])

    asyncio.run(run())


def test_groups_are_listed_by_state_and_type(bootstrap: str, unique: Unique) -> None:
    """A group with a member, one with offsets only, one of another protocol type."""
    topic = unique("admin.listed")
    stable, empty, connect = (unique("admin.group") for _ in range(3))

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=topic))
            await join_classic_group(client, stable, {topic: (0,)})
            await join_classic_group(client, connect, {topic: (0,)}, protocol_type="connect")
            offset = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
            (await admin.group_offsets.alter(empty, offset)).unwrap()

            listed = {one.group_id: one for one in await admin.groups.list()}
            assert list(listed) == sorted(listed)
            assert (listed[stable].state, listed[stable].type) == (
                GroupState.STABLE,
                GroupType.CLASSIC,
            )
            assert listed[empty].state is GroupState.EMPTY
            assert (listed[stable].is_simple, listed[empty].is_simple) == (False, True)
            assert listed[connect].protocol_type == "connect"
            only_empty = {
                one.group_id for one in await admin.groups.list(states=[GroupState.EMPTY])
            }
            assert empty in only_empty
            assert stable not in only_empty
            newer = await admin.groups.list(types=[GroupType.CONSUMER, GroupType.SHARE])
            assert stable not in {one.group_id for one in newer}

            outcomes = await admin.groups.describe([connect, empty, "no-such-group", stable])
            assert isinstance(outcomes[connect].error, UsageError)
            assert "'connect'" in str(outcomes[connect].error)
            assert outcomes[empty].unwrap().members == ()
            assert isinstance(outcomes["no-such-group"].error, NotFoundError)
            assert outcomes[stable].is_ok
            raw = (await admin.groups.describe_classic([connect]))[connect].unwrap()
            assert raw.protocol_type == "connect"
            for group in (stable, connect):
                identity = MemberIdentity(
                    member_id=(await admin.groups.describe_classic([group]))[group]
                    .unwrap()
                    .members[0]
                    .member_id
                )
                (await admin.groups.remove_members(group, [identity])).unwrap()
            (await admin.groups.delete([stable, empty, connect])).unwrap()
            await admin.topics.delete([topic])

    asyncio.run(run())


async def heartbeat(
    client: Client, group_id: str, topic: str, member_id: str, member_epoch: int
) -> int:
    """One heartbeat of the protocol of KIP-848, to join with epoch 0; returns the next epoch."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    answer = await ask_coordinator(client, group_id, request)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    epoch: int = answer.member_epoch
    return epoch


@pytest.mark.interop
def test_groups_of_the_new_protocol_are_described_with_epochs_and_targets(
    apache: str, unique: Unique
) -> None:
    """KIP-848: ConsumerGroupDescribe for the new ones, DescribeGroups for the others, one call."""
    topic, newer, classic = unique("admin.new"), unique("admin.group"), unique("admin.group")

    async def run() -> None:
        async with connected(apache) as (client, admin):
            await create_topics(admin, NewTopic(name=topic, partition_count=2))
            member_id = "AAAAAAAAAAAAAAAAAAAAAQ"
            epochs = [0]
            await join_classic_group(client, classic, {topic: (0, 1)})

            # The coordinator may hear of the topic after the member: it assigns at a heartbeat.
            async def is_assigned() -> bool:
                epochs.append(await heartbeat(client, newer, topic, member_id, epochs[-1]))
                (member,) = (await admin.groups.describe([newer]))[newer].unwrap().members
                return len(member.target_assignment or ()) == 2

            await eventually(is_assigned)
            both = (await admin.groups.describe([newer, classic])).unwrap()
            assert both[classic].type is GroupType.CLASSIC
            group = both[newer]
            assert group.type is GroupType.CONSUMER
            assert group.group_epoch is not None
            assert group.group_epoch >= 1
            assert group.assignor == "uniform"
            (member,) = group.members
            assert member.member_id == member_id
            assert member.member_epoch is not None
            assert member.subscribed_topics == (topic,)
            assert member.is_upgraded is True
            assert [one.type for one in await admin.groups.list() if one.group_id == newer] == [
                GroupType.CONSUMER
            ]
            removed = await admin.groups.remove_members(newer)
            assert removed.unwrap() == {MemberIdentity(member_id=member_id): None}

            async def is_empty() -> bool:
                return await state_of(admin, newer) is GroupState.EMPTY

            await eventually(is_empty)
            (await admin.groups.remove_members(classic)).unwrap()
            (await admin.groups.delete([newer, classic])).unwrap()
            await admin.topics.delete([topic])

    asyncio.run(run())
