"""Stories of the operator: `python -m tests.simulation.operator` tells thousands."""

import pytest

from tests.simulation.operator.bugs import BUGS, tell_with
from tests.simulation.operator.story import tell

SEEDS = (0, 1, 2, 3, 4, 5)
# One that found it does so again.
FOUND_BY = {
    "row1": 6001,
    "row2": 6002,
    "row3": 6004,
    "row5": 6021,
    "row6": 6010,
    "row8 namespaces": 6034,
    "row8 topics": 6028,
    "row11": 6004,
    "row12": 6003,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_act_of_the_operator_ends_what_serves_and_it_comes_to_rest(seed: int) -> None:
    told = tell(seed)
    assert not told.reason, "\n".join(told.lines)
    assert told.deeds


def test_a_story_is_told_the_same_again() -> None:
    assert tell(3) == tell(3)


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (1061, "a topic is made on a broker that is just being taken away"),
        (2042, "a pod is not known to be ready yet when its broker serves"),
        (5023, "a Broker is made again on the same volumes, and so is a ConsumerGroup"),
    ],
)
def test_a_story_that_failed_ends_well(seed: int, what: str) -> None:
    assert not tell(seed).reason, what


@pytest.mark.parametrize("bug", FOUND_BY)
def test_a_planted_fault_is_found(bug: str) -> None:
    assert bug in BUGS
    assert tell_with(bug, FOUND_BY[bug]).reason
