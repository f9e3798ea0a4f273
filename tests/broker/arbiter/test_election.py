"""What swaps have come to, and when a leader is gone."""

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterRecord, Leader, Member, Stored, SwapOutcome
from barnabas_broker.arbiter.election import Expiry, Verdict, judge

ONE, OTHER = Member(1, b"1" * 16), Member(2, b"2" * 16)
LEADER, RIVAL = Leader(1, "one", 9092), Leader(2, "two", 9092)
RECORD = ArbiterRecord("c", 4, RIVAL, (ONE, OTHER), 100)
RENEWED = RECORD._replace(renewed_ms=0)
TRIED = RECORD._replace(controller_epoch=5, leader=LEADER, renewed_ms=200)
NAMED = {
    "tried": TRIED,
    "rival": TRIED._replace(leader=RIVAL, renewed_ms=201),
    "later": TRIED._replace(controller_epoch=6),
}


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
    record = NAMED[stored] if isinstance(stored, str) else stored
    assert record is None or isinstance(record, ArbiterRecord)
    assert judge(TRIED, outcome, Stored(record, 9)) is verdict


def test_leader_expires_when_the_record_has_not_changed_for_the_time_to_live() -> None:
    """Rule 8: by the observer's clock; the clock of the writer does not matter."""
    expiry = Expiry(1000)
    assert not expiry.observe(Stored(RECORD, 1), 0)
    assert not expiry.observe(Stored(RECORD, 1), 999)
    assert not expiry.observe(Stored(RENEWED, 2), 1000)
    assert not expiry.observe(Stored(RENEWED, 2), 1999)
    assert expiry.observe(Stored(RENEWED, 2), 2000)
    assert expiry.observe(Stored(RECORD._replace(leader=None), 3), 2001)
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
