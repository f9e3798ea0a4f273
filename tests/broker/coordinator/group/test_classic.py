"""The state machine of one group, row by row."""

import itertools

import pytest

from barnabas_broker.coordinator.group.classic import LEGAL_MOVES, ClassicGroup, GroupState
from barnabas_broker.coordinator.group.members import ClassicMember
from tests.support.group_model import subscription

TABLE = {
    ("Empty", "PreparingRebalance"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("CompletingRebalance", "Dead"),
    ("Stable", "PreparingRebalance"),
    ("Stable", "Dead"),
}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(GroupState, repeat=2)))
def test_only_moves_of_the_table_are_legal(old: GroupState, new: GroupState) -> None:
    """GRP-*: anything else is a bug and must fail an assertion; Dead is final."""
    group = ClassicGroup("g")
    group.state = old
    if (old.value, new.value) in TABLE:
        group.transition(new, 5)
        assert (group.state, group.state_changed_ms) == (new, 5)
    else:
        with pytest.raises(AssertionError):
            group.transition(new, 5)
    assert (new in LEGAL_MOVES[old]) == ((old.value, new.value) in TABLE)


def _group(*votes: str) -> ClassicGroup:
    """A group with one member per argument; each letter is a protocol, the preferred one first."""
    group = ClassicGroup("g")
    for number, names in enumerate(votes):
        member = ClassicMember(
            f"m{number}",
            group_instance_id=None,
            client_id="",
            client_host="",
            rebalance_timeout_ms=100 * (number + 1),
            session_timeout_ms=10,
            protocols=tuple((name, subscription(name)) for name in names),
        )
        group.add(member, "consumer")
    return group


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        (["a"], "a"),
        (["ab", "ab", "ba"], "a"),
        (["ab", "ba", "ba"], "b"),
        (["abc", "bca", "cb"], "b"),  # a is not supported by all: its voter's next choice counts
        (["ab", "b"], "b"),
    ],
)
def test_most_votes_among_protocols_that_all_support_win(votes: list[str], winner: str) -> None:
    """GRP-8."""
    assert _group(*votes).select_protocol() == winner


def test_protocols_that_nobody_shares_are_not_supported() -> None:
    """GRP-3: also another type, and empty lists."""
    group = _group("ab", "b")
    group.state = GroupState.STABLE
    assert group.supports("consumer", ["b"])
    assert not group.supports("consumer", ["a"])
    assert not group.supports("connect", ["b"])
    assert not group.supports("consumer", [])
    group.state = GroupState.EMPTY
    assert group.supports("connect", ["z"])
    assert not group.supports("", ["z"])


def test_the_longest_rebalance_timeout_counts() -> None:
    """GRP-6."""
    assert _group("a", "a", "a").rebalance_timeout_ms == 300


def test_another_member_becomes_leader_when_the_leader_goes() -> None:
    """GRP-4."""
    group = _group("a", "a")
    assert group.leader_id == "m0"
    group.remove(group.members["m0"])
    assert group.leader_id == "m1"
    group.remove(group.members["m1"])
    assert group.leader_id is None
    assert group.protocol_counts == {}


def test_generations_start_again_at_one_after_the_last_number() -> None:
    group = _group("a")
    group.state = GroupState.PREPARING_REBALANCE
    group.generation_id = 2**31 - 1
    group.next_generation(0)
    assert group.generation_id == 1


def test_topics_are_unknown_if_one_member_cannot_be_read() -> None:
    """OFS-8: what is unknown counts as subscribed, so nothing expires."""
    group = _group("a", "a")
    group.protocol_name = "a"
    group.compute_subscribed_topics()
    assert group.subscribed_topics == {"a"}
    assert group.is_subscribed_to("a")
    assert not group.is_subscribed_to("b")
    group.members["m1"].protocols = (("a", b"\xff"),)
    group.compute_subscribed_topics()
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("b")


def test_a_protocol_listed_twice_counts_once() -> None:
    """GRP-3: the count says how many members support it."""
    group = _group("aa", "a")
    assert group.protocol_counts == {"a": 2}
    group.remove(group.members["m0"])
    assert group.protocol_counts == {"a": 1}
