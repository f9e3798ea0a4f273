"""Members at the coordinator's coroutines, over a log in memory; on virtual time."""

import asyncio

import pytest

from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas_protocol.messages.join_group import (
    JoinGroupResponse,
)
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas_protocol.messages.list_groups import ListGroupsRequest
from tests.broker.coordinator.group.coordinator_world import (
    GROUP,
    PARTITION,
    World,
    context,
    virtually,
)


def test_a_member_joins_syncs_commits_and_leaves() -> None:
    async def scenario() -> None:
        world = await World().start()
        member_id = await world.stable()
        assert await world.heartbeat(member_id, 1) is ErrorCode.NONE
        assert await world.commit(5, member_id, 1) is ErrorCode.NONE
        assert list(world.groups.committed_offsets()) == [(GROUP, "t", 0, 5)]
        assert world.groups.offset_count() == 1
        assert world.groups.count_by_state()["Stable"] == 1
        request = LeaveGroupRequest(
            group_id=GROUP, members=[MemberIdentity(member_id=member_id, group_instance_id=None)]
        )
        response = await world.groups.leave_group(request, context(3))
        assert (response.error_code, response.members[0].error_code) == (0, 0)
        assert world.groups.count_by_state()["Empty"] == 1
        await world.groups.runtime.close()

    virtually(scenario())


