"""A few histories of the coordinators' model test; `python -m` runs as many as one likes."""

import pytest

from tests.broker.coordinator.model.__main__ import shortest, violation_of
from tests.broker.coordinator.model.faults import FAULTS
from tests.broker.coordinator.model.history import Step, history

HISTORIES = 40
# A history that finds each fault; others do, too: `python -m ... FIRST COUNT FAULT` tells them.
FOUND_BY = {
    "C1": 2,
    "C3": 204,
    "C4": 1,
    "C5": 96,
    "C6": 4,
    "C7": 2,
    "topic_recreated": 32,
    "a refused record": 3,
    "a late write": 1,
}


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_histories_hold(first: int) -> None:
    """Live state equals replay, nothing uncommitted is answered, and every group ends."""
    found = {seed: told for seed in range(first, first + 10) if (told := violation_of(seed))}
    assert not found


@pytest.mark.parametrize("name", FOUND_BY)
def test_faults_that_were_there_are_found(name: str) -> None:
    """Each planted again; the same history holds without it."""
    fault = next(each for each in FAULTS if each.startswith(name))
    seed = FOUND_BY[name]
    assert violation_of(seed, fault) is not None
    assert violation_of(seed) is None


def test_a_history_is_told_again_by_its_seed() -> None:
    """Otherwise a seed in a report would be worth nothing."""
    assert history(5) == history(5)
    assert history(5) != history(6)


def test_a_failing_history_is_shrunk_to_what_it_needs() -> None:
    """Here a "doubt" behind a "hang"."""
    steps = [Step(0, what) for what in ("act", "hang", "act", "fetch", "doubt", "pass", "act")]

    def fails(rest: list[Step]) -> bool:
        kinds = [step.what for step in rest]
        return "hang" in kinds and "doubt" in kinds[kinds.index("hang") :]

    assert [step.what for step in shortest(steps, fails)] == ["hang", "doubt"]
