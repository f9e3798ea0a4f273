"""The table of rules of the diagnosis: order, words and what is not known (CON-119)."""

from dataclasses import replace

import pytest

from barnabas_client.admin.values.groups import MemberDescription
from barnabas_client.facts.group_diagnosis import (
    OPEN_TRANSACTION_MS,
    REBALANCES_MIN,
    REBALANCING_MS,
    State,
    diagnose,
)
from barnabas_client.facts.group_observation import GroupObservation, OpenTransaction
from barnabas_client.facts.group_watch import GroupMovement
from barnabas_protocol.ids import TopicPartition

PLACES = tuple(TopicPartition("orders", number) for number in range(6))
NOW_MS = 1_000_000


def member(name: str, *places: TopicPartition) -> MemberDescription:
    return MemberDescription(
        member_id=f"{name}-id", client_id=name, client_host="/h", assignment=places
    )


def group(*members: MemberDescription, **seen: object) -> GroupObservation:
    """All of six partitions, a hundred records each, read by one member."""
    values = {
        "state": "Stable",
        "members": members or (member("web-1", *PLACES),),
        "committed": dict.fromkeys(PLACES, 100),
        "starts": dict.fromkeys(PLACES, 0),
        "ends": dict.fromkeys(PLACES, 100),
        **seen,
    }
    return GroupObservation(group_id="billing", type="Consumer", **values)  # type: ignore[arg-type]


def rules(seen: GroupObservation, movement: GroupMovement | None = None) -> list[str]:
    return [one.rule for one in diagnose(seen, NOW_MS, movement or GroupMovement())]


def test_there_is_always_something_to_say() -> None:
    """A page without a word leaves its reader to guess."""
    assert rules(group()) == ["nothing_wrong"]
    assert rules(GroupObservation(group_id="g", type="Classic", state="Dead")) == ["no_members"]


def test_the_worst_comes_first_and_among_equals_the_order_of_the_table() -> None:
    """A spare member explains nothing while a leader is away."""
    seen = group(
        member("web-1", *PLACES[1:]),
        member("web-2"),
        committed={**dict.fromkeys(PLACES, 50), PLACES[2]: 5},
        starts=dict.fromkeys(PLACES, 10),
        leaderless=frozenset(PLACES[:1]),
    )
    found = rules(replace(seen, ends=dict.fromkeys(PLACES[1:], 100)))
    assert found == ["leader_away", "commit_gone", "idle_member", "unknown"]


def test_many_partitions_are_named_by_the_first_ones() -> None:
    """What a page shows is bounded, whatever a group reads."""
    (found,) = diagnose(group(state="Empty", members=(), ends=dict.fromkeys(PLACES, 101)), NOW_MS)
    assert (
        found.evidence == "No members: 6 records wait in orders-0, orders-1, orders-2 and 3 more."
    )
    assert found.state is State.WARNING


def test_a_group_of_which_nothing_is_committed_is_not_called_fine() -> None:
    """Spark keeps its offsets elsewhere."""
    (found,) = diagnose(group(committed={}), NOW_MS)
    assert (found.rule, found.state) == ("unknown", State.UNKNOWN)
    assert "Nothing is committed for orders-0" in found.evidence


def test_a_topic_that_is_gone_is_not_called_fine() -> None:
    """Its end is not known, and an unknown lag is no lag of zero."""
    (found,) = diagnose(group(ends={}, starts={}), NOW_MS)
    assert (found.rule, found.state) == ("unknown", State.UNKNOWN)
    empty = group(ends={}, starts={}, members=(), state="Empty")
    assert {one.state for one in diagnose(empty, NOW_MS)} == {State.UNKNOWN}


def test_members_without_any_partition_subscribe_to_nothing_that_is_there() -> None:
    """Not the same as one member too many."""
    seen = group(member("web-1"), committed={}, starts={}, ends={})
    (found,) = diagnose(seen, NOW_MS)
    assert (found.rule, found.state) == ("idle_member", State.WARNING)
    assert "are not there" in found.next


def test_a_commit_beyond_the_end_is_told() -> None:
    """The topic was made anew under its old name, or an unclean leader has less."""
    (found,) = diagnose(group(committed={PLACES[0]: 500}, ends={PLACES[0]: 7}), NOW_MS)[:1]
    assert (found.rule, found.state) == ("commit_gone", State.CRITICAL)
    assert "orders-0 ends at 7, before the commit 500" in found.evidence


@pytest.mark.parametrize("is_hanging", [True, False])
def test_a_transaction_that_nobody_ends_is_worse(is_hanging: bool) -> None:
    """Its coordinator has forgotten it: only an administrator can end it."""
    held = OpenTransaction(
        place=PLACES[3],
        start_offset=88_213,
        producer_id=7,
        since_ms=NOW_MS - OPEN_TRANSACTION_MS,
        is_hanging=is_hanging,
    )
    (found,) = [
        one
        for one in diagnose(group(open_transactions=(held,)), NOW_MS)
        if one.rule == "open_transaction"
    ]
    assert found.state is (State.CRITICAL if is_hanging else State.WARNING)
    assert "orders-3 held back at 88,213 by a transaction of producer 7" in found.evidence
    assert found.command == "barnabas transaction hanging"


def test_a_rebalance_that_does_not_end_is_told_and_a_few_at_a_start_are_not() -> None:
    """Members that start together join one by one."""
    assert rules(group(), GroupMovement(rebalancing_ms=REBALANCING_MS)) == ["rebalancing"]
    start = GroupMovement(rebalance_count=REBALANCES_MIN - 1, since_rebalance_ms=0)
    assert rules(group(), start) == ["nothing_wrong"]


def test_no_rate_is_called_slow_within_what_a_commit_interval_explains() -> None:
    """Members commit every five seconds: lag goes up and down by what comes meanwhile."""
    lagging = group(ends=dict.fromkeys(PLACES, 300))
    movement = GroupMovement(arriving=100.0, reading=99.0, low_before=0, low_after=500)
    assert rules(lagging, movement) == ["nothing_wrong"]
    assert rules(lagging, replace(movement, low_after=501)) == ["slower"]


def test_names_that_others_chose_are_quoted_in_commands() -> None:
    """A group's name is text of a client: what is copied must not run it."""
    seen = replace(group(ends=dict.fromkeys(PLACES, 101)), group_id="a; rm -rf /")
    (found,) = diagnose(seen, NOW_MS)
    assert found.command == "barnabas group describe 'a; rm -rf /' --watch 30s"
    (found,) = diagnose(replace(seen, group_id="--execute"), NOW_MS)
    assert found.command == "barnabas group describe --watch 30s -- --execute"
