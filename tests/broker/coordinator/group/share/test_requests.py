"""Requests to share groups through a coordinator, with the persister in memory."""

import asyncio
from typing import Any

from barnabas_broker.coordinator.group.share import partition_worker
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
)
from barnabas_protocol.messages.list_groups import ListGroupsRequest
from barnabas_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.broker.coordinator.group.consumer.consumer_model import NamedTopics
from tests.broker.coordinator.group.coordinator_world import GROUP, World, context, virtually
from tests.support.memory_share_persister import MemorySharePersister

HEARTBEAT_SECONDS = 5
RETRY_SECONDS = 30


class ShareWorld(World):
    """A coordinator with topics `t` (2 partitions) and `u` (1), and mostly a persister."""

    def __init__(self, *, has_persister: bool = True) -> None:
        self.named = NamedTopics()
        self.named.put("t", 2)
        self.named.put("u", 1)
        self.named.put("__consumer_offsets", 50)
        super().__init__(topics=self.named)
        self.persister = MemorySharePersister()
        self.ends = {("t", 0): (0, 100), ("t", 1): (40, 50)}
        if has_persister:
            self.groups.share.connect(lambda: self.persister, self._log_ends)

    async def _log_ends(self, topic_partitions: Any) -> Any:
        return {each: self.ends[each] for each in topic_partitions if each in self.ends}

    def key(self, topic: str, partition: int) -> SharePartitionKey:
        return SharePartitionKey(GROUP, self.named.ids[topic], partition)

    async def beat(
        self, member_id: str, epoch: int, *topics: str, group: str = GROUP
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        return await self.groups.share.heartbeat(request, context(1))

    async def joined(self, *topics: str) -> dict[str, list[int]]:
        """A member that has joined and got what there is; returns that."""
        response = await self.beat("a", 0, *topics)
        assert response.error_code == 0
        for _ in range(3):
            await asyncio.sleep(HEARTBEAT_SECONDS)
            response = await self.beat("a", response.member_epoch)
            if response.assignment is not None:
                return {
                    self.named.topic_name(each.topic_id) or "?": each.partitions
                    for each in response.assignment.topic_partitions
                }
        return {}

    async def described(
        self, topics: dict[str, list[int]] | None = None, group: str = GROUP
    ) -> DescribeShareGroupOffsetsResponseGroup:
        named = None
        if topics is not None:
            named = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
                for name, partitions in topics.items()
            ]
        request = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=named)
        return await self.groups.share.describe_offsets(request)

    async def altered(self, topic: str, starts: dict[int, int]) -> Any:
        request = AlterShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=start
                        )
                        for index, start in starts.items()
                    ],
                )
            ],
        )
        return await self.groups.share.alter_offsets(request, context(0))

    async def deleted_offsets(self, *topics: str) -> Any:
        request = DeleteShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics],
        )
        return await self.groups.share.delete_offsets(request)

    async def deleted(self, group: str = GROUP) -> ErrorCode:
        request = DeleteGroupsRequest(groups_names=[group])
        response = await self.groups.delete_groups(request, context(2))
        return ErrorCode(response.results[0].error_code)


def errors(response: Any) -> dict[int, int]:
    (topic,) = response.responses
    return {each.partition_index: each.error_code for each in topic.partitions}


def test_partitions_are_initialized_and_then_assigned() -> None:
    """SHR-29: by a heartbeat, which does not wait for it; the next one brings them."""

    async def run() -> None:
        world = await ShareWorld().start()
        assert await world.joined("t") == {"t": [0, 1]}
        assert world.persister.calls == [("initialize", 0), ("initialize", 1)]
        assert world.persister.states[world.key("t", 1)].start_offset == -1
        world.named.put("t", 3)
        response = await world.beat("a", 2)
        await asyncio.sleep(HEARTBEAT_SECONDS)
        await world.beat("a", response.member_epoch)
        assert world.persister.states[world.key("t", 2)].start_offset == 0
        await world.groups.close()

    virtually(run())


def test_one_work_of_a_group_is_under_way() -> None:
    """SHR-29: heartbeats that find the same do not begin another one."""

    async def run() -> None:
        world = await ShareWorld().start()
        world.persister.hold()
        assert await world.joined("t") == {}
        assert len(world.persister.calls) == 2
        world.persister.release()
        await asyncio.sleep(HEARTBEAT_SECONDS)
        assert (await world.beat("a", 1)).assignment is not None
        assert len(world.persister.calls) == 2
        await world.groups.close()

    virtually(run())


