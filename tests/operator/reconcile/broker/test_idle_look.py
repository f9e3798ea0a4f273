"""What an idle Broker asks of the API server: nothing, as long as that has told of no change."""

import asyncio
from collections import Counter
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import SERVICE, Kind
from barnabas_operator.settings import OperatorSettings
from tests.operator.reconcile.broker.broker_world import KEY, NAME, NAMESPACE, BrokerWorld
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.support.fake_kubernetes_store import FakeStore


class CountingApi(StoreApi):
    """Counts reads."""

    reads: Counter[str]

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        self.reads[kind.kind] += 1
        return await super().get(kind, namespace, name)

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        self.reads[kind.kind] += 1
        return await super().list(
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )


class IdleWorld(BrokerWorld):
    """A world whose operator hears of changes, as watching tells them."""

    def __init__(self) -> None:
        store = FakeStore()
        self.counting = CountingApi(store)
        self.counting.reads = Counter()
        self.changes = 0
        store.listeners.append(self._hear)
        super().__init__(store=store, way=self.counting)

    def start_operator(self, **settings: Any) -> None:
        super().start_operator(**settings)
        self.reconciler = type(self.reconciler)(
            self._way,
            self,
            OperatorSettings(broker_image="good:1", **settings),
            self.clock,
            clusters=self,
            processes=self,
            changes_of=lambda broker_name: self.changes,
        )

    def _hear(self, event: Any) -> None:
        if event[1] is not SERVICE:
            self.changes += 1

    async def rested(self) -> None:
        """Until the operator has had a whole pass with nothing to do."""
        await self.settle()
        self.clock.now_ms += 61_000
        await self.reconcile()
        self.counting.reads.clear()


def test_an_idle_broker_is_not_read_again_before_its_time() -> None:
    """Fifty idle Brokers were four thousand requests a minute."""

    async def run() -> None:
        world = IdleWorld()
        await world.rested()
        for _ in range(3):
            world.clock.now_ms += 15_000
            await world.reconcile()
        assert world.counting.reads == {}
        world.clock.now_ms += 15_000
        await world.reconcile()
        assert world.counting.reads["Broker"] == 1

    asyncio.run(run())


def test_whatever_happens_to_it_has_it_looked_at_as_a_whole() -> None:
    async def run() -> None:
        world = IdleWorld()
        await world.rested()
        world.change({"spec": {"image": "good:2"}})
        await world.settle()
        assert sorted(world.restarted) == [0, 1, 2]
        await world.rested()
        world.full_disks[1] = ("/data: 95 % used",)
        await world.reconcile()
        assert world.condition("DiskGuard")["status"] == "True"
        await world.rested()
        world.controller = None
        world.members.clear()
        await world.reconcile()
        assert world.condition("Ready")["status"] == "False"

    asyncio.run(run())


def test_what_nobody_tells_of_is_found_within_a_minute() -> None:
    """A Service that was changed by hand."""

    async def run() -> None:
        world = IdleWorld()
        await world.rested()
        world.store.delete(SERVICE, NAMESPACE, f"{NAME}-bootstrap")
        world.clock.now_ms += 15_000
        await world.reconciler.reconcile(KEY)
        world.clock.now_ms += 46_000
        await world.reconciler.reconcile(KEY)
        assert world.store.get(SERVICE, NAMESPACE, f"{NAME}-bootstrap")

    asyncio.run(run())
