"""When a node of the metadata log acts: pure, so each case is one situation."""

from dataclasses import replace

from barnabas_broker.metadata.quorum.messages import UNKNOWN_RECORD, ArbiterView
from barnabas_broker.metadata.quorum.node import Role
from barnabas_broker.metadata.quorum.timing import (
    BEHIND_DELAY_MS,
    CANDIDATE_STEP_MS,
    Act,
    QuorumSettings,
    QuorumTiming,
    Situation,
)
from barnabas_broker.metadata.quorum.voters import Voter

SEATS = [Voter(node_id, b"d") for node_id in range(3)]
SETTINGS = QuorumSettings()
LED_BY_0 = ArbiterView(token=5, controller_epoch=3, leader_id=0, members=frozenset(SEATS))
FOLLOWING = Situation(now_ms=0, voter=SEATS[1], role=Role.FOLLOWER, record=LED_BY_0)
LEADING = replace(FOLLOWING, voter=SEATS[0], role=Role.LEADING)


def first_ms(situation: Situation, act: Act, until_ms: int = 10_000) -> int | None:
    """When an act is due first, if nothing changes; the majority is heard unless told."""
    timing = QuorumTiming(SETTINGS, 0)
    for now_ms in range(0, until_ms, 5):
        if act in timing.due(replace(situation, now_ms=now_ms)):
            return now_ms
    return None


def test_a_follower_of_a_live_leader_only_reads_now_and_then() -> None:
    """CTL-3: do not compete."""
    timing = QuorumTiming(SETTINGS, 0)
    waiting = replace(FOLLOWING, is_waiting=True)
    acts = [
        act for now_ms in range(0, 5000, 50) for act in timing.due(replace(waiting, now_ms=now_ms))
    ]
    assert acts == [Act.READ] * 4


def test_members_take_over_one_after_the_other_where_nobody_leads() -> None:
    """Candidates that have less let the others go first."""
    nobody = replace(FOLLOWING, record=replace(LED_BY_0, leader_id=None))
    for rank, voter in enumerate(SEATS):
        delay_ms = first_ms(replace(nobody, voter=voter), Act.TAKE_OVER)
        assert delay_ms == rank * CANDIDATE_STEP_MS
    behind = replace(nobody, voter=SEATS[0], is_behind=True)
    assert first_ms(behind, Act.TAKE_OVER) == BEHIND_DELAY_MS


def test_an_observer_never_takes_over() -> None:
    """Rule 1."""
    record = replace(LED_BY_0, leader_id=None, members=frozenset(SEATS[:1]))
    assert first_ms(replace(FOLLOWING, record=record), Act.TAKE_OVER) is None


def test_a_restarted_leader_tries_at_once() -> None:
    """Rule 1: it takes a new epoch, and nobody else leads."""
    assert first_ms(replace(FOLLOWING, voter=SEATS[0]), Act.TAKE_OVER) == 0


def test_refused_connections_and_an_old_record_each_let_others_take_over() -> None:
    """Rule 8 and `broker.fence.on.refused.ms`."""
    assert first_ms(FOLLOWING, Act.TAKE_OVER) is None
    refused = replace(FOLLOWING, refused_since_ms=100)
    assert first_ms(refused, Act.TAKE_OVER) == 100 + SETTINGS.fence_on_refused_ms
    assert first_ms(replace(FOLLOWING, is_expired=True), Act.TAKE_OVER) == 0


def test_a_leader_renews_and_gives_up_without_a_majority() -> None:
    """CTL-14."""
    assert first_ms(LEADING, Act.RENEW) == SETTINGS.time_to_live_ms // 3
    assert first_ms(LEADING, Act.RESIGN) == SETTINGS.quorum_lost_ms
    heard = replace(LEADING, majority_heard_ms=9_000)
    assert first_ms(heard, Act.RESIGN) is None


def test_a_lone_member_does_not_renew() -> None:
    """Nobody else could take over: an idle broker writes nothing."""
    alone = replace(LED_BY_0, members=frozenset(SEATS[:1]))
    lone = replace(LEADING, record=alone, majority_heard_ms=10_000)
    assert first_ms(lone, Act.RENEW) is None


def test_who_gave_up_lets_others_go_first() -> None:
    """It heard nobody, so others may hear one another."""
    timing = QuorumTiming(SETTINGS, 0)
    gave_up_ms = SETTINGS.quorum_lost_ms
    assert Act.RESIGN in timing.due(replace(LEADING, now_ms=gave_up_ms))
    nobody = replace(FOLLOWING, voter=SEATS[0], record=replace(LED_BY_0, leader_id=None))
    due_ms = [
        now_ms
        for now_ms in range(gave_up_ms, gave_up_ms + 3000, 50)
        if Act.TAKE_OVER in timing.due(replace(nobody, now_ms=now_ms))
    ]
    assert due_ms[0] == gave_up_ms + 1000


def test_only_a_node_that_may_founds_and_only_when_it_was_seen_that_there_is_no_record() -> None:
    """Decision 0007: an arbiter that was not read yet is not one without a record."""
    none = replace(UNKNOWN_RECORD, token=0)
    may = replace(FOLLOWING, record=none, may_found=True)
    assert first_ms(may, Act.FOUND) == 0
    assert first_ms(replace(may, may_found=False), Act.FOUND) is None
    assert first_ms(replace(may, record=UNKNOWN_RECORD), Act.FOUND) is None


def test_the_record_is_read_often_at_first_and_less_often_later_while_the_leader_is_doubted() -> (
    None
):
    """A store in a cluster is not to be flooded by all brokers."""
    timing = QuorumTiming(SETTINGS, 0)
    doubted = replace(FOLLOWING, is_doubted=True, is_waiting=True)
    read_ms = [
        now_ms
        for now_ms in range(0, 6000, 5)
        if Act.READ in timing.due(replace(doubted, now_ms=now_ms))
    ]
    assert sum(at_ms < 200 for at_ms in read_ms) >= 6
    assert sum(at_ms >= 4000 for at_ms in read_ms) <= 8
