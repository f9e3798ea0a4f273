"""What passes over many Topics ask of the API server: as much as has changed, not as there is."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import BROKER, TOPIC, Kind
from barnabas_operator.reconcile.portions import RESOURCES_MAX
from barnabas_operator.reconcile.topic_reconciler import TopicReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from tests.support.fake_kubernetes_store import Event, merge_patched
from tests.support.simulated_clock import SimulatedClock
from tests.support.store_api import StoreApi
from tests.support.willing_brokers import AllBrokers

NAMESPACE = "default"
KEY = Key(kind=KeyKind.TOPICS, namespace=NAMESPACE, name="demo")


class CountingApi(StoreApi):
    """Counts what is asked, and may ask a test in before a list is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        self.asked[f"list {kind.kind}"] += 1
        return await super().list(kind, namespace=namespace)

    def _do(self, verb: str, action: Any) -> Object:
        self.asked[verb] += 1
        return super()._do(verb, action)

    def take(self) -> Counter[str]:
        asked, self.asked = self.asked, Counter()
        return asked


class World:
    """A Broker with Topics; watching brings everything at once until it is dead."""

    def __init__(self, topics: int) -> None:
        self.api = CountingApi()
        self.clock = SimulatedClock()
        self.brokers = AllBrokers()
        self.is_watch_dead = False
        self.cache = WatchCache(self.api, lambda: self.clock.monotonic_ms() / 1000)
        admins: Any = self.brokers
        self.reconciler = TopicReconciler(
            self.api,
            admins,
            OperatorSettings(),
            self.clock,
            self.cache,
            make_gateway=lambda admin: self.brokers.topics(admin.broker_name),  # type: ignore[attr-defined]
        )
        self.api.store.listeners.append(self._hear)
        self.api.store.create(BROKER, NAMESPACE, {"metadata": {"name": "demo"}, "spec": {}})
        for number in range(topics):
            self.put(f"t{number:04}")

    def _hear(self, event: Event) -> None:
        _, kind, type_, manifest = event
        if not self.is_watch_dead:
            self.cache.on_event(kind, manifest, is_deleted=type_ == "DELETED")

    def put(self, name: str, **spec: Any) -> None:
        self.api.store.create(TOPIC, NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    def change(self, name: str, patch: Object) -> None:
        self.api.store.update(TOPIC, NAMESPACE, name, lambda old: merge_patched(old, patch))

    def topics(self) -> set[str]:
        """Those that the brokers have."""
        return set(self.brokers.topics((NAMESPACE, "demo")).topics)

    async def settle(self) -> None:
        """Let passes and time go on until nothing is due for half a minute."""
        again = await self.reconciler.reconcile(KEY)
        while again is not None and again < 30:
            self.clock.advance(int(again * 1000) + 1)
            again = await self.reconciler.reconcile(KEY)


def in_world(topics: int, story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(World(topics))

    asyncio.run(run())


def test_a_pass_takes_a_bounded_part_and_comes_again_at_once() -> None:
    """Many Topics of one Broker keep those of others waiting for no longer than some of them."""

    async def story(world: World) -> None:
        assert await world.reconciler.reconcile(KEY) == 0
        assert len(world.topics()) == RESOURCES_MAX
        await world.reconciler.reconcile(KEY)
        assert len(world.topics()) == 2 * RESOURCES_MAX
        await world.settle()
        assert len(world.topics()) == 500

    in_world(500, story)


def test_requests_grow_with_what_changes_and_not_with_what_there_is() -> None:
    """Each pass listed all Topics, and each write asked for the next pass."""

    async def story(world: World) -> None:
        await world.settle()
        asked = world.api.take()
        assert asked["patch_status"] == 300
        assert sum(asked.values()) == 302, f"besides a list of Topics and one of Brokers: {asked}"
        world.change("t0007", {"spec": {"config": {"retention.ms": 1000}}})
        await world.settle()
        # Of the setting that was changed an event tells.
        assert world.api.take() == {"patch_status": 1, "get": 1, "create": 1}

    in_world(300, story)


def test_without_changes_the_kinds_are_listed_once_a_minute_and_nothing_is_written() -> None:
    async def story(world: World) -> None:
        for _ in range(3):
            await world.settle()
            world.clock.advance(61_000)
        world.api.take()
        await world.settle()
        assert world.api.take() == {"list Topic": 1, "list Broker": 1}

    in_world(250, story)


def test_a_topic_is_not_deleted_because_of_a_resource_of_yesterday() -> None:
    """Watching is late: somebody else has declared the topic meanwhile."""

    async def story(world: World) -> None:
        world.put("doomed", topicName="orders", deletionPolicy="Delete")
        await world.settle()
        world.api.store.delete(TOPIC, NAMESPACE, "doomed")
        world.is_watch_dead = True
        world.put("heir", topicName="orders")
        await world.settle()
        assert "orders" in world.topics()

    in_world(0, story)


def test_a_topic_is_not_made_again_for_a_resource_that_has_gone() -> None:
    """Watching is late: the resource was deleted, and then its topic by hand."""

    async def story(world: World) -> None:
        await world.settle()
        world.clock.advance(61_000)
        await world.cache.freshen(TOPIC)
        world.is_watch_dead = True
        world.api.store.delete(TOPIC, NAMESPACE, "t0000")
        del world.brokers.topics((NAMESPACE, "demo")).topics["t0000"]
        await world.settle()
        assert world.topics() == {"t0001"}

    in_world(2, story)


def test_no_finalizer_goes_because_a_broker_was_not_heard_of() -> None:
    async def story(world: World) -> None:
        world.put("doomed", brokerRef={"name": "demo"}, deletionPolicy="Delete")
        await world.settle()
        world.api.store.delete(TOPIC, NAMESPACE, "doomed")
        for broker in await world.cache.brokers(NAMESPACE):
            # As if it had been made anew, and watching had told only of the end.
            world.cache.missed(broker)
            made = {"metadata": {"name": "demo"}, "spec": {}}
            world.is_watch_dead = True
            world.api.store.delete(BROKER, NAMESPACE, "demo")
            world.api.store.create(BROKER, NAMESPACE, made)
        await world.settle()
        assert world.topics() == set()

    in_world(0, story)
