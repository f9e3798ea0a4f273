"""The coordinator's coroutines over the runtime and a log in memory; on virtual time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC, GroupSettings
from barnabas_broker.purgatory.timer import Timer
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas_protocol.messages.heartbeat import HeartbeatRequest
from barnabas_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas_protocol.messages.list_groups import ListGroupsRequest
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.group_model import subscription
from tests.support.partition_writer import FakePartitionWriter
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock, run_virtual

GROUP = "my-group"
PARTITION = 12


class World:
    def __init__(self, writer: FakePartitionWriter | None = None, **settings: int) -> None:
        loop = asyncio.get_running_loop()
        clock = VirtualClock(loop)
        self.writer = writer or FakePartitionWriter()
        self.groups = GroupCoordinator(
            settings=GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings}),
            writer=self.writer,
            clock=clock,
            random=SimulatedRandom(3),
            timer=Timer(loop, clock),
        )

    async def start(self) -> "World":
        self.groups.start()
        self.groups.load_partition(PARTITION, 1)
        await self.groups.runtime.wait_until_loaded(PARTITION)
        return self

    async def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = 3,
        instance: str | None = None,
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        )
        return await self.groups.join_group(request, context(version))

    async def sync(self, member_id: str, generation: int, leads: bool = False) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
            if leads
            else [],
        )
        return await self.groups.sync_group(request, context(3))

    async def heartbeat(self, member_id: str, generation: int, group: str = GROUP) -> ErrorCode:
        request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
        return ErrorCode((await self.groups.heartbeat(request, context(3))).error_code)

    async def commit(
        self, offset: int, member_id: str = "", generation: int = -1, group: str = GROUP
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                    ],
                )
            ],
        )
        response = await self.groups.offset_commit(request, context(7))
        assert response.topics[0].name == "t"
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def stable(self) -> str:
        joined = await self.join()
        assert joined.error_code == 0
        synced = await self.sync(joined.member_id, 1, leads=True)
        assert synced.assignment == b"all"
        return joined.member_id


def context(version: int) -> RequestContext:
    return RequestContext("app", "/10.0.0.1", version)


def virtually(work: Coroutine[Any, Any, None]) -> None:
    run_virtual(work)


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
        await world.groups.close()

    virtually(scenario())


def test_requests_are_checked_in_order() -> None:
    """GRP-1: active else 15; valid id else 24; owner else 16."""

    async def scenario() -> None:
        world = World()
        assert (await world.join(group="")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await world.commit(1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        listed = await world.groups.list_groups(ListGroupsRequest(), context(4))
        assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.groups.start()
        assert (await world.join(group="")).error_code == ErrorCode.INVALID_GROUP_ID
        assert await world.heartbeat("m", 1, "") is ErrorCode.INVALID_GROUP_ID
        assert (await world.join()).error_code == ErrorCode.NOT_COORDINATOR
        assert (await world.sync("m", 1)).error_code == ErrorCode.NOT_COORDINATOR
        assert await world.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR
        assert await world.commit(1) is ErrorCode.NOT_COORDINATOR
        await world.groups.close()

    virtually(scenario())


def test_while_loading_requests_are_told_to_wait() -> None:
    """OFS-2, GRP-1, GRP-21: 14; heartbeats and syncs as clients of those expect."""

    async def scenario() -> None:
        world = World()
        await world.start()
        assert await world.commit(5) is ErrorCode.NONE
        world.groups.unload_partition(PARTITION)
        world.writer.reads_going.clear()
        world.groups.load_partition(PARTITION, 3)
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
        await world.groups.close()

    virtually(scenario())


def test_a_group_survives_a_restart_of_the_coordinator() -> None:
    """GRP-20."""

    async def scenario() -> None:
        world = await World().start()
        member_id = await world.stable()
        await world.commit(5, member_id, 1)
        await world.groups.close()
        world = await World(world.writer).start()
        assert await world.heartbeat(member_id, 1) is ErrorCode.NONE
        assert (await world.sync(member_id, 1)).assignment == b"all"
        assert list(world.groups.committed_offsets()) == [(GROUP, "t", 0, 5)]
        await world.groups.close()

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
            await world.groups.close()
        else:
            world.groups.unload_partition(PARTITION)
        assert (await other).error_code == ErrorCode.NOT_COORDINATOR
        await world.groups.close()

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
        await world.groups.close()

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
        await world.groups.close()

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
        await world.groups.close()

    virtually(scenario())


def test_offsets_are_fetched_for_one_group_in_old_versions() -> None:
    """OFS-11, protocol.md 10: version 1 has no error for the group, only for partitions."""

    async def scenario() -> None:
        world = await World().start()
        await world.commit(5)

        async def fetch(version: int, group: str, topics: bool = True) -> OffsetFetchResponse:
            request = OffsetFetchRequest(
                group_id=group,
                topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
                if topics
                else None,
            )
            response = await world.groups.offset_fetch(request, context(version))
            return decode(OffsetFetchResponse, encode(response, version), version)[0]

        for version in range(1, 8):
            response = await fetch(version, GROUP)
            assert [each.committed_offset for each in response.topics[0].partitions] == [5, -1]
        assert [topic.name for topic in (await fetch(2, GROUP, topics=False)).topics] == ["t"]
        foreign = await fetch(1, "test")
        assert [each.error_code for each in foreign.topics[0].partitions] == [16, 16]
        foreign = await fetch(2, "test")
        assert (foreign.error_code, foreign.topics) == (16, [])
        await world.groups.close()

    virtually(scenario())


def test_offsets_are_fetched_for_several_groups_from_version_8() -> None:
    """OFS-11, protocol.md 10: one error per group."""

    async def scenario() -> None:
        world = await World().start()
        await world.commit(5)
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(group_id=GROUP, topics=None),
                OffsetFetchRequestGroup(group_id="test", topics=topics),
            ]
        )
        response = await world.groups.offset_fetch(request, context(8))
        ours, foreign = response.groups
        assert (ours.group_id, ours.error_code) == (GROUP, 0)
        assert ours.topics[0].partitions[0].committed_offset == 5
        assert (foreign.group_id, foreign.error_code, foreign.topics) == ("test", 16, [])
        await world.groups.close()

    virtually(scenario())


def test_unknown_groups_are_dead_or_not_found() -> None:
    """GRP-21: 69 from version 6."""

    async def scenario() -> None:
        world = await World().start()
        request = DescribeGroupsRequest(groups=[GROUP])
        for version, code in ((5, 0), (6, 69)):
            response = await world.groups.describe_groups(request, context(version))
            (group,) = response.groups
            assert (group.group_state, group.error_code) == ("Dead", code)
            assert (group.error_message is not None) == (version == 6)
        await world.groups.close()

    virtually(scenario())


def test_list_filters_do_not_mind_the_case() -> None:
    """GRP-21."""

    async def scenario() -> None:
        world = await World().start()
        await world.stable()

        async def listed(states: list[str], types: list[str]) -> int:
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            return len((await world.groups.list_groups(request, context(5))).groups)

        assert await listed([], []) == 1
        assert await listed(["STABLE"], ["Classic"]) == 1
        assert await listed(["empty"], []) == 0
        assert await listed([], ["consumer"]) == 0
        await world.groups.close()

    virtually(scenario())


def test_groups_and_offsets_are_deleted() -> None:
    """OFS-10."""

    async def scenario() -> None:
        world = await World().start()
        member_id = await world.stable()
        await world.commit(5, member_id, 1)
        request = DeleteGroupsRequest(groups_names=[GROUP, GROUP, "test"])
        results = (await world.groups.delete_groups(request, context(2))).results
        assert [(each.group_id, each.error_code) for each in results] == [(GROUP, 68), ("test", 16)]
        leave = LeaveGroupRequest(group_id=GROUP, member_id=member_id)
        assert (await world.groups.leave_group(leave, context(1))).error_code == 0
        delete = OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        )
        assert (await world.groups.offset_delete(delete, context(0))).error_code == 0
        assert world.groups.offset_count() == 0
        await world.commit(6)
        await world.groups.on_topics_deleted(["t"])
        assert world.groups.offset_count() == 0
        results = (await world.groups.delete_groups(request, context(2))).results
        assert results[0].error_code == 0
        gone = await world.groups.offset_delete(delete, context(0))
        assert gone.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await world.groups.close()

    virtually(scenario())


def test_the_expiry_of_offsets_runs_by_itself() -> None:
    """OFS-8: every `offsets.retention.check.interval.ms`."""

    async def scenario() -> None:
        world = await World().start()
        await world.commit(5)
        await asyncio.sleep(7 * 24 * 3600 - 1)
        assert world.groups.offset_count() == 1
        await asyncio.sleep(601)
        assert world.groups.offset_count() == 0
        assert world.groups.metrics.expired_offset_count == 1
        await world.groups.close()

    virtually(scenario())


def test_the_partition_of_a_group_is_the_absolute_java_hash() -> None:
    """OFS-1, formats.md 12."""

    async def scenario() -> None:
        groups = World().groups
        assert groups.partition_for("my-group") == PARTITION
        assert groups.partition_for("test") == 48
        assert groups.partition_for("polygenelubricants") == 0
        await groups.close()

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
        await world.groups.close()

    virtually(scenario())
