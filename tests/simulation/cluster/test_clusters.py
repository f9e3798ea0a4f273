"""Clusters that much befalls keep what they have acknowledged, and come back when it is over."""

import pytest

from tests.simulation.cluster.story import Story
from tests.simulation.seeds import run_seeds

SEEDS = 10
"""Of many more `make sim` and CI tell by `python -m tests.simulation.cluster`, on all cores."""
REMEMBERED = {
    129: "who founds again where no cluster id is set has an id of its own",
    233: "a coordinator that was cut off and replaced answers what it has",
    574: "brokers are not rolled while a machine's lost power is not known",
    628: "a wrong bit in the leader epoch of what was not synced keeps no follower away for ever",
    1063: "no partition is left to a machine whose lost power is not known",
    1077: "who founds again stops all others before its lost disk is known",
    500916: "a broker that stops when the faults have ended is started again",
    500950: "a directory that failed and came back before it was used counts as no loss",
    501024: "a leader is elected uncleanly where only who founds again was in sync",
    501319: "no power is lost while an ISR is about to shrink that no image shows yet",
    501465: "a key that was deleted while a replica was away stays deleted",
}
"""Seeds that failed, 628 and 501465 by a fault of the broker, the others by a rule of the story."""


@pytest.mark.timeout(1200)
def test_a_cluster_keeps_what_it_has_acknowledged() -> None:
    """REP-19, CTL-12, OFS-5, STOP-10: and all replicas are in sync again in the end.

    Processes are killed, stopped and stand still, machines lose power, disks fail, fill up and are
    replaced, links are cut one way or both, clocks jump, and the arbiter goes away.
    """
    run_seeds(SEEDS, lambda seed: Story(seed).run())


@pytest.mark.timeout(1200)
def test_a_cluster_of_one_keeps_what_it_has_acknowledged() -> None:
    """A lone broker is a cluster too."""
    run_seeds(SEEDS, lambda seed: Story(seed, node_count=1).run())


@pytest.mark.parametrize("seed", REMEMBERED, ids=REMEMBERED.get)
@pytest.mark.timeout(1200)
def test_a_story_that_failed_ends_well(seed: int) -> None:
    """What each has shown is told where it is listed."""
    Story(seed).run()
