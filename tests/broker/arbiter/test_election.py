"""Decisions about leading, rule by rule."""

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterRecord, Leader, Member, Stored, SwapOutcome
from barnabas_broker.arbiter.election import (
    Expiry,
    ForeignClusterError,
    NotAMemberError,
    Verdict,
    change_members,
    judge,
    renew,
    resign,
    take_over,
)

ONE, OTHER = Member(1, b"1" * 16), Member(2, b"2" * 16)
LEADER, RIVAL = Leader(1, "one", 9092), Leader(2, "two", 9092)
RECORD = ArbiterRecord("c", 4, RIVAL, (ONE, OTHER), 100)


def test_first_leader_has_epoch_one_and_is_the_only_member() -> None:
    """CTL-2."""
    assert take_over(None, "c", ONE, LEADER, 7) == ArbiterRecord("c", 1, LEADER, (ONE,), 7)


def test_cleared_record_does_not_take_the_epoch_back() -> None:
    """CTL-10: the log knows the last one."""
    assert take_over(None, "c", ONE, LEADER, 7, known_epoch=4).controller_epoch == 5


def test_taking_over_raises_the_epoch_by_one_and_keeps_the_members() -> None:
    """Rule 1, CTL-2: also for the node that led before."""
    won = take_over(RECORD, "c", ONE, LEADER, 200)
    assert won == ArbiterRecord("c", 5, LEADER, (ONE, OTHER), 200)
    assert take_over(won, "c", ONE, LEADER, 300).controller_epoch == 6


def test_only_a_member_of_the_cluster_takes_over() -> None:
    """Rules 1 and 6: an empty disk is not the member that the node was."""
    with pytest.raises(NotAMemberError):
        take_over(RECORD, "c", ONE._replace(directory_id=b"x" * 16), LEADER, 200)
    with pytest.raises(ForeignClusterError):
        take_over(RECORD, "d", ONE, LEADER, 200)


def test_members_change_within_the_leaders_own_epoch() -> None:
    """Rule 4."""
    assert change_members(RECORD, 4, (OTHER,), 200).members == (OTHER,)
    for epoch, members in ((3, (OTHER,)), (4, ())):
        with pytest.raises(ValueError, match=r"epoch|member"):
            change_members(RECORD, epoch, members, 200)


def test_giving_up_keeps_the_epoch() -> None:
    """CTL-7: so that the next one is higher."""
    assert resign(RECORD, 200) == RECORD._replace(leader=None, renewed_ms=200)
    assert renew(RECORD, 200) == RECORD._replace(renewed_ms=200)


@pytest.mark.parametrize(
    ("outcome", "stored", "verdict"),
    [
        (SwapOutcome.STORED, RECORD, Verdict.WON),
        (SwapOutcome.UNKNOWN, "tried", Verdict.WON),
        (SwapOutcome.CONFLICT, "tried", Verdict.WON),
        (SwapOutcome.CONFLICT, "rival", Verdict.LOST),
        (SwapOutcome.UNKNOWN, "rival", Verdict.LOST),
        (SwapOutcome.CONFLICT, "later", Verdict.LOST),
        (SwapOutcome.UNKNOWN, RECORD, Verdict.TRY_AGAIN),
        (SwapOutcome.UNKNOWN, None, Verdict.TRY_AGAIN),
    ],
)
def test_swap_whose_reply_is_lost_is_judged_by_what_is_stored(
    outcome: SwapOutcome, stored: object, verdict: Verdict
) -> None:
    """Rule 7."""
    tried = take_over(RECORD, "c", ONE, LEADER, 200)
    named = {"tried": tried, "rival": take_over(RECORD, "c", OTHER, RIVAL, 201)}
    named["later"] = take_over(tried, "c", ONE, LEADER, 202)
    record = named[stored] if isinstance(stored, str) else stored
    assert record is None or isinstance(record, ArbiterRecord)
    assert judge(tried, outcome, Stored(record, 9)) is verdict


def test_leader_expires_when_the_record_has_not_changed_for_the_time_to_live() -> None:
    """Rule 8: by the observer's clock; the clock of the writer does not matter."""
    expiry = Expiry(1000)
    assert not expiry.observe(Stored(RECORD, 1), 0)
    assert not expiry.observe(Stored(RECORD, 1), 999)
    assert not expiry.observe(Stored(renew(RECORD, 0), 2), 1000)
    assert not expiry.observe(Stored(renew(RECORD, 0), 2), 1999)
    assert expiry.observe(Stored(renew(RECORD, 0), 2), 2000)
    assert expiry.observe(Stored(resign(RECORD, 0), 3), 2001)
    assert expiry.observe(Stored(None, 0), 2002)


def test_observer_that_could_not_look_begins_to_count_anew() -> None:
    """Rule 8: it was paused, or the store was away, and the leader could not renew either."""
    expiry = Expiry(1000)
    assert not expiry.observe(Stored(RECORD, 1), 0)
    assert not expiry.observe(Stored(RECORD, 1), 900)
    assert not expiry.observe(Stored(RECORD, 1), 60_000)
    assert not expiry.observe(Stored(RECORD, 1), 60_900)
    assert expiry.observe(Stored(RECORD, 1), 61_000)


def test_observer_that_always_looks_seldom_finds_a_leader_gone_too() -> None:
    """Rule 8 is for liveness: beginning anew each time would never end."""
    expiry = Expiry(1000)
    assert not expiry.observe(Stored(RECORD, 1), 95_000)
    assert not expiry.observe(Stored(RECORD, 1), 100_000)
    assert expiry.observe(Stored(RECORD, 1), 105_000)