def test_requests_are_checked_in_order() -> None:
    """GRP-1: active else 15; valid id else 24; owner else 16."""

    async def scenario() -> None:
        world = World()
        assert (await world.join(group="")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await world.commit(1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        listed = await world.groups.list_groups(ListGroupsRequest(), context(4))
        assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.groups.runtime.start()
        assert (await world.join(group="")).error_code == ErrorCode.INVALID_GROUP_ID
        assert await world.heartbeat("m", 1, "") is ErrorCode.INVALID_GROUP_ID
        assert (await world.join()).error_code == ErrorCode.NOT_COORDINATOR
        assert (await world.sync("m", 1)).error_code == ErrorCode.NOT_COORDINATOR
        assert await world.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR
        assert await world.commit(1) is ErrorCode.NOT_COORDINATOR
        await world.groups.runtime.close()

    virtually(scenario())


def test_while_loading_requests_are_told_to_wait() -> None:
    """OFS-2, GRP-1, GRP-21: 14; heartbeats and syncs as clients of those expect."""

    async def scenario() -> None:
        world = World()
        await world.start()
        assert await world.commit(5) is ErrorCode.NONE
        world.groups.runtime.unload(PARTITION)
        world.writer.reads_going.clear()
        world.groups.runtime.load(PARTITION, 3)
        await asyncio.sleep(0.1)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await world.join()).error_code == loading
        assert await world.commit(1) is loading
        assert await world.heartbeat("m", 1) is ErrorCode.NONE
        assert (await world.sync("m", 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        listed = await world.groups.list_groups(ListGroupsRequest(), context(4))
        assert (listed.error_code, listed.groups) == (loading, [])
        described = await world.groups.describe_groups(
            DescribeGroupsRequest(groups=[GROUP]), context(5)
        )
        assert described.groups[0].error_code == loading
        deleted = await world.groups.delete_groups(
            DeleteGroupsRequest(groups_names=[GROUP]), context(1)
        )
        assert deleted.results[0].error_code == loading
        world.writer.reads_going.set()
        await world.groups.runtime.wait_until_loaded(PARTITION)
        listed = await world.groups.list_groups(ListGroupsRequest(), context(4))
        assert (listed.error_code, listed.groups[0].group_id) == (0, GROUP)
        await world.groups.runtime.close()

    virtually(scenario())


def test_a_group_survives_a_restart_of_the_coordinator() -> None:
    """GRP-20."""

    async def scenario() -> None:
        world = await World().start()
        member_id = await world.stable()
        await world.commit(5, member_id, 1)
        await world.groups.runtime.close()
        world = await World(world.writer).start()
        assert await world.heartbeat(member_id, 1) is ErrorCode.NONE
        assert (await world.sync(member_id, 1)).assignment == b"all"
        assert list(world.groups.committed_offsets()) == [(GROUP, "t", 0, 5)]
        await world.groups.runtime.close()

    virtually(scenario())


@pytest.mark.parametrize("how", ["close", "unload"])
def test_parked_joins_and_syncs_are_answered_when_the_coordinator_goes(how: str) -> None:
    """OFS-4, STOP-9."""

    async def scenario() -> None:
        world = await World().start()
        leader = await world.stable()
        newcomer = asyncio.ensure_future(world.join())
        await asyncio.sleep(0.1)
        assert (await world.join(leader)).error_code == 0
        member_id = (await newcomer).member_id
        syncing = asyncio.ensure_future(world.sync(member_id, 2))
        other = asyncio.ensure_future(world.join(group="my-group"))
        await asyncio.sleep(0.1)
        assert (await syncing).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        if how == "close":
            await world.groups.runtime.close()
        else:
            world.groups.runtime.unload(PARTITION)
        assert (await other).error_code == ErrorCode.NOT_COORDINATOR
        await world.groups.runtime.close()

    virtually(scenario())


@pytest.mark.parametrize(
    ("append", "shown"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_append_errors_are_mapped(append: ErrorCode, shown: ErrorCode) -> None:
    """OFS-6, for commits, syncs and the replacement of static members."""

    async def scenario() -> None:
        world = await World().start()
        static = await world.join(instance="i", version=5)
        world.writer.refuse_with = append
        assert (await world.sync(static.member_id, 1, leads=True)).error_code == shown
        world.writer.refuse_with = None
        assert (await world.join(static.member_id, version=5)).generation_id == 2
        await world.sync(static.member_id, 2, leads=True)
        world.writer.refuse_with = append
        assert await world.commit(1, static.member_id, 2) is shown
        assert (await world.join(instance="i", version=5)).error_code == shown
        world.writer.refuse_with = None
        assert await world.heartbeat(static.member_id, 2) is ErrorCode.NONE
        assert world.groups.offset_count() == 0
        await world.groups.runtime.close()

    virtually(scenario())


@pytest.mark.parametrize("request_kind", ["commit", "sync", "static join", "leave"])
def test_a_doubtful_append_is_answered_and_the_group_comes_back(request_kind: str) -> None:
    """OFS-5, OFS-6: 7 and 20 -> 15; the log decides what is kept."""

    async def scenario() -> None:
        world = await World().start()
        static = await world.join(instance="i", version=5)
        member_id = static.member_id
        if request_kind != "sync":
            await world.sync(member_id, 1, leads=True)
        world.writer.doubt_with = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        expected = ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with asyncio.timeout(30):
            if request_kind == "commit":
                assert await world.commit(1, member_id, 1) is expected
            elif request_kind == "sync":
                response = await world.sync(member_id, 1, leads=True)
                assert response.error_code in (expected, ErrorCode.REBALANCE_IN_PROGRESS)
            elif request_kind == "leave":
                request = LeaveGroupRequest(group_id=GROUP, member_id=member_id)
                left = await world.groups.leave_group(request, context(1))
                assert left.error_code == expected
            else:
                assert (await world.join(instance="i", version=5)).error_code == expected
            await world.groups.runtime.wait_until_loaded(PARTITION)
            if request_kind == "commit":
                assert list(world.groups.committed_offsets()) == [(GROUP, "t", 0, 1)]
            if request_kind in ("commit", "sync"):
                assert await world.heartbeat(member_id, 1) is ErrorCode.NONE
            if request_kind == "static join":
                assert (await world.join(instance="i", version=5)).error_code == 0
        await world.groups.runtime.close()

    virtually(scenario())


def test_join_answers_fit_every_version() -> None:
    """protocol.md 10: the protocol name is null from version 7 only."""

    async def scenario() -> None:
        world = await World().start()
        for version in range(10):
            response = await world.join("nobody", version=version)
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert response.protocol_name == (None if version >= 7 else "")
            data = encode(response, version)
            assert decode(JoinGroupResponse, data, version)[0].member_id == "nobody"
        await world.groups.runtime.close()

    virtually(scenario())


def test_the_partition_of_a_group_is_the_absolute_java_hash() -> None:
    """OFS-1, formats.md 12."""

    async def scenario() -> None:
        groups = World().groups
        assert groups.runtime.partition_for("my-group") == PARTITION
        assert groups.runtime.partition_for("test") == 48
        assert groups.runtime.partition_for("polygenelubricants") == 0
        await groups.runtime.close()

    virtually(scenario())


def test_the_log_of_a_group_is_one_batch_per_change() -> None:
    """OFS-5: the join itself is not written; the assignment and the commits are."""

    async def scenario() -> None:
        world = await World().start()
        member_id = await world.stable()
        log = world.writer.log(TopicPartition(OFFSETS_TOPIC, PARTITION))
        assert len(log.records()) == 1
        await asyncio.gather(*(world.commit(offset, member_id, 1) for offset in range(10)))
        assert len(log.records()) == 11
        assert len(log.batches) == 2
        await world.groups.runtime.close()

    virtually(scenario())
