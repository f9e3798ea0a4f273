"""Known bugs are found, or the simulations would prove nothing."""

import pytest

from tests.simulation.cluster.bugs import BUGS, planted
from tests.simulation.cluster.story import Story

SEEDS_MAX = 300
"""Far more than any of them needs: most need some ten."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("bug", BUGS)
def test_a_known_bug_is_found(bug: str) -> None:
    """Each breaks one rule that keeps what was acknowledged; `bugs.py` says which."""
    with planted(bug):
        assert any(is_broken(seed) for seed in range(SEEDS_MAX)), BUGS[bug].what


def is_broken(seed: int) -> bool:
    try:
        Story(seed).run()
    except AssertionError:
        return True
    return False
