"""A share group in a cluster of three, by the raw protocol: its partition moves, a leader dies."""

from __future__ import annotations

from pathlib import Path

from barnabas_protocol.errors import ErrorCode
from tests.broker.share_cluster_world import TOPIC, World, acquired_at_last, in_cluster
from tests.broker.share_member import ShareMember, append, coordinator_of, error_of

ACCEPT, RELEASE = 1, 2


def test_a_share_group_goes_on_when_its_partition_moves_and_its_leader_dies(tmp_path: Path) -> None:
    """SHR-33, SHR-42: what was accepted stays so, what was locked is delivered again."""

    async def work(world: World) -> None:
        node_id = await world.leader()
        producer = await world.connect(node_id)
        client = await world.connect(await coordinator_of(await world.connect(0), "g"))
        heartbeats = ShareMember(client, "g", "m1", world.topic_id)
        assert await heartbeats.join(TOPIC) == [(world.topic_id, 0)]
        member = await world.member("m1", node_id)
        await world.configure("g", "share.auto.offset.reset", "earliest")
        await append(producer, TOPIC, [b"v"] * 10)
        assert await acquired_at_last(member) == [(0, 9, 1)]
        assert error_of(await member.acknowledge((0, 3, [ACCEPT]), (4, 4, [RELEASE]))) == 0

        other_id = (node_id + 1) % 3
        await world.move_to(other_id)
        moved = await member.fetch()
        assert error_of(moved) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert moved.responses[0].partitions[0].current_leader.leader_id == other_id
        assert [one.node_id for one in moved.node_endpoints] == [other_id]
        lost = await member.acknowledge((5, 9, [ACCEPT]))
        assert error_of(lost) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        again = await world.member("m1", other_id)
        assert await acquired_at_last(again) == [(4, 4, 2), (5, 9, 1)]
        assert error_of(await again.acknowledge((4, 8, [ACCEPT]))) == ErrorCode.NONE

        world.cluster.brokers[other_id].kill()
        last_id = await world.leader(lambda found: found != other_id)
        last = await world.member("m2", last_id)
        assert await acquired_at_last(last) == [(9, 9, 1)]
        await append(await world.connect(last_id), TOPIC, [b"v"] * 2)
        assert await acquired_at_last(last) == [(10, 11, 1)]

    in_cluster(tmp_path, work)
