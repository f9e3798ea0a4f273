"""What `GroupHistory` notices: each kind of harm is done by hand, none by a broker."""

import pytest

from tests.interop.committing_members import GroupHistory

ALL = {0: range(6)}


@pytest.fixture
def history() -> GroupHistory:
    """Two members take turns: the first has read and committed three of six records."""
    made = GroupHistory("group", "topic")
    made.heard("first", "read", "10\t0:0:2:3")
    made.heard("first", "committed", "11\t0:3")
    return made


def test_what_was_committed_is_read_once(history: GroupHistory) -> None:
    """No harm: the second goes on where the first has committed."""
    history.heard("second", "read", "12\t0:3:5:3")
    history.heard("second", "committed", "13\t0:6")
    assert history.violations(ALL) == []
    assert history.ends() == {0: 6}


def test_a_commit_that_went_back_is_noticed(history: GroupHistory) -> None:
    """The second is sent back to before the commit, and reads records again."""
    history.heard("second", "read", "12\t0:2:5:4")
    violations = history.violations(ALL)
    assert len(violations) == 2
    assert "3 was committed" in violations[0]
    assert "was read before: [2]" in violations[1]


def test_skipped_records_are_noticed(history: GroupHistory) -> None:
    """The second begins after the commit."""
    history.heard("second", "read", "12\t0:4:5:2")
    assert history.violations(ALL) == ["partition 0: missed [3]"]


def test_only_what_was_refused_may_be_read_again(history: GroupHistory) -> None:
    """A commit in the middle of a rebalance is refused: its records are the next owner's."""
    history.heard("first", "read", "12\t0:3:4:2")
    history.heard("first", "refused", "13\trebalance in progress")
    history.heard("second", "read", "14\t0:3:5:3")
    assert history.violations(ALL) == []
    history.heard("second", "committed", "15\t0:6")
    history.heard("first", "read", "16\t0:5:5:1")
    assert len(history.violations(ALL)) == 2


def test_members_that_failed_and_gaps_are_noticed(history: GroupHistory) -> None:
    """A program that died says why."""
    history.heard("second", "read", "12\t0:3:5:3")
    history.heard("second", "failed", "no broker")
    assert history.violations(ALL) == ["second: no broker"]
    with pytest.raises(AssertionError, match="gaps"):
        history.heard("second", "read", "13\t0:6:9:2")
