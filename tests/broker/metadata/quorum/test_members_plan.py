"""Whom the leader of the metadata log asks to be members."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.metadata.quorum.members_plan import (
    MemberSituation,
    has_to_hand_over,
    is_heir_missing,
    plan_members,
)
from barnabas_broker.metadata.quorum.voters import Voter

NOW_MS = 1_000_000


def voter(node_id: int, disk: bytes = b"a") -> Voter:
    return Voter(node_id, disk)


def situation(
    members: Iterable[int], heard: Iterable[int], leader: int = 0, **changes: object
) -> MemberSituation:
    """All brokers that are heard are registered, caught up, and were heard just now."""
    heard = set(heard) | {leader}
    base = MemberSituation(
        now_ms=NOW_MS,
        leader=voter(leader),
        members=frozenset(map(voter, members)),
        broker_ids=frozenset(heard | set(members)),
        heard_ms={voter(node_id): NOW_MS for node_id in heard if node_id != leader},
        leading_since_ms=0,
        caught_up=frozenset(map(voter, heard)),
        members_max=3,
        members_min=2,
        member_lost_ms=60_000,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def planned(now: MemberSituation) -> set[int] | None:
    members = plan_members(now)
    return None if members is None else {member.node_id for member in members}


def test_a_lone_member_takes_in_the_brokers_with_the_lowest_ids() -> None:
    """Section 2 of the design: at most `metadata.members`."""
    assert planned(situation([0], [1, 2, 3, 4])) == {0, 1, 2}
    assert planned(situation([0], [1])) == {0, 1}
    assert planned(situation([0], [])) is None
    assert planned(situation([0], [4], leader=0, members_max=1)) is None


def test_an_heir_is_missing_where_the_others_can_neither_lead_nor_are_all_members() -> None:
    """CTL-7: a leader that stops gives leadership up: somebody must be able to take it."""
    assert is_heir_missing(situation([0], [1, 2]))
    assert is_heir_missing(situation([0], [1, 2], caught_up=frozenset({voter(0)})))
    assert is_heir_missing(situation([0, 1], [1, 2]))
    assert is_heir_missing(situation([0, 1, 2], [1, 3]))  # 2 is silent
    assert not is_heir_missing(situation([0, 1, 2], [1, 2, 3]))
    assert not is_heir_missing(situation([0, 1], [1]))  # nobody else could be made one
    assert not is_heir_missing(situation([0], []))


def test_members_that_are_as_they_should_be_stay() -> None:
    """Nothing is asked of the arbiter without a reason."""
    assert planned(situation([0, 1, 2], [1, 2, 3, 4])) is None
    assert planned(situation([0, 1, 4], [0, 1], leader=4)) is None


def test_a_member_that_is_to_go_leaves_while_it_runs_and_does_not_come_back() -> None:
    """Three brokers become one: with the pods first, the log was left without a majority."""
    assert planned(situation([0, 1, 2], [1, 2], leaving_ids=frozenset({2}))) == {0, 1}
    assert planned(situation([0, 1], [1, 2], leaving_ids=frozenset({2}))) is None
    assert planned(situation([0, 1], [1], leaving_ids=frozenset({1}))) == {0}
    assert planned(situation([0, 1, 2], [1, 2, 3], leaving_ids=frozenset({2}))) == {0, 1, 3}
    assert planned(situation([0], [1], leaving_ids=frozenset({1}))) is None


def test_a_member_that_is_to_go_stays_while_the_others_are_no_majority_without_it() -> None:
    """Broker 1 is down: 0 and 1 alone would be a log that waits for 1."""
    going, just_now = frozenset({2}), NOW_MS - 5000
    down = situation([0, 1, 2], [2], leaving_ids=going, leading_since_ms=just_now)
    assert planned(down) is None
    assert planned(situation([0, 1, 2], [2], leaving_ids=going)) == {0, 2}  # 1 is lost
    two_left = situation([0, 2], [2], leaving_ids=going, broker_ids=frozenset({0, 1, 2}))
    assert planned(two_left) is None


def test_a_leader_that_is_to_go_hands_over_to_a_member_that_stays_and_has_all() -> None:
    """The leader cannot leave the members: another one has to lead first."""
    going = frozenset({2})
    assert has_to_hand_over(situation([0, 1, 2], [0, 1], leader=2, leaving_ids=going))
    assert not has_to_hand_over(situation([0, 1, 2], [0, 1], leader=2))
    assert not has_to_hand_over(situation([0, 1, 2], [0, 1], leader=1, leaving_ids=going))
    assert not has_to_hand_over(situation([2], [], leader=2, leaving_ids=going))
    behind = frozenset({voter(2)})
    assert not has_to_hand_over(
        situation([0, 1, 2], [0, 1], leader=2, leaving_ids=going, caught_up=behind)
    )
    both = frozenset({1, 2})
    assert not has_to_hand_over(situation([1, 2], [1], leader=2, leaving_ids=both))


def test_the_leader_stays_also_without_one_of_the_lowest_ids() -> None:
    """Rule 4: it could not commit the change otherwise."""
    assert planned(situation([4], [0, 1, 2], leader=4)) == {0, 1, 4}


def test_a_broker_that_lacks_committed_records_does_not_come_in() -> None:
    """Rule 4: and it would slow every commit down."""
    now = situation([0], [1, 2], caught_up=frozenset({voter(0), voter(2)}))
    assert planned(now) == {0, 2}


def test_a_silent_member_is_replaced_only_after_its_time() -> None:
    """`metadata.member.lost.ms`."""
    heard = {voter(1): NOW_MS - 59_000, voter(2): NOW_MS, voter(3): NOW_MS}
    now = situation([0, 1, 2], [1, 2, 3], heard_ms=heard)
    assert planned(now) is None
    later_ms = NOW_MS + 1000
    heard.update({voter(2): later_ms, voter(3): later_ms})
    assert planned(replace(now, now_ms=later_ms, heard_ms=heard)) == {0, 2, 3}


def test_lost_members_are_dropped_but_not_below_the_minimum() -> None:
    """`metadata.min.members`, or all that there are in a smaller cluster."""
    assert planned(situation([0, 1, 2], [1], leading_since_ms=0)) == {0, 1}
    assert planned(situation([0, 1], [])) is None
    assert planned(situation([0, 1], [], members_min=1)) == {0}
    now = situation([0, 1], [], broker_ids=frozenset({0}))
    assert planned(now) == {0}


def test_a_new_leader_gives_members_time_to_be_heard() -> None:
    """Nothing was heard by it before."""
    assert planned(situation([0, 1, 2], [1, 3], leading_since_ms=NOW_MS - 10)) is None


def test_a_node_with_another_disk_takes_its_own_seat_over() -> None:
    """Rule 6: the old disk is gone, for the node runs without it."""
    now = situation([0, 1, 2], [1])
    now = replace(
        now,
        heard_ms={voter(1): NOW_MS, voter(2): NOW_MS - 5000, voter(2, b"b"): NOW_MS},
        caught_up=frozenset({voter(0), voter(1), voter(2, b"b")}),
    )
    assert plan_members(now) == {voter(0), voter(1), voter(2, b"b")}


def test_a_second_process_of_a_live_node_does_not_take_its_voter() -> None:
    """NODE-7: it is refused a registration, and the first goes on; they would take turns else."""
    twin = voter(2, b"b")
    for age_ms in (0, 1, 500):
        now = situation(
            [0, 1, 2],
            [1],
            heard_ms={voter(1): NOW_MS, voter(2): NOW_MS - age_ms, twin: NOW_MS},
            caught_up=frozenset({voter(0), voter(1), voter(2), twin}),
        )
        assert plan_members(now) is None


ids = st.integers(0, 6)


@given(
    leader=ids,
    members=st.sets(ids),
    heard=st.sets(ids),
    caught_up=st.sets(ids),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    since_ms=st.sampled_from((0, NOW_MS - 10)),
)
def test_a_plan_keeps_the_leader_and_is_not_taken_back(
    leader: int,
    members: set[int],
    heard: set[int],
    caught_up: set[int],
    sizes: tuple[int, int],
    since_ms: int,
) -> None:
    """Otherwise two plans would take turns for ever."""
    now = situation(
        members | {leader},
        heard,
        leader,
        caught_up=frozenset(map(voter, caught_up | {leader})),
        members_max=sizes[0],
        members_min=min(sizes),
        leading_since_ms=since_ms,
    )
    wanted = plan_members(now)
    if wanted is None:
        return
    assert now.leader in wanted
    assert len(wanted) <= max(now.members_max, len(now.members))
    new = {member.node_id for member in wanted - now.members}
    assert new <= heard & caught_up
    assert plan_members(replace(now, members=wanted)) is None
