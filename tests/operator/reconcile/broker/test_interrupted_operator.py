"""The operator dies at any of its writes, and the next one goes on from what is there."""

import asyncio
import random
from typing import Any

import pytest

from tests.operator.reconcile.broker.broker_world import BrokerWorld
from tests.operator.reconcile.broker.world_parts import STORAGE_CLASS

SEEDS = range(12)
CHANGES: tuple[dict[str, Any], ...] = (
    {"spec": {"config": {"num.recovery.threads": "2"}}},
    {"spec": {"image": "good:2"}},
    {"spec": {"resources": {"limits": {"memory": "3Gi"}}}},
    {"spec": {"storage": {"size": "30Gi"}}},
    {"spec": {"replicas": 5}},
    {"spec": {"replicas": 4}},
    {"spec": {"replicas": 3}},
    {"spec": {"maintenance": {"park": [1]}}},
    {"spec": {"maintenance": {"park": []}}},
    {"spec": {"config": {"log.retention.ms": "1000"}}},
    {"spec": {"config": {"log.retention.ms": None}}},
)


def started() -> BrokerWorld:
    world = BrokerWorld(3)
    world.put(STORAGE_CLASS)
    asyncio.run(world.settle())
    world.add_topic("orders", [0, 1, 2], [1, 2, 0])
    asyncio.run(world.settle())
    world.restarted.clear()
    return world


@pytest.mark.parametrize("is_done_first", [False, True])
def test_a_roll_that_is_interrupted_after_each_write_restarts_each_broker_once(
    is_done_first: bool,
) -> None:
    """operator.md 4: crash-safe, the state lives in the status; style.md 5.4."""
    world = started()
    world.change({"spec": {"image": "good:2"}})
    deaths = 0
    for _ in range(200):
        deaths += asyncio.run(world.walk_until_killed(0, is_done_first=is_done_first))
        # What was not done before the death is done by the one that lives a little longer.
        if not asyncio.run(world.walk_until_killed(1, is_done_first=is_done_first)):
            break
        deaths += 1
    asyncio.run(world.settle())
    assert deaths >= 6
    assert sorted(world.restarted) == [0, 1, 2]
    assert world.restarted[-1] != 0 or world.controller != 0
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_asked_for_and_whenever_the_operator_dies_it_comes_about(seed: int) -> None:
    """operator.md 5: never two at once, never below min ISR; `check` of the world looks each tick.

    Changes come while others are under way, and operators die between any two writes.
    """
    choose = random.Random(seed)
    world = started()
    spec: dict[str, Any] = {}
    for _ in range(6):
        change = choose.choice(CHANGES)
        if change["spec"].get("storage") is None or "storage" not in spec:
            world.change(change)
            spec.update(change["spec"])
        for _ in range(choose.randrange(4)):
            asyncio.run(
                world.walk_until_killed(choose.randrange(6), is_done_first=choose.random() < 0.5)
            )
    # While one is parked, no other one may be restarted.
    world.change({"spec": {"maintenance": {"park": []}}})
    asyncio.run(world.settle())
    wanted = world.broker["spec"]
    assert world.ready_ids() == set(range(wanted["replicas"])), f"seed {seed}"
    assert world.registered == set(range(wanted["replicas"])), f"seed {seed}"
    images = {pod["spec"]["containers"][0]["image"] for pod in world.pods().values()}
    assert images == {wanted.get("image", "good:1")}, f"seed {seed}"
    assert world.status["plan"]["summary"] == "done", f"seed {seed}"
