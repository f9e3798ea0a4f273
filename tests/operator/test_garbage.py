"""How long collections of garbage hold up everything else."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas_operator.garbage import ShortCollections
from tests.support.simulated_clock import HandClock


class Node:
    """May be part of a cycle."""

    other: Any = None


@pytest.fixture
def clock() -> Iterator[HandClock]:
    clock = HandClock()
    collections = ShortCollections(clock)
    collections.install()
    yield clock
    collections.remove()


def test_a_whole_collection_visits_only_what_has_come_since_the_last_one(clock: HandClock) -> None:
    """With 5,000 Topics a whole one held the loop for 160 ms, again and again while they came."""
    resources = [{"metadata": {"name": str(number)}, "spec": {}} for number in range(20_000)]
    gc.collect()
    to_visit = [id(one) for generation in range(3) for one in gc.get_objects(generation)]
    assert not {id(one) for one in resources} & set(to_visit)
    assert gc.get_freeze_count() > len(resources)


def test_a_cycle_that_was_frozen_alive_goes_some_hours_after_it_has_become_garbage(
    clock: HandClock,
) -> None:
    node = Node()
    node.other = Node()
    node.other.other = node
    gone = weakref.ref(node)
    gc.collect()
    del node
    gc.collect()
    assert gone() is not None, "it is frozen"
    clock.now_ms += 6 * 3_600_000
    gc.collect()
    assert gone() is None
