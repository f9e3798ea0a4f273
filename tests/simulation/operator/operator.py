"""One life of the operator: the real reconcilers, their queue and wake-ups, on a faulty API server.

It may be killed at any await. Each request takes its time before and after it is carried out, may
fail in either half, and reads what is there at that moment: a pass sees an inconsistent picture.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, BrokerUnreachableError
from barnabas_operator.gateway.kafka_topics import TopicMeasures
from barnabas_operator.handlers import CHILDREN, WATCHED, EventHandlers
from barnabas_operator.kubernetes.api import ForbiddenError, Object, UnavailableError
from barnabas_operator.kubernetes.kinds import SERVICE, Kind
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.observed import (
    ProcessView,
)
from barnabas_operator.reconcile.elsewhere import Elsewhere
from barnabas_operator.reconcile.group.group_reconciler import GroupReconciler
from barnabas_operator.reconcile.topic_reconciler import TopicReconciler
from barnabas_operator.reconcile.topic_state import ObservedCluster
from barnabas_operator.reconcile.user.user_reconciler import UserReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from barnabas_operator.work.work_queue import ReconcileResult, WorkQueue
from barnabas_protocol.ids import TopicPartition
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.simulation.operator.brokers import CLUSTER_ID, Brokers
from tests.simulation.operator.groups import Groups
from tests.simulation.operator.odd_users import SILENT
from tests.support.fake_kubernetes_store import Event, FakeStore
from tests.support.memory_users import MemoryUsers
from tests.support.simulated_random import SimulatedRandom

T = TypeVar("T")
SETTINGS = OperatorSettings(broker_image="good:0", unreachable_seconds=60.0, resync_seconds=60.0)
EVENT_DELAY_MS_MAX = 1500


class Faults:
    """How bad things are for an operator at present; users change it."""

    def __init__(self) -> None:
        self.per_thousand = 0  # of its requests to the API server that fail
        self.is_api_away = False
        self.is_quota_used = False  # no Service can be made
        self.are_brokers_unreachable = False  # for the operator only


class FaultyApi:
    """`KubernetesApi` with faults; `acting` hears of each write before it is made."""

    def __init__(
        self,
        store: FakeStore,
        random: SimulatedRandom,
        faults: Faults,
        acting: Callable[[str, Kind | None, str, Mapping[str, Any]], None],
    ) -> None:
        self._inner = StoreApi(store, copies=False)
        self._random = random
        self._faults = faults
        self._acting = acting

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        return await self._asked(lambda: self._inner.get(kind, namespace, name))

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        return await self._asked(
            lambda: self._inner.list(
                kind,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
        )

    async def create(self, manifest: Object) -> Object:
        return await self._written("create", None, manifest, lambda: self._inner.create(manifest))

    async def apply(self, manifest: Object) -> Object:
        if manifest["kind"] == "Service" and self._faults.is_quota_used:
            metadata = manifest["metadata"]
            if await self.get(SERVICE, metadata["namespace"], metadata["name"]) is None:
                raise ForbiddenError("exceeded quota: services", code=403)
        return await self._written("apply", None, manifest, lambda: self._inner.apply(manifest))

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        *,
        uid: str | None = None,
    ) -> Object:
        meant = {"metadata": {"name": name, "uid": uid}, "patch": patch}
        return await self._written(
            "patch", kind, meant, lambda: self._inner.patch(kind, namespace, name, patch, uid=uid)
        )

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        meant = {**manifest, "status": status}
        return await self._written(
            "status", None, meant, lambda: self._inner.patch_status(manifest, status)
        )

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        meant = {"metadata": {"name": name, "uid": uid}, "propagation": propagation}
        return await self._written(
            "delete",
            kind,
            meant,
            lambda: self._inner.delete(
                kind,
                namespace,
                name,
                uid=uid,
                propagation=propagation,
                grace_seconds=grace_seconds,
            ),
        )

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        await self._travel()
        return await ask()

    async def _written(
        self, verb: str, kind: Kind | None, meant: Mapping[str, Any], do: Callable[[], Awaitable[T]]
    ) -> T:
        await self._travel()
        name = str(meant["metadata"]["name"])
        self._acting(verb, kind, name, meant)
        done = await do()
        await self._travel()
        return done

    async def _travel(self) -> None:
        await asyncio.sleep((1 + self._random.integer(30)) / 1000)
        if self._faults.is_api_away:
            await asyncio.sleep(SETTINGS.request_timeout_seconds)
            raise UnavailableError("no answer")
        if self._random.integer(1000) < self._faults.per_thousand:
            raise UnavailableError("the server is overloaded", code=503)


class BrokersFromAfar:
    """The gateway of Brokers on the simulated brokers, over a network that may be cut."""

    def __init__(self, brokers: Brokers, groups: Groups, random: SimulatedRandom, faults: Faults):
        self.brokers = brokers
        self.groups = groups
        self._random = random
        self._faults = faults

    async def reached(self, call: Callable[[], T]) -> T:
        await asyncio.sleep((1 + self._random.integer(50)) / 1000)
        if self._faults.are_brokers_unreachable:
            await asyncio.sleep(2)
            raise BrokerUnreachableError("no way to the brokers")
        found = call()
        await asyncio.sleep((1 + self._random.integer(50)) / 1000)
        return found

    async def cluster(self, namespace: str, name: str) -> BrokersFromAfar:
        await self.connect(name)
        return self

    async def connect(self, name: str) -> None:
        """Brokers that take connections and never answer cost the whole time."""
        if name.startswith(SILENT):
            await asyncio.sleep(SETTINGS.admin_timeout_seconds)
            raise BrokerUnreachableError("no answer")

    async def observe(self) -> ClusterView:
        return await self.reached(self.brokers.view)

    async def statuses(
        self, addresses: Mapping[int, str], access: Any = None
    ) -> dict[int, ProcessView]:
        try:
            return await self.reached(lambda: self.brokers.process_views(sorted(addresses)))
        except BrokerUnreachableError:
            return {}

    async def move(self, moves: Mapping[TopicPartition, Sequence[int]]) -> Mapping[str, Exception]:
        return await self.reached(lambda: self.brokers.move(moves))

    async def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        await self.reached(lambda: self.brokers.change_settings(assigned, removed))

    async def set_leaving(self, node_id: int, *, is_leaving: bool) -> None:
        await self.reached(lambda: self.brokers.set_leaving(node_id, is_leaving=is_leaving))

    async def unregister(self, node_id: int) -> None:
        await self.reached(lambda: self.brokers.unregister(node_id))


class TopicsFromAfar:
    """The gateway of Topics, likewise."""

    last: ObservedCluster | None = None

    def __init__(self, afar: BrokersFromAfar) -> None:
        self._afar = afar

    async def observe(self, topics: Sequence[str]) -> ObservedCluster:
        return await self._afar.reached(lambda: self._afar.brokers.observe_topics(topics))

    async def carry_out(self, steps: Sequence[Any]) -> Mapping[str, Exception]:
        return await self._afar.reached(lambda: self._afar.brokers.carry_out(steps))

    create_topics = grow_partitions = change_configs = carry_out
    reassign_replicas = delete_topics = carry_out

    async def measure(self, topics: Mapping[str, Any]) -> TopicMeasures:
        return await self._afar.reached(lambda: self._afar.brokers.measure(topics))


class GroupsFromAfar:
    """The gateway of ConsumerGroups, likewise."""

    def __init__(self, afar: BrokersFromAfar) -> None:
        self._afar = afar

    async def observe(self, questions: Sequence[Any]) -> Any:
        afar = self._afar
        return await afar.reached(lambda: afar.groups.observe(questions))

    async def list_ids(self) -> tuple[str, ...]:
        return await self._afar.reached(self._afar.groups.list_ids)

    async def carry_out(self, action: Any) -> Exception | None:
        try:
            return await self._afar.reached(lambda: self._afar.groups.carry_out(action))
        except BarnabasError as error:
            return error


class Admins:
    """What `AdminPool` is to reconcilers."""

    def __init__(self, afar: BrokersFromAfar, clock: Clock) -> None:
        self._afar = afar
        self._clock = clock
        self._since_ms: int | None = None
        # Says of no broker that it makes topics by itself.
        self._admin = SimpleNamespace(cluster=SimpleNamespace(describe=self._describe))

    async def _describe(self) -> Any:
        await self._afar.observe()
        return SimpleNamespace(brokers=(), cluster_id=CLUSTER_ID)

    def learn(self, broker: Mapping[str, Any]) -> None:
        """It has one address."""

    async def forget(self, namespace: str, name: str) -> None:
        """There is nothing to close."""

    @asynccontextmanager
    async def using(self, namespace: str, name: str) -> AsyncIterator[Any]:
        try:
            await self._afar.connect(name)
            await self._afar.observe()
            yield self._admin
        except BarnabasError:
            if self._since_ms is None:
                self._since_ms = self._clock.monotonic_ms()
            raise
        self._since_ms = None

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        if self._since_ms is None:
            return 0.0
        return (self._clock.monotonic_ms() - self._since_ms) / 1000


class _Ignoring:
    """Takes whatever it is told."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Operator:
    """One process; `kill` ends it where it stands."""

    def __init__(
        self,
        store: FakeStore,
        afar: BrokersFromAfar,
        api: FaultyApi,
        clock: Clock,
        draws: SimulatedRandom,
        *,
        on_result: Callable[[ReconcileResult], None],
        before_pass: Callable[[Key], None],
    ) -> None:
        self._store = store
        self._draws = draws
        self._before_pass = before_pass
        admins: Any = Admins(afar, clock)
        cache = WatchCache(
            api,
            lambda: clock.monotonic_ms() / 1000,
            list_seconds=SETTINGS.resync_seconds,
        )
        self._reconcilers: dict[KeyKind, Any] = {
            KeyKind.BROKER: BrokerReconciler(
                api,
                admins,
                SETTINGS,
                clock,
                clusters=afar,
                processes=afar,
                changes_of=cache.changes_of,
                elsewhere=Elsewhere(cache.all_brokers),
            ),
            KeyKind.TOPICS: TopicReconciler(
                api, admins, SETTINGS, clock, cache, make_gateway=lambda _: TopicsFromAfar(afar)
            ),
            KeyKind.GROUPS: GroupReconciler(
                api, admins, SETTINGS, clock, cache, make_gateway=lambda _: GroupsFromAfar(afar)
            ),
            KeyKind.USERS: UserReconciler(
                api, admins, SETTINGS, clock, cache, make_gateway=lambda _: MemoryUsers()
            ),
        }
        self._queue = WorkQueue(
            self._reconcile,
            settle_seconds=SETTINGS.settle_seconds,
            on_result=on_result,
            chance=random.Random(draws.integer(1 << 30)),
        )
        ignoring: Any = _Ignoring()
        self._handlers = EventHandlers(
            self._queue.add, admins=admins, cache=cache, freshness=ignoring, metrics=ignoring
        )
        self.is_alive = True
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._queue.run())
        for kind in (*WATCHED, *CHILDREN):
            for one in store.list(kind, "", lambda _: True):
                self._hear((0, kind, "ADDED", one))
        store.listeners.append(self._hear)

    def kill(self) -> None:
        if not self.is_alive:
            return
        self.is_alive = False
        self._store.listeners.remove(self._hear)
        self._task.cancel()

    async def ended(self) -> None:
        """Return when nothing of it runs any more."""
        await asyncio.wait((self._task,))

    async def _reconcile(self, key: Key) -> float | None:
        self._before_pass(key)
        found: float | None = await self._reconcilers[key.kind].reconcile(key)
        return found

    def _hear(self, event: Event) -> None:
        """An event of a watch arrives, in order of a kind, some time later."""
        _, kind, type_, manifest = event
        if kind not in (*WATCHED, *CHILDREN):
            return
        delay_seconds = self._draws.integer(EVENT_DELAY_MS_MAX) / 1000
        loop = asyncio.get_running_loop()
        loop.call_later(delay_seconds, self._wake, kind, manifest, type_ == "DELETED")

    def _wake(self, kind: Kind, manifest: Mapping[str, Any], is_deleted: bool) -> None:
        if self.is_alive:
            self._handlers.on_event(kind, manifest, is_deleted=is_deleted)
