"""Seeded stories of one group with members of both protocols. Source: CG-2 to CG-9, OFS-5."""

import pytest

from tests.broker.coordinator.group.consumer.group_walk import Walk

SEEDS = 200
STEPS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_partition_has_one_reader_whatever_befalls_its_group(seed: int) -> None:
    """CG-4, CG-7: one at any time, and in the end one for each."""
    walk = Walk(seed)
    try:
        walk.run(STEPS)
    except AssertionError:
        print("\n".join(walk.lines))
        raise
