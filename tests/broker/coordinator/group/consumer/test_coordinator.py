"""Consumer groups as the coordinator shows them: described, listed, counted; patterns resolved."""

import asyncio

from barnabas_broker.coordinator.group.group_metrics import group_samples
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas_protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas_protocol.messages.list_groups import ListGroupsRequest
from tests.broker.coordinator.group.consumer.consumer_model import NamedTopics
from tests.broker.coordinator.group.coordinator_world import (
    GROUP,
    PARTITION,
    World,
    context,
    virtually,
)


def topics(**counts: int) -> NamedTopics:
    named = NamedTopics()
    named.put("__consumer_offsets", 50)
    for name, count in counts.items():
        named.put(name, count)
    return named


async def beat(
    world: World, member_id: str, epoch: int, *, owned: list[int] | None = None, **fields: object
) -> ConsumerGroupHeartbeatResponse:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 30_000, "topic_partitions": [], **fields}
        fields.setdefault("subscribed_topic_names", ["t"])
    if owned is not None:
        topic_id = (1).to_bytes(15) + b"\x02"
        fields["topic_partitions"] = [TopicPartitions(topic_id=topic_id, partitions=owned)]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields
    )
    return await world.groups.consumer_group_heartbeat(request, context(1))


def test_a_group_is_described_with_targets_and_what_members_have() -> None:
    """CG-13: an assignment has what is being revoked, too; the target is apart."""

    async def run() -> None:
        world = await World(topics=topics(t=4)).start()
        await beat(world, "a", 0, rack_id="r", instance_id="i")
        await asyncio.sleep(2)
        await beat(world, "b", 0)
        await beat(world, "a", 1, instance_id="i")
        (group,) = await world.groups.consumer_group_describe([GROUP])
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == (
            "Reconciling",
            2,
            2,
        )
        assert group.assignor_name == "uniform"
        a, b = sorted(group.members, key=lambda member: member.member_id)
        assert (a.instance_id, a.rack_id, a.member_epoch, a.member_type) == ("i", "r", 1, 1)
        assert (a.client_id, a.client_host) == ("app", "/10.0.0.1")
        assert a.subscribed_topic_names == ["t"]
        (assigned,) = a.assignment.topic_partitions
        assert (assigned.topic_name, assigned.partitions) == ("t", [0, 1, 2, 3])
        (target,) = a.target_assignment.topic_partitions
        assert len(target.partitions) == 2
        assert b.assignment.topic_partitions == []
        assert len(b.target_assignment.topic_partitions[0].partitions) == 2

    virtually(run())


def test_each_kind_of_group_is_described_by_its_own_request() -> None:
    """CG-13, GRP-21: 69 for the other one, and for what there is not."""

    async def run() -> None:
        world = await World(topics=topics(t=1)).start()
        await beat(world, "a", 0)
        request = DescribeGroupsRequest(groups=[GROUP])
        (classic,) = (await world.groups.describe_groups(request, context(6))).groups
        assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert classic.error_message == f"Group {GROUP} is not a classic group."
        (older,) = (await world.groups.describe_groups(request, context(5))).groups
        assert (older.error_code, older.group_state) == (ErrorCode.NONE, "Dead")
        await beat(world, "a", -1)
        await world.join()
        (described,) = await world.groups.consumer_group_describe([GROUP])
        assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message == f"Group {GROUP} is not a consumer group."
        (named_none,) = await world.groups.consumer_group_describe([""])
        assert named_none.error_code == ErrorCode.INVALID_GROUP_ID

    virtually(run())


def test_groups_are_listed_and_counted_by_kind_and_state() -> None:
    """GRP-21, MET-6: filters of types and states are case-insensitive."""

    async def run() -> None:
        world = await World(topics=topics(t=1)).start()
        await beat(world, "a", 0)

        async def listed(**filters: list[str]) -> list[tuple[str, str, str]]:
            response = await world.groups.list_groups(ListGroupsRequest(**filters), context(5))
            return [
                (each.group_type, each.group_state, each.protocol_type) for each in response.groups
            ]

        expected = [("consumer", "Stable", "consumer")]
        assert await listed() == expected
        assert await listed(types_filter=["Consumer"], states_filter=["STABLE"]) == expected
        assert await listed(types_filter=["classic"]) == []
        assert await listed(states_filter=["assigning"]) == []
        counts = {
            (sample.labels["protocol"], sample.labels["state"]): sample.value
            for sample in group_samples(world.groups)
            if sample.name == "barnabas_groups"
        }
        assert counts["consumer", "Stable"] == 1
        assert sum(counts.values()) == 1
        assert dict(world.groups.member_counts()) == {GROUP: 1}
        assert world.groups.named_groups(5) == {GROUP}

    virtually(run())


def test_patterns_are_resolved_beside_the_heartbeats() -> None:
    """CG-8: the member gets the topics with a later heartbeat."""

    async def run() -> None:
        world = await World(topics=topics(orders=2, others=1)).start()
        joined = await beat(
            world, "a", 0, subscribed_topic_names=None, subscribed_topic_regex="ord.*"
        )
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 1)
        await asyncio.sleep(2)
        given = await beat(world, "a", 1)
        assert given.member_epoch == 2
        assert given.assignment is not None
        assert given.assignment.topic_partitions[0].partitions == [0, 1]
        refused = await beat(world, "b", 0, subscribed_topic_regex="(")
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert refused.error_message is not None

    virtually(run())


def test_a_group_follows_its_coordinator() -> None:
    """OFS-2, OFS-4: what was committed is there after another load, and 16 in between."""

    async def run() -> None:
        world = await World(topics=topics(t=2)).start()
        await beat(world, "a", 0)
        world.groups.runtime.unload(PARTITION)
        assert (await beat(world, "a", 1)).error_code == ErrorCode.NOT_COORDINATOR
        world.groups.runtime.load(PARTITION, 3)
        await world.groups.runtime.wait_until_loaded(PARTITION)
        assert (await beat(world, "a", 1)).error_code == ErrorCode.NONE
        assert (await beat(world, "a", 2)).error_code == ErrorCode.FENCED_MEMBER_EPOCH

    virtually(run())
