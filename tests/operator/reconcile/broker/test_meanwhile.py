"""Pods that go between the look and the restart: an eviction, or somebody who deletes one."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import POD
from tests.operator.reconcile.broker.broker_world import NAME, NAMESPACE, BrokerWorld
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.support.fake_kubernetes_store import FakeStore


class EvictingWay(StoreApi):
    """As soon as a status says which broker is to be restarted, another one's pod is evicted."""

    def __init__(self, store: FakeStore) -> None:
        super().__init__(store)
        self.next: list[int] = []

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        written = await super().patch_status(manifest, status)
        if self.next and written["status"].get("restarting"):
            self.store.delete(POD, NAMESPACE, f"{NAME}-{self.next.pop()}")
        return written


@pytest.mark.parametrize("evicted", [0, 2])
def test_a_broker_that_is_evicted_meanwhile_keeps_the_next_one_from_being_restarted(
    evicted: int,
) -> None:
    """operator.md 5: never two. The gate of evictions had seen nobody down, and the pass had looked
    before that; with brokers that answer late it takes many seconds from its look to the deletion.
    """
    store = FakeStore()
    way = EvictingWay(store)
    world = BrokerWorld(3, store=store, way=way)
    asyncio.run(world.settle())
    world.add_topic("orders", [0, 1, 2], [1, 2, 0])
    asyncio.run(world.settle())
    world.restarted.clear()
    way.next.append(evicted)
    world.change({"spec": {"image": "good:2"}})
    # The world finds two at once in any tick.
    asyncio.run(world.settle())
    assert way.next == []
    assert sorted(world.restarted) == [0, 1, 2]