def test_what_a_share_coordinator_refuses_is_tried_again() -> None:
    """SHR-29: after the interval, under a higher epoch; the group's other topics go on."""

    async def run() -> None:
        world = await ShareWorld().start()
        away = world.key("t", 1)
        world.persister.fail_with = lambda _, key: (
            ErrorCode.COORDINATOR_NOT_AVAILABLE if key == away else None
        )
        assert await world.joined("t", "u") == {"u": [0]}
        world.persister.fail_with = lambda *_: None
        epoch = 2
        for _ in range(RETRY_SECONDS // HEARTBEAT_SECONDS + 1):
            await asyncio.sleep(HEARTBEAT_SECONDS)
            epoch = (await world.beat("a", epoch)).member_epoch
        assert world.persister.states[away].state_epoch > 1
        described = (await world.groups.share.describe([GROUP]))[0]
        assert sum(len(each.partitions) for each in _assigned(described)) == 3
        await world.groups.close()

    virtually(run())


def _assigned(described: Any) -> Any:
    return described.members[0].assignment.topic_partitions


def test_a_coordinator_that_stops_leaves_the_rest_to_the_next_one() -> None:
    """SHR-29, STOP-9: what is under way is given up."""

    async def run() -> None:
        world = await ShareWorld().start()
        world.persister.hold()
        await world.beat("a", 0, "t")
        await asyncio.sleep(1)
        await world.groups.close()
        assert (await world.beat("a", 1)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    virtually(run())


def test_without_a_persister_there_is_a_group_without_partitions() -> None:
    """SHR-29: nothing is assigned, and nothing fails."""

    async def run() -> None:
        world = await ShareWorld(has_persister=False).start()
        assert await world.joined("t") == {}
        assert (await world.altered("t", {0: 1})).error_code == ErrorCode.NON_EMPTY_GROUP
        await world.groups.close()

    virtually(run())


def test_offsets_are_described_with_their_lag() -> None:
    """SHR-32: lag = log end - start - complete count; -1 where one of them is not known."""

    async def run() -> None:
        world = await ShareWorld().start()
        assert (await world.described()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await world.described(group="")).error_code == ErrorCode.INVALID_GROUP_ID
        await world.joined("t", "u")
        await world.persister.read(world.key("t", 0), 4)
        await world.persister.write(world.key("t", 0), 1, 4, 10, 5, [])
        everything = await world.described()
        assert everything.error_code == 0
        told = {
            (topic.topic_name, each.partition_index): (
                each.start_offset,
                each.leader_epoch,
                each.lag,
            )
            for topic in everything.topics
            for each in topic.partitions
        }
        assert told == {
            ("t", 0): (10, 4, 85),
            ("t", 1): (-1, 0, -1),
            ("u", 0): (-1, 0, -1),
        }
        some = await world.described({"t": [0, 0, 7], "nowhere": [0]})
        assert [
            (topic.topic_name, each.partition_index, each.start_offset, each.error_code)
            for topic in some.topics
            for each in topic.partitions
        ] == [("t", 0, 10, 0), ("t", 7, -1, 0), ("nowhere", 0, -1, 0)]
        world.persister.fail_with = lambda *_: ErrorCode.NOT_COORDINATOR
        failed = await world.described({"t": [0]})
        assert failed.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        await world.groups.close()

    virtually(run())


def test_offsets_of_an_empty_group_are_altered() -> None:
    """SHR-32: a group is made; what does not exist is 3, a start below zero 42; 68 with members."""

    async def run() -> None:
        world = await ShareWorld().start()
        response = await world.altered("t", {0: 7, 1: -5, 2: 1})
        assert response.error_code == 0
        assert errors(response) == {
            0: ErrorCode.NONE,
            1: ErrorCode.INVALID_REQUEST,
            2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert world.persister.states[world.key("t", 0)].start_offset == 7
        assert errors(await world.altered("x", {0: 1})) == {0: 3}
        listed = await world.groups.list_groups(ListGroupsRequest(), context(5))
        assert [(each.group_type, each.group_state) for each in listed.groups] == [
            ("share", "Empty")
        ]
        world.persister.fail_with = lambda *_: ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert errors(await world.altered("t", {0: 9})) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        world.persister.fail_with = lambda *_: None
        assert await world.joined("t") == {"t": [0, 1]}
        assert world.persister.states[world.key("t", 0)].start_offset == 7
        assert world.persister.states[world.key("t", 1)].start_offset == 0
        assert (await world.altered("t", {0: 1})).error_code == ErrorCode.NON_EMPTY_GROUP
        await world.groups.close()

    virtually(run())


def test_offsets_of_an_empty_group_are_deleted() -> None:
    """SHR-32: per topic; of what there is none is 3."""

    async def run() -> None:
        world = await ShareWorld().start()
        await world.joined("t")
        assert (await world.deleted_offsets("t")).error_code == ErrorCode.NON_EMPTY_GROUP
        await world.beat("a", -1)
        response = await world.deleted_offsets("t", "u", "x")
        assert [
            (each.topic_name, each.error_code, each.error_message) for each in response.responses
        ] == [
            ("t", 0, None),
            ("u", 3, "There is no offset information to delete."),
            ("x", 3, None),
        ]
        assert not world.persister.states
        assert (await world.described()).topics == []
        await world.groups.close()

    virtually(run())


def test_a_group_is_deleted_with_its_state() -> None:
    """SHR-32: the state first; a group whose state stays is kept, and can be deleted later."""

    async def run() -> None:
        world = await ShareWorld().start()
        await world.joined("t")
        assert await world.deleted() is ErrorCode.NON_EMPTY_GROUP
        await world.beat("a", -1)
        world.persister.fail_with = lambda *_: ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await world.deleted() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.persister.fail_with = lambda *_: None
        assert await world.deleted() is ErrorCode.NONE
        assert not world.persister.states
        assert await world.deleted() is ErrorCode.GROUP_ID_NOT_FOUND
        assert (await world.described()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await world.groups.close()

    virtually(run())


def test_a_member_that_joins_while_its_group_is_deleted_keeps_the_group() -> None:
    """SHR-32: what it subscribes to is made anew when the deletion is over, not before."""

    async def run() -> None:
        world = await ShareWorld().start()
        await world.joined("t")
        await world.beat("a", -1)
        world.persister.hold()
        deletion = asyncio.create_task(world.deleted())
        await asyncio.sleep(1)
        await world.beat("b", 0, "t")
        world.persister.release()
        assert await deletion is ErrorCode.NON_EMPTY_GROUP
        assert await world.joined("t") == {"t": [0]}
        operations = [operation for operation, _ in world.persister.calls]
        assert operations == ["initialize"] * 2 + ["delete"] * 2 + ["initialize"] * 2
        await world.groups.close()

    virtually(run())


def test_an_admin_does_not_wait_for_ever() -> None:
    """SHR-32: for what is under way, as the persister may repeat its calls for long."""

    async def run() -> None:
        world = await ShareWorld().start()
        world.persister.hold()
        await world.beat("a", 0, "t")
        await asyncio.sleep(1)
        await world.beat("a", -1)
        began = asyncio.get_running_loop().time()
        response = await world.deleted_offsets("t")
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        waited = asyncio.get_running_loop().time() - began
        assert waited == partition_worker.TURN_SECONDS_MAX
        world.persister.release()
        await world.groups.close()

    virtually(run())


def test_deleted_topics_are_forgotten() -> None:
    """SHR-25: the coordinator is told when a topic is deleted."""

    async def run() -> None:
        world = await ShareWorld().start()
        await world.joined("t", "u")
        gone = world.named.ids["u"]
        world.named.remove("u")
        await world.groups.on_topics_deleted({"u": gone})
        described = await world.described()
        assert [topic.topic_name for topic in described.topics] == ["t"]
        await world.groups.close()

    virtually(run())


def test_groups_are_counted_by_state() -> None:
    """MET-6: for the metrics, protocol `share`."""

    async def run() -> None:
        world = await ShareWorld().start()
        await world.beat("a", 0, "t")
        await world.beat("b", 0, "t")
        assert world.groups.count_share_groups() == {"Empty": 0, "Stable": 1, "Dead": 0}
        assert dict(world.groups.member_counts()) == {GROUP: 2}
        assert world.groups.named_groups(10) == {GROUP}
        await world.groups.close()

    virtually(run())
