"""Known bugs are found by stories that nobody wrote for them, or the simulations prove nothing."""

import pytest

from tests.simulation.cluster.bugs import BUGS, planted
from tests.simulation.cluster.story import Story
from tests.support.loop_guard import LoopGuard

FIRST_SEEDS: dict[str, int] = {
    "truncate_to_high_watermark": 3,
    "leader_commits_alone": 0,
    "isr_before_it_is_committed": 3,
    "acknowledge_before_fsync": 39,
    "producers_of_the_leader_only": 10,
    "commits_of_any_generation": 7,
    "metadata_log_anywhere": 22,
    "strays_removed": 4,
    "fsync_on_the_loop": 0,
    "power_loss_taken_for_a_kill": 30,
    "join_before_caught_up": 5,
    "half_a_truncation": 3,
    "session_keeps_its_offset": 0,
    "no_check_in_recovery": 8,
    "compaction_keeps_the_oldest": 10,
    "coordinator_answers_early": 10,
    "reassigned_before_in_sync": 2,
    "promise_not_written": 2,
}
"""Where to look first: a seed that found the bug; the broker's changes may move it on."""
SEEDS_MAX = 100


@pytest.mark.timeout(0)
@pytest.mark.parametrize("bug", FIRST_SEEDS)
def test_a_known_bug_is_found(bug: str, loop_guard: LoopGuard) -> None:
    """Each breaks one rule that keeps what was acknowledged; `bugs.py` says which."""
    first = FIRST_SEEDS[bug]
    with planted(bug):
        assert any(is_broken(seed) for seed in range(first, first + SEEDS_MAX)), BUGS[bug].what
    # Of one of them the guard of all tests hears, too; it is no fault of the broker.
    assert bool(loop_guard.take()) == (bug == "fsync_on_the_loop")


def is_broken(seed: int) -> bool:
    try:
        Story(seed).run()
    except (AssertionError, TimeoutError):
        return True
    return False
