"""Clusters that much befalls keep what they have acknowledged, and come back when it is over."""

import pytest

from tests.simulation.cluster.story import Story
from tests.simulation.seeds import run_seeds

SEEDS = 25
REMEMBERED = {
    216: "a former leader kept records of its own below the log start of its leader",
    195: "a bit of the leader epoch of a batch was wrong after a power cut",
    52: "an old record was put back, and an epoch was promised to two nodes",
    1259: "a blank broker that knew of a history founded a cluster in it",
}
"""Seeds that failed once, and what they found."""


@pytest.mark.timeout(0)
def test_a_cluster_keeps_what_it_has_acknowledged() -> None:
    """REP-19, CTL-12, OFS-5, STOP-10: and all replicas are in sync again in the end.

    Processes are killed, stopped and stand still, machines lose power, disks fail, fill up and are
    replaced, links are cut one way or both, clocks jump, and the arbiter goes away.
    """
    run_seeds(SEEDS, lambda seed: Story(seed).run())


@pytest.mark.timeout(0)
def test_a_cluster_of_one_keeps_what_it_has_acknowledged() -> None:
    """A lone broker is a cluster too."""
    run_seeds(SEEDS, lambda seed: Story(seed, node_count=1).run())


@pytest.mark.parametrize("seed", REMEMBERED, ids=str)
@pytest.mark.timeout(0)
def test_what_a_story_has_found_stays_mended(seed: int) -> None:
    """Seeds beyond the first; each cause has a test of its own as well, or a rule in the docs."""
    Story(seed).run()
