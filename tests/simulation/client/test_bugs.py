"""Faults that the client had are found again when they are planted."""

import pytest

from tests.simulation.client.bugs import planted
from tests.simulation.client.cancellations import cases, table
from tests.simulation.client.telling import tell

BY_STORIES = {
    "false ack": (0, 20),
    "stale metadata": (384,),
    "numbers by topic id": (113,),
    "split in doubt": (123,),
    "gather": (0, 1),
    "program end": (89, 91),
    "fewer partitions": (8, 85),
    "rebalance task cancelled": (106,),
    "iteration starves": (74,),
    "abort not begun": (126,),
}
BY_CANCELLATIONS = {
    "unsubscribe cancelled": "Consumer.unsubscribe, range",
    "on_assigned cancelled": "Consumer.poll, listener, range",
    "commit cancelled": "Producer.transaction, version 1",
}


@pytest.mark.parametrize("name", BY_STORIES)
def test_a_planted_fault_is_found_by_a_story(name: str) -> None:
    """One of the seeds that found it does so again."""
    with planted(name):
        assert any(tell(seed)[1] is not None for seed in BY_STORIES[name])
    assert all(tell(seed)[1] is None for seed in BY_STORIES[name])


@pytest.mark.parametrize("name", BY_CANCELLATIONS)
def test_a_planted_fault_is_found_by_the_enumerated_cancellations(name: str) -> None:
    """A call that is cancelled at each of its awaits shows it."""
    chosen = [case for case in cases() if case.name == BY_CANCELLATIONS[name]]
    with planted(name), pytest.raises(AssertionError):
        table(chosen)
