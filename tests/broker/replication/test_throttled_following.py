"""Replication quotas between real leaders and followers, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from barnabas_broker.config.topic import LogConfig
from tests.support.replica_nodes import Links, ReplicaNode, led_by, topic_records, until
from tests.support.virtual_loop import run_virtual

BATCH_BYTES = 100_000
BATCHES = 40
RATE = 200_000  # 4 MB then take about 20 s less what the window lets through at once


async def catch_up_seconds(side: str, listed: str) -> float:
    """How long a follower needs for a leader's log with a quota on one side."""
    key = f"{side}.replication.throttled.replicas"
    links = Links()
    config = LogConfig.build({}, {key: listed} if listed else {})
    nodes = [await ReplicaNode(node_id, links, topic_config=config).start() for node_id in (0, 1)]
    leader, follower = nodes
    for node in nodes:
        node.replicas.follower_fetches.throttle = node.throttle
        (node.throttle.leader if side == "leader" else node.throttle.follower).rate = RATE
    await leader.learn([*topic_records(), led_by(0, 0)])
    for _ in range(BATCHES):
        leader.produce(b"v" * BATCH_BYTES)
    started = asyncio.get_running_loop().time()
    await follower.learn([*topic_records(), led_by(0, 0)])
    await until(lambda: follower.log.log_end_offset == BATCHES, 200)
    took = asyncio.get_running_loop().time() - started
    # Once in sync it is not held back, though the quota is used up (QUO-6).
    for node in nodes:
        await node.learn([led_by(0, 0, isr=(0, 1), partition_epoch=7)])
    await asyncio.sleep(1.5)
    started = asyncio.get_running_loop().time()
    leader.produce(b"x")
    await until(lambda: follower.log.log_end_offset == BATCHES + 1, 200)
    assert asyncio.get_running_loop().time() - started < 0.6
    for node in nodes:
        await node.stop()
    return took


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("listed", ["*", "0:1"])
def test_a_listed_replica_catches_up_at_the_rate(side: str, listed: str) -> None:
    """QUO-1, QUO-6, KIP-73: the quota of either side holds it back."""
    listed = "0:1" if listed == "0:1" else "*"
    assert 8 < run_virtual(catch_up_seconds(side, listed)) < 40


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_not_listed_is_not_held_back(side: str) -> None:
    """QUO-6: only listed replicas."""
    assert run_virtual(catch_up_seconds(side, "7:1")) < 1
