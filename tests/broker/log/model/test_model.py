"""Random histories of the log against the model; `python -m tests.broker.log.model` runs more."""

import pytest

from tests.broker.log.model.bugs import BUGS, planted
from tests.broker.log.model.history import Action, draw_history, run_history, shrink

HISTORIES = 20
# Where to look first for a history that finds a planted fault, and how many are tried from there
# on: what a seed finds changes with every system call that the log makes otherwise.
FINDERS = {"L1": 4, "L4": 70, "L5": 754, "L6": 77, "L8": 13, "R10": 3, "R14": 1132}
TRIES = 400


def finder(name: str) -> int:
    """The seed of a history that finds a planted fault."""
    first = FINDERS[name]
    with planted(name):
        for seed in range(first, first + TRIES):
            if run_history(seed) is not None:
                return seed
    raise AssertionError(f"{BUGS[name].what}: not found by {TRIES} histories from {first} on")


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_log_answers_as_the_model_does(seed: int) -> None:
    assert run_history(seed) is None


@pytest.mark.interpreted
@pytest.mark.parametrize("name", sorted(FINDERS))
def test_planted_faults_are_found(name: str) -> None:
    assert run_history(finder(name)) is None


def test_a_history_is_the_same_each_time() -> None:
    assert draw_history(7) == draw_history(7)
    assert draw_history(7) != draw_history(8)


def test_a_finding_is_shrunk_to_what_is_needed() -> None:
    seed = finder("R10")
    with planted("R10"):
        found = shrink(seed, draw_history(seed))
        assert run_history(seed, found) is not None
    assert len(found) < 6
    assert any(isinstance(action, Action) and action.name == "damage" for action in found)
