"""Offsets and administration at the coordinator's coroutines; on virtual time."""

import asyncio

from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas_protocol.messages.leave_group import LeaveGroupRequest
from barnabas_protocol.messages.list_groups import ListGroupsRequest
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
from tests.broker.coordinator.group.coordinator_world import (
    GROUP,
    World,
    context,
    virtually,
)


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
        await world.groups.runtime.close()

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
        await world.groups.runtime.close()

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
        await world.groups.runtime.close()

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
        await world.groups.runtime.close()

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
        await world.groups.runtime.close()

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
        await world.groups.runtime.close()

    virtually(scenario())
