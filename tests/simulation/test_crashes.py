"""Brokers that die at any operation of their disk keep what they have acknowledged."""

import pytest

from tests.simulation.crashes import Faults, Story
from tests.simulation.seeds import run_seeds

SEEDS = {
    Faults.POWER_AND_FSYNC: 30,
    Faults.KILL_AND_PAGE_CACHE: 15,
    Faults.POWER_AND_PAGE_CACHE: 10,
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("faults", Faults, ids=lambda faults: faults.name.lower())
def test_what_was_acknowledged_survives(faults: Faults) -> None:
    """REC-1, LOG-8, OFS-5, CTL-6: records, offsets, topics, settings and ids.

    Each record is there once and in order, also if its sender repeated it after the crash.
    """
    run_seeds(SEEDS[faults], lambda seed: Story(seed, faults).run())
