"""Followers whose flush finds no room although their records are in the file."""

from __future__ import annotations

import errno

from barnabas_broker.config.topic import LogConfig
from tests.support.replica_nodes import Links, ReplicaNode, led_by, topic_records, until
from tests.support.virtual_loop import run_virtual

FSYNC = LogConfig.build({}, {"barnabas.flush.policy": "group-fsync"})


def test_a_follower_tells_no_offset_that_it_could_not_flush() -> None:
    """REP-3, VOL-4: a fetch offset acknowledges; on a full disk internal topics are followed on."""

    async def test() -> None:
        links = Links()
        nodes = [await ReplicaNode(number, links, topic_config=FSYNC).start() for number in (0, 1)]
        leader, follower = nodes
        for node in nodes:
            await node.learn([*topic_records(), led_by(0, 0, isr=(0, 1))])
            node.partition().is_internal = True
        follower.disk.fail("append", "leader-epoch", errno.ENOSPC)
        follower.disk.fail("append", "leader-epoch", errno.ENOSPC)

        def is_safe() -> bool:
            # What is acknowledged is on both disks, at any time.
            assert leader.log.high_watermark <= follower.log.recovery_point
            return leader.log.high_watermark == 1

        leader.produce(b"a", acks=-1)
        await until(is_safe)
        assert follower.disk.failure_count == 2
        for node in nodes:
            await node.stop()

    run_virtual(test())
