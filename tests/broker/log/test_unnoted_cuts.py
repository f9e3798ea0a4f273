"""A cut whose recovery point cannot be written: nothing may take the old one for true (REC-5)."""

from __future__ import annotations

import errno

from tests.support.replica_nodes import (
    Links,
    ReplicaNode,
    led_by,
    topic_records,
    until,
)
from tests.support.virtual_loop import run_virtual


def test_a_cut_is_not_noted_while_its_recovery_point_finds_no_room() -> None:
    """A power cut would have the old one vouch for records that came in the place of the cut."""

    async def main() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        for value in (b"a", b"b", b"c"):
            node.produce(value)
        log, directory = node.log, node.logs.directories[0]
        await log.flush()
        await node.logs.checkpointing.write_recovery_points(directory)
        log.truncate_to(1)
        for _ in range(2):  # with the ballast given up as well
            node.disk.fail("write_atomically", "recovery-point", errno.ENOSPC)
        await node.logs.note_truncations([log])
        assert not log.is_cut_unsettled
        assert log.is_cut_unnoted
        await node.logs.note_truncations([log])
        assert not log.is_cut_unnoted
        assert directory.recovery_points.read()[log.topic_partition] == 1
        await node.stop()

    run_virtual(main())


def test_a_follower_appends_nothing_before_its_cut_is_noted() -> None:
    """It tries to note it with each fetch, and takes records after that."""

    async def main() -> None:
        links = Links()
        nodes = [await ReplicaNode(node_id, links).start() for node_id in range(2)]
        for node in nodes:
            await node.learn([*topic_records(), led_by(0, 0)])
        leader, follower = nodes
        leader.produce(b"a")
        await until(lambda: follower.log.log_end_offset == 1)
        log = follower.log
        log.truncate_to(0)
        for node in nodes:
            await node.learn([led_by(0, 1)])
        leader.produce(b"b")
        seen = set()

        def has_all() -> bool:
            seen.add((log.is_cut_unnoted, log.log_end_offset > 0))
            return log.log_end_offset == 2

        await until(has_all)
        assert (True, False) in seen
        assert (True, True) not in seen
        for node in nodes:
            await node.stop()

    run_virtual(main())
