"""A leader and what its followers' fetches mean: high watermark, ISR, leadership."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.metadata.records import BrokerStateRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.replication.led_partition import Leader, lead
from tests.support.replica_nodes import (
    TP,
    broker_record,
)

LAG_MS = 30_000


async def wait_ms(leader: Leader, duration_ms: int) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(duration_ms / 1000)
    assert leader.node.clock.monotonic_ms() >= duration_ms


def test_high_watermark_is_the_lowest_log_end_of_the_isr() -> None:
    """REP-1: recomputed with each fetch of a follower; unknown ends hold it back."""

    async def test(leader: Leader) -> None:
        leader.produce(10)
        leader.fetched(1, 10)
        assert leader.high_watermark == 0
        leader.fetched(2, 4)
        assert leader.high_watermark == 4
        leader.fetched(2, 10)
        assert leader.high_watermark == 10

    lead(test)


def test_high_watermark_never_falls_when_a_follower_lost_records() -> None:
    """REP-1: a member that comes back with less holds it where it is."""

    async def test(leader: Leader) -> None:
        leader.produce(10)
        leader.fetched(1, 10)
        leader.fetched(2, 10)
        leader.fetched(2, 3)
        assert leader.high_watermark == 10
        leader.produce(1)
        leader.fetched(1, 11)
        assert leader.high_watermark == 10

    lead(test)


def test_under_min_isr_nothing_is_committed() -> None:
    """REP-2: with fewer in sync than acks=all needs the watermark stands still."""

    async def test(leader: Leader) -> None:
        await leader.state(0)
        leader.produce(5)
        assert leader.high_watermark == 0
        leader.fetched(1, 5)
        assert leader.proposals.asked == [(0, 1)]
        await leader.state(0, 1)
        assert leader.high_watermark == 5

    lead(test, min_insync_replicas="2")


def test_a_wished_member_counts_before_the_controller_has_answered() -> None:
    """REP-8, KIP-497: the maximal ISR is the old one and who is to join it."""

    async def test(leader: Leader) -> None:
        await leader.state(0, 1)
        leader.produce(5)
        leader.fetched(1, 5)
        leader.fetched(2, 5)
        assert leader.proposals.asked == [(0, 1, 2)]
        assert leader.partition.maximal_isr == {0, 1, 2}
        leader.produce(1)
        leader.fetched(1, 6)
        assert leader.high_watermark == 5
        leader.fetched(2, 6)
        assert leader.high_watermark == 6

    lead(test)


def test_a_shrink_counts_only_when_it_is_confirmed() -> None:
    """REP-6, REP-8: until then the slow member holds the watermark."""

    async def test(leader: Leader) -> None:
        leader.produce(5)
        leader.fetched(1, 5)
        await wait_ms(leader, LAG_MS + 1)
        leader.fetched(1, 5)
        leader.partition.check_isr_shrink(leader.node.clock.monotonic_ms())
        assert leader.proposals.asked == [(0, 1)]
        assert leader.high_watermark == 0
        await leader.state(0, 1)
        assert leader.high_watermark == 5

    lead(test)


def test_a_follower_at_the_log_end_never_leaves() -> None:
    """REP-6: an idle partition's followers are caught up, however long ago they fetched."""

    async def test(leader: Leader) -> None:
        leader.produce(5)
        leader.fetched(1, 5)
        leader.fetched(2, 5)
        await wait_ms(leader, 100 * LAG_MS)
        leader.partition.check_isr_shrink(leader.node.clock.monotonic_ms())
        assert leader.proposals.asked == []

    lead(test)


