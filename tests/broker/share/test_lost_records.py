"""Records that a log has lost, which a share group has processed, and those that take their place.

The leader's log is cut as an unclean election, or power that a single replica has lost, leaves it.
"""

from __future__ import annotations

import pytest

from barnabas_broker.share.lost_records import FirstReads, without_lost
from barnabas_broker.share.persister import ShareState, StateBatch
from barnabas_protocol.errors import ErrorCode
from tests.broker.share.share_bench import ShareBench, key, share
from tests.support.replica_nodes import led_by, until

ACCEPT = 1
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


async def lose(bench: ShareBench, end_offset: int, leader_epoch: int) -> None:
    """Let a replica lead whose log ends earlier."""
    await bench.node.learn([led_by(1, leader_epoch, replicas=(0, 1))])
    (partition,) = bench.node.replicas.partitions.values()
    await partition.log.truncate(end_offset)
    await bench.node.logs.note_truncations([partition.log])
    await bench.node.learn([led_by(0, leader_epoch + 1, replicas=(0,))])
    await until(lambda: partition.is_leader)


@pytest.mark.parametrize("kept", [5, 2, 0])
def test_records_that_come_where_others_were_lost_are_delivered(kept: int) -> None:
    """SHR-33: who has processed the lost ones has not seen these."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(4)
        bench.produce(6)
        member = bench.member()
        assert await member.acquire(records_max=4, is_record_limit=True) == [(0, 3, 1)]
        assert await member.acknowledge((0, 3, [ACCEPT])) == 0
        assert await member.acquire() == [(4, 9, 1)]
        assert await member.acknowledge((4, 9, [ACCEPT])) == 0
        assert bench.persister.states[key()].start_offset == 4
        await lose(bench, kept, 1)
        bench.produce(12)  # beyond what was there, before anybody has looked
        got = sorted(one[:2] for one in await member.acquire())
        assert got[0][0] == kept
        assert got[-1][1] == kept + 11
        assert sum(last - first + 1 for first, last in got) == 12
        for first, last in got:
            assert await member.acknowledge((first, last, [ACCEPT])) == 0
        await bench.node.learn([led_by(0, 3, replicas=(0,))])
        bench.produce(1)
        assert [one[:2] for one in await member.acquire()] == [(kept + 12, kept + 12)]

    share(scenario)


def test_what_cannot_be_taken_back_now_fails_the_load() -> None:
    """SHR-3: nothing is passed over; the next fetch tries again."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(4)
        member = bench.member()
        assert await member.acquire() == [(0, 3, 1)]
        assert await member.acknowledge((0, 3, [ACCEPT])) == 0
        await lose(bench, 1, 1)
        bench.produce(3)
        bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await member.error() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert sum(last - first + 1 for first, last, _ in await member.acquire()) == 3

    share(scenario)


def test_what_was_done_under_this_very_leadership_stays_done() -> None:
    """SHR-33: a share partition that left memory is loaded again."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(4)
        assert await member.acquire() == [(0, 3, 1)]
        assert await member.acknowledge((0, 3, [ACCEPT])) == 0
        bench.broker.loaded().fence()
        bench.produce(1)
        assert await member.acquire() == [(4, 4, 1)]

    share(scenario)


def test_what_is_kept_reaches_to_the_end_of_the_log() -> None:
    """At a higher count than that of what was done: the coordinator keeps the highest."""
    state = ShareState(
        3, 10, (StateBatch(10, 14, ARCHIVED, 1), StateBatch(16, 20, ACKNOWLEDGED, 2))
    )
    assert without_lost(state, 21) is None
    lost = without_lost(state, 18)
    assert lost is not None
    assert lost.start_offset == 10
    assert lost.batches == (
        StateBatch(10, 14, ARCHIVED, 1),
        StateBatch(16, 17, ACKNOWLEDGED, 2),
        StateBatch(18, 20, AVAILABLE, 3),
    )
    assert lost.taken_back == (StateBatch(18, 20, AVAILABLE, 3),)
    released = ShareState(3, 10, (StateBatch(10, 14, AVAILABLE, 1),))
    assert without_lost(released, 10) is None
    for one in (state, released):
        begun = without_lost(one, 4)
        assert begun is not None
        assert (begun.start_offset, begun.batches) == (4, ())
    # An admin may have set the start, to the end that the log has by now.
    assert without_lost(ShareState(3, 10, ()), 4) is None


def test_a_read_is_the_first_of_a_leadership_once() -> None:
    """And no read is, where it could not be noted."""
    reads = FirstReads(groups_max=2)
    one, other, third = (key(group_id=name) for name in ("g", "h", "i"))
    assert reads.is_first(one, 1)
    reads.note(one, 1)
    assert not reads.is_first(one, 1)
    assert reads.is_first(one, 2)
    reads.note(one, 2)
    reads.note(other, 2)
    assert not reads.is_first(third, 2)
    reads.note(one, 3)
    assert reads.is_first(third, 3)
