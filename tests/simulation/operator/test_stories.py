"""Stories of the operator: `python -m tests.simulation.operator` tells thousands."""

import pytest

from tests.simulation.operator.bugs import BUGS, tell_with
from tests.simulation.operator.story import tell

# 7005 and 7022 have users of volumes, the last two neighbours.
SEEDS = (0, 1, 2, 3, 4, 5, 7005, 7022, 8000, 8001)
# One that found it does so again.
FOUND_BY = {
    "row1": 6001,
    "row2": 6002,
    "row3": 6004,
    "row5": 6021,
    "row6": 6013,
    "row8 namespaces": 6034,
    "row8 topics": 6028,
    "row11": 6005,
    "row12": 6003,
    "the Lease goes before the claims": 7005,
    "whose a child is is not asked": 8000,
    "who serves beside what crashes counts for nothing": 8040,
    "claims go that nobody gave up": 7015,
    "an address of others is nobody's": 72002,
    "moments have no end": 72002,
    "who was taken away by hand stays away": 920070,
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
        (50069, "a volume that was kept from its claims is declared again"),
        (200005, "a condition has the value of an enum, which is text in JSON"),
        (80005, "what an operator makes for a Broker that has just gone is collected"),
        (80115, "an operator is cut off while a container crashes beside brokers"),
        (920070, "somebody takes brokers away by hand, and the last one is restarted"),
        (910075, "somebody takes a member of the metadata log away by hand"),
        (70121, "all pods have started since they were looked at, which took long"),
        (1001398, "what is on a volume that comes with a restart is not waited for"),
        (1001968, "a broker that is not wanted any more is down while another one goes"),
        (1002222, "somebody takes two of three members away by hand, and most brokers are left"),
        (5023, "a Broker is made again on the same volumes, and so is a ConsumerGroup"),
    ],
)
def test_a_story_that_failed_ends_well(seed: int, what: str) -> None:
    assert not tell(seed).reason, what


@pytest.mark.parametrize("bug", FOUND_BY)
def test_a_planted_fault_is_found(bug: str) -> None:
    assert bug in BUGS
    assert tell_with(bug, FOUND_BY[bug]).reason
