"""What the leader makes of pods that are asked to leave their nodes: told, and forgotten again."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas_operator.kubernetes.kinds import POD
from barnabas_operator.reconcile.broker.broker_reconciler import BUSY_SECONDS, IDLE_SECONDS
from barnabas_operator.reconcile.broker.drain_request import (
    DRAIN_REQUESTED_ANNOTATION,
    DrainRequest,
)
from tests.operator.reconcile.broker.broker_world import NAMESPACE, BrokerWorld
from tests.support.fake_kubernetes_store import merge_patched

MINUTE_MS = 60_000


def world_with_a_request() -> tuple[BrokerWorld, str]:
    """Three brokers at rest, the second of which was just refused an eviction; and since when."""
    world = BrokerWorld(3)
    asyncio.run(world.settle())
    world.add_topic("orders", [0, 1, 2])
    now = datetime.fromtimestamp(world.clock.now_ms / 1000, UTC)
    request = DrainRequest(since=now, last=now)
    note = {"metadata": {"annotations": {DRAIN_REQUESTED_ANNOTATION: request.text}}}
    world.store.update(POD, NAMESPACE, "demo-1", lambda old: merge_patched(old, note))
    return world, request.text.partition("/")[0]


def broker_status(world: BrokerWorld, node_id: int) -> dict[str, Any]:
    (found,) = [one for one in world.status["brokers"] if one["id"] == node_id]
    return dict(found)


def is_noted(world: BrokerWorld) -> bool:
    return DRAIN_REQUESTED_ANNOTATION in world.pods()[1]["metadata"]["annotations"]


def test_the_status_tells_since_when_and_for_what_a_broker_is_kept() -> None:
    """operator.md 3.25: who drains a node sees why it stands still."""
    world, since = world_with_a_request()
    world.partitions[0].in_sync = {0, 1}
    world.partitions[0].slow = {2}
    assert asyncio.run(world.reconcile()) == BUSY_SECONDS
    told = broker_status(world, 1)
    assert told["drainRequested"] == since
    end = datetime.fromisoformat(since) + timedelta(hours=1)
    assert datetime.fromisoformat(told["drainDeadline"]) == end
    assert told["waitingOn"] == "broker 1: orders-0 cannot spare it"
    assert "drainRequested" not in broker_status(world, 0)
    version = world.store.version
    asyncio.run(world.reconcile())
    assert world.store.version == version


def test_a_request_that_nobody_repeats_is_forgotten() -> None:
    """Who gave up the drain would otherwise find the patience used up the next time."""
    world, _ = world_with_a_request()
    asyncio.run(world.reconcile())
    world.clock.now_ms += 14 * MINUTE_MS
    asyncio.run(world.reconcile())
    assert is_noted(world)
    world.clock.now_ms += 2 * MINUTE_MS
    asyncio.run(world.reconcile())
    assert not is_noted(world)
    assert asyncio.run(world.reconcile()) == IDLE_SECONDS
    assert "drainRequested" not in broker_status(world, 1)
    version = world.store.version
    asyncio.run(world.reconcile())
    assert world.store.version == version


def test_the_note_goes_with_the_pod() -> None:
    """Its successor was not asked to go."""
    world, _ = world_with_a_request()
    world.change({"spec": {"image": "good:2"}})
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    assert not is_noted(world)
    assert "drainRequested" not in broker_status(world, 1)