def test_a_slow_follower_leaves_and_a_stuck_one_too() -> None:
    """REP-6: one that moves without ever being caught up, and one that does not move."""

    async def test(leader: Leader) -> None:
        leader.produce(2)
        for round_number in range(8):
            leader.produce(5)
            leader.fetched(1, round_number + 1)
            leader.fetched(2, 1)
            await wait_ms(leader, LAG_MS // 4)
        leader.partition.check_isr_shrink(leader.node.clock.monotonic_ms())
        assert leader.proposals.asked == [(0,)]

    lead(test)


def test_a_follower_that_fetches_no_more_stays_out() -> None:
    """REP-7: it has all that is committed, as it holds that back; it must not join for that."""

    async def test(leader: Leader) -> None:
        leader.fetched(1, 0)
        leader.fetched(2, 0)
        leader.produce(2)
        leader.fetched(2, 2)
        await asyncio.sleep(LAG_MS / 1000 + 1)
        leader.fetched(2, 2)
        leader.partition.check_isr_shrink(leader.node.clock.monotonic_ms())
        assert leader.proposals.asked == [(0, 2)]
        await leader.state(0, 2)
        leader.partition.check_isr_shrink(leader.node.clock.monotonic_ms())
        assert leader.proposals.asked == [(0, 2)]
        assert leader.high_watermark == 2
        leader.fetched(1, 2)
        assert leader.proposals.asked == [(0, 2), (0, 2, 1)]

    lead(test)


def test_a_follower_that_has_what_there_was_at_its_fetch_before_stays() -> None:
    """REP-6: under load nobody is ever at the log end, but each fetch reaches the last one's."""

    async def test(leader: Leader) -> None:
        for number in range(20):
            leader.produce(5)
            leader.fetched(1, 5 * number)
            leader.fetched(2, 5 * number)
            await wait_ms(leader, LAG_MS // 4)
            leader.partition.check_isr_shrink(leader.node.clock.monotonic_ms())
        assert leader.proposals.asked == []

    lead(test)


@pytest.mark.parametrize(
    ("record", "may_join"),
    [
        (broker_record(2), True),
        (BrokerStateRecord(2, 1, True, False), False),
        (BrokerStateRecord(2, 1, False, True), False),
        (broker_record(2, broker_epoch=7), False),
    ],
    ids=["live", "fenced", "shutting down", "newer incarnation"],
)
def test_only_who_may_joins_the_isr(record: Any, may_join: bool) -> None:
    """REP-7, STOP-6, KIP-841: not a fenced broker, one that stops, or another incarnation of it."""

    async def test(leader: Leader) -> None:
        await leader.state(0, 1)
        leader.produce(3)
        leader.fetched(1, 3)
        leader.fetched(2, 0)
        await leader.node.learn([record])
        is_newer = getattr(record, "broker_epoch", 1) == 7
        if is_newer:
            with pytest.raises(KafkaError) as raised:
                leader.fetched(2, 3)
            assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            leader.fetched(2, 3)
        assert leader.proposals.asked == ([(0, 1, 2)] if may_join else [])

    lead(test)


def test_a_broker_that_is_unfenced_joins_without_another_fetch() -> None:
    """REP-7: in a session an idle partition is not named again; the metadata is what changes."""

    async def test(leader: Leader) -> None:
        await leader.state(0, 1)
        await leader.node.learn([BrokerStateRecord(2, 1, True, False)])
        leader.fetched(2, 0)
        assert leader.proposals.asked == []
        await leader.node.learn([BrokerStateRecord(2, 1, False, False)])
        assert leader.proposals.asked == [(0, 1, 2)]

    lead(test)


def test_a_follower_joins_only_beyond_the_start_of_the_leader_epoch() -> None:
    """REP-7: with less it may lack what former leaders have committed."""

    async def test(leader: Leader) -> None:
        leader.produce(10)
        await leader.state(0, leader_epoch=1)
        assert leader.high_watermark == 10
        leader.fetched(1, 9)
        assert leader.proposals.asked == []
        leader.fetched(1, 10)
        assert leader.proposals.asked == [(0, 1)]

    lead(test, isr=(0,))


def test_two_that_catch_up_together_join_one_after_the_other() -> None:
    """REP-8: one request at a time, and the next one by itself."""

    async def test(leader: Leader) -> None:
        leader.fetched(1, 0)
        leader.fetched(2, 0)
        assert leader.proposals.asked == [(0, 1)]
        await leader.state(0, 1)
        assert leader.proposals.asked == [(0, 1), (0, 1, 2)]

    lead(test, isr=(0,))


def test_a_refused_wish_may_be_wished_again() -> None:
    """REP-8: INELIGIBLE_REPLICA brings the committed ISR back; the next fetch asks anew."""

    async def test(leader: Leader) -> None:
        leader.fetched(1, 0)
        leader.partition.isr_refused()
        assert leader.partition.maximal_isr == {0}
        leader.fetched(1, 0)
        assert leader.proposals.asked == [(0, 1), (0, 1)]

    lead(test, isr=(0,))


def test_who_is_about_to_join_is_waited_for() -> None:
    """REP-2: or a busy partition's watermark would run ahead of a follower for ever."""

    async def test(leader: Leader) -> None:
        leader.produce(5)
        assert leader.high_watermark == 5
        leader.fetched(1, 5)  # caught up, and wished for
        leader.partition.isr_refused()
        leader.produce(5)
        assert leader.high_watermark == 5
        await wait_ms(leader, LAG_MS + 1)
        leader.produce(1)
        assert leader.high_watermark == 11

    lead(test, isr=(0,))


def test_an_older_state_changes_nothing() -> None:
    """LEAD-12: late or repeated delivery."""

    async def test(leader: Leader) -> None:
        known = leader.partition.image
        await leader.state(1, leader=1, leader_epoch=1)
        leader.partition.become(known)
        assert not leader.partition.is_leader
        assert leader.partition.leader_epoch == 1

    lead(test)


def test_a_new_leader_knows_nothing_of_its_followers() -> None:
    """LEAD-11: what they had said to an earlier leadership of ours is forgotten."""

    async def test(leader: Leader) -> None:
        leader.produce(5)
        for node_id in (1, 2):
            leader.fetched(node_id, 5)
        await leader.state(0, 1, 2, leader=1, leader_epoch=1)
        await leader.state(0, 1, 2, leader=0, leader_epoch=2)
        leader.produce(1)
        leader.fetched(1, 6)
        assert leader.high_watermark == 5
        assert leader.partition.leading_since_offset == 5
        assert leader.partition.log.leader_epochs.epoch_for(5) == 2

    lead(test)


def test_acks_all_waits_for_the_isr_and_acks_1_does_not() -> None:
    """REQ-2: what the leader alone has is no more than that."""

    async def test(leader: Leader) -> None:
        assert [result.error for result in leader.send(acks=1)] == [None]
        waiting = leader.send()
        assert waiting == []
        leader.fetched(1, 2)
        assert waiting == []
        leader.fetched(2, 2)
        assert [result.error for result in waiting] == [None]

    lead(test)


def test_too_few_in_sync_refuse_acks_all_before_the_append() -> None:
    """REQ-3: NOT_ENOUGH_REPLICAS (19), and nothing is in the log."""

    async def test(leader: Leader) -> None:
        await leader.state(0)
        (result,) = leader.send()
        assert result.error is not None
        assert result.error.code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert leader.partition.log.log_end_offset == 0
        assert leader.send(acks=1)[0].error is None

    lead(test, min_insync_replicas="2")


def test_below_min_isr_an_append_that_waits_is_never_acknowledged() -> None:
    """REP-2, REQ-3: the ISR shrank after the append; REQUEST_TIMED_OUT, and the data stays."""

    async def test(leader: Leader) -> None:
        waiting = leader.send()
        leader.fetched(2, 1)
        await leader.state(0)
        assert waiting == []
        await wait_ms(leader, 2_000)
        (result,) = waiting
        assert result.error is not None
        assert result.error.code == ErrorCode.REQUEST_TIMED_OUT
        assert leader.partition.log.log_end_offset == 1

    lead(test, min_insync_replicas="2")


def test_reached_by_too_few_is_an_error_of_its_own() -> None:
    """REQ-3: NOT_ENOUGH_REPLICAS_AFTER_APPEND (20), as after a change of `min.insync.replicas`."""

    async def test(leader: Leader) -> None:
        await leader.state(0, 1)
        waiting = leader.send()
        strict = LogConfig.build({}, {"min.insync.replicas": "3"})
        leader.fetched(2, 0)
        leader.partition.log.advance_high_watermark(1)
        leader.partition.log.update_config(strict)
        leader.node.replicas.produce_purgatory.check_and_complete(TP)
        (result,) = waiting
        assert result.error is not None
        assert result.error.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    lead(test)


def test_losing_the_leadership_answers_who_waits() -> None:
    """LEAD-11: NOT_LEADER_OR_FOLLOWER (6), at once."""

    async def test(leader: Leader) -> None:
        waiting = leader.send()
        await leader.state(0, 1, 2, leader=1, leader_epoch=1)
        (result,) = waiting
        assert result.error is not None
        assert result.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    lead(test)


def test_what_is_staged_is_written_in_the_epoch_it_was_staged_in() -> None:
    """LEAD-11: leadership may change in the middle of a turn."""

    async def test(leader: Leader) -> None:
        batch = encode_batch([Record(0, 1_700_000_000_000, None, b"v")])
        leader.partition.append(memoryview(bytearray(batch)), 1, leader.node.clock.wall_ms())
        await leader.state(0, 1, 2, leader_epoch=1)
        assert leader.partition.log.log_end_offset == 1
        assert leader.partition.leading_since_offset == 1
        assert leader.partition.log.leader_epochs.epoch_for(0) == 0

    lead(test)


def test_a_broker_without_a_replica_is_no_follower() -> None:
    """REP-3: UNKNOWN_LEADER_EPOCH (75), as our metadata may be the older one."""

    async def test(leader: Leader) -> None:
        with pytest.raises(KafkaError) as raised:
            leader.fetched(3, 0)
        assert raised.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH

    lead(test)


def test_low_watermark_is_that_of_the_live_replicas() -> None:
    """SEG-13: whoever is fenced is not waited for."""

    async def test(leader: Leader) -> None:
        leader.produce(5)
        for node_id in (1, 2):
            leader.fetched(node_id, 5)
        await leader.partition.log.delete_records(4)
        assert leader.partition.low_watermark() == 0
        leader.fetched(1, 5, start=4)
        assert leader.partition.low_watermark() == 0
        await leader.node.learn([BrokerStateRecord(2, 1, True, False)])
        assert leader.partition.low_watermark() == 4

    lead(test)
