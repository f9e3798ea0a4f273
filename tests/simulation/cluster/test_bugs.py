"""Known bugs are found by stories that nobody wrote for them, or the simulations prove nothing."""

import pytest

from tests.simulation.cluster.bugs import BUGS, planted
from tests.simulation.cluster.plan import Plan, draw
from tests.simulation.cluster.story import Story
from tests.support.loop_guard import LoopGuard

FIRST_SEEDS: dict[str, int] = {
    "truncate_to_high_watermark": 1,
    "leader_commits_alone": 0,
    "isr_before_it_is_committed": 3,
    "acknowledge_before_fsync": 5,
    "producers_of_the_leader_only": 4,
    "commits_of_any_generation": 13,
    "metadata_log_anywhere": 67,
    "strays_removed": 11,
    "second_founding": 319,
    "fsync_on_the_loop": 0,
    "power_loss_taken_for_a_kill": 362,
    "join_before_caught_up": 10,
    "half_a_truncation": 111,
    "session_keeps_its_offset": 14,
    "no_check_in_recovery": 308,
    "compaction_keeps_the_oldest": 1,
    "coordinator_answers_early": 3,
    "reassigned_before_in_sync": 0,
    "retention_above_high_watermark": 40,
    "swap_without_an_answer_won": 10,
    "threads_abandoned": 5,
    "commits_removed_by_name": 74,
    "commit_below_min_isr": 3,
    "answers_of_other_epochs": 85,
    "promise_not_written": 11,
    "acceptance_not_written": 1,
    "dead_letters_not_written": 3,
    "archiving_forgotten_on_load": 17,
    "late_end": 8,
    "late_add": 8,
    "producer_not_fenced": 8,
    "aborts_commit": 8,
    "marker_dropped": 8,
    "read_past_the_last_stable_offset": 8,
    "rights_remembered_by_connections": 50,
}
"""Where to look first: a seed that found the bug; the broker's changes may move it on."""
SEEDS_MAX = 300


@pytest.mark.parametrize("bug", BUGS)
def test_what_a_bug_replaces_is_there(bug: str) -> None:
    """Code that has moved would leave a bug that nobody can plant."""
    with planted(bug):
        pass


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("bug", FIRST_SEEDS)
def test_a_known_bug_is_found(bug: str, loop_guard: LoopGuard) -> None:
    """Each breaks one rule that keeps what was acknowledged; `bugs.py` says which."""
    first = FIRST_SEEDS[bug]
    with planted(bug):
        plans = filter(BUGS[bug].may_show, map(draw, range(first, first + SEEDS_MAX)))
        assert any(map(is_broken, plans)), BUGS[bug].what
    # Of one of them the guard of all tests hears, too; it is no fault of the broker.
    assert bool(loop_guard.take()) == (bug == "fsync_on_the_loop")


def is_broken(plan: Plan) -> bool:
    try:
        Story(plan.seed, plan=plan).run()
    except (AssertionError, TimeoutError):
        return True
    return False
