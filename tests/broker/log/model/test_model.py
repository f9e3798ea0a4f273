"""Random histories of the log against the model; `python -m tests.broker.log.model` runs more."""

import pytest

from tests.broker.log.model.bugs import BUGS, planted
from tests.broker.log.model.history import Action, draw_history, run_history, shrink

HISTORIES = 20
# The first history that finds a planted fault, for those that few histories find.
FINDERS = {"L1": 4, "L4": 34, "L5": 754, "L6": 77, "L8": 13, "R10": 2}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_log_answers_as_the_model_does(seed: int) -> None:
    assert run_history(seed) is None


@pytest.mark.parametrize("name", sorted(FINDERS))
def test_planted_faults_are_found(name: str) -> None:
    seed = FINDERS[name]
    with planted(name):
        assert run_history(seed) is not None, BUGS[name].what
    assert run_history(seed) is None


def test_a_history_is_the_same_each_time() -> None:
    assert draw_history(7) == draw_history(7)
    assert draw_history(7) != draw_history(8)


def test_a_finding_is_shrunk_to_what_is_needed() -> None:
    with planted("R10"):
        found = shrink(FINDERS["R10"], draw_history(FINDERS["R10"]))
        assert run_history(FINDERS["R10"], found) is not None
    assert len(found) < 6
    assert any(isinstance(action, Action) and action.name == "damage" for action in found)
