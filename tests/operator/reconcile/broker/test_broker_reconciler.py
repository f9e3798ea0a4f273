"""The reconciler against an API server and brokers in memory, from nothing to ready and on."""

import asyncio
from typing import Any

from tests.operator.reconcile.broker.broker_world import (
    BrokerWorld,
)


def settled(replicas: int = 3, **spec: Any) -> BrokerWorld:
    """A world whose brokers are up, with topics that have a replica everywhere."""
    world = BrokerWorld(replicas, **spec)
    asyncio.run(world.settle())
    if replicas >= 3:
        world.add_topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    asyncio.run(world.settle())
    world.restarted.clear()
    world.api.writes.clear()
    return world


def test_a_new_broker_resource_becomes_three_ready_brokers() -> None:
    """Issue 6: helm install, then apply; the status tells it."""
    world = settled()
    assert world.ready_ids() == {0, 1, 2}
    assert world.status["ready"] == "3/3"
    assert world.status["selector"] == "barnabas.dev/broker=demo"
    assert world.status["safeToDrain"] == "yes"
    assert world.status["plan"]["summary"] == "done"
    assert world.condition("Ready")["status"] == "True"
    assert [one["phase"] for one in world.status["brokers"]] == ["Ready"] * 3


def test_an_idle_broker_causes_no_write() -> None:
    """operator.md 3.9: idle is zero writes."""
    world = settled()
    for _ in range(20):
        asyncio.run(world.reconcile())
        world.tick()
    assert world.api.writes == []


def test_a_new_operator_that_finds_all_well_writes_nothing() -> None:
    """operator.md 3.21: an upgrade of the operator restarts nobody."""
    world = settled()
    world.start_operator()
    asyncio.run(world.settle())
    assert world.api.writes == []
    assert world.restarted == []
