"""What one pass over a cluster's resources is about: its Broker, all of them, and those now due.

All comes from the cache. That a Broker is not there has finalizers let go, so it is believed only
after the Brokers were listed anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas_client.env import Clock
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import BROKER, Kind
from barnabas_operator.kubernetes.objects import is_going, name_of, resource_version_of, uid_of
from barnabas_operator.reconcile.broker_reference import NamespacedName, what_resources_see
from barnabas_operator.work.agenda import Agenda, Item
from barnabas_operator.work.key import Key
from barnabas_operator.work.watch_cache import WatchCache, names_of

# What a pass holds on to for some seconds at most, and a few requests to the brokers take.
RESOURCES_MAX = 200
_NEVER = math.inf
_CLOCKS_DIFFER_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One pass: `brokers` are those of its namespace, `due` is the part of `resources` to do."""

    broker: Object | None
    brokers: tuple[NamespacedName, ...]
    resources: Sequence[Object]
    due: Sequence[Object]
    is_extra_due: bool = False


@dataclass(slots=True)
class _Cluster:
    agenda: Agenda
    seen: Any = None


class Portions:
    """The passes of one kind of resource over all clusters."""

    def __init__(
        self,
        cache: WatchCache,
        kind: Kind,
        clock: Clock,
        subject_of: Callable[[Object], str],
        *,
        extra_of: Callable[[Object], str] = lambda broker: "",
        resources_max: int = RESOURCES_MAX,
    ) -> None:
        """`subject_of` tells which resources are decided together.

        `extra_of` tells what a Broker wants of passes besides its resources, empty for nothing.
        """
        self.cache = cache
        self._kind = kind
        self._clock = clock
        self._subject_of = subject_of
        self._extra_of = extra_of
        self._resources_max = resources_max
        self._clusters: dict[Key, _Cluster] = {}

    async def take(self, key: Key) -> Portion:
        """What the next pass over a cluster is about. Raises: KubernetesError."""
        await self.cache.freshen(self._kind, BROKER)
        broker, brokers = await self._broker(key)
        resources = self.resources(key, brokers)
        if broker is None and resources:
            await self.cache.relist(BROKER)
            broker, brokers = await self._broker(key)
            resources = self.resources(key, brokers)
        extra = "" if broker is None else self._extra_of(broker)
        if not resources and not extra:
            self._clusters.pop(key, None)
            return Portion(broker=broker, brokers=brokers, resources=(), due=())
        cluster = self._clusters.setdefault(key, _Cluster(Agenda(items_max=self._resources_max)))
        now = self._now()
        seen = len(brokers) if broker is None else what_resources_see(broker)
        if cluster.seen != seen:
            cluster.seen = seen
            cluster.agenda.restart(now)
        items = [
            Item(
                uid=uid_of(resource),
                version=resource_version_of(resource),
                subject=self._subject_of(resource),
            )
            for resource in resources
        ]
        if extra:
            items.append(Item(uid="", version=extra, subject=""))
        taken = cluster.agenda.take(items, now)
        due = [resource for resource in resources if uid_of(resource) in taken]
        return Portion(
            broker=broker,
            brokers=brokers,
            resources=resources,
            due=due,
            is_extra_due="" in taken,
        )

    def resources(self, key: Key, brokers: Sequence[NamespacedName]) -> list[Object]:
        """All that belong to a cluster, as they are known now."""
        return self.cache.of_broker(self._kind, (key.namespace, key.name), brokers)

    async def are_still(self, key: Key, planned: Sequence[Object], subjects: set[str]) -> bool:
        """Whether these are, by a new list, the very resources that there are for some subjects.

        Raises: KubernetesError.
        """
        await self.cache.relist(self._kind)
        _, brokers = await self._broker(key)
        there, resolved = (
            {
                (uid_of(resource), resource_version_of(resource))
                for resource in resources
                if self._subject_of(resource) in subjects
            }
            for resources in (self.resources(key, brokers), planned)
        )
        return there == resolved

    def settle(self, key: Key, manifest: Object, again_seconds: float | None) -> None:
        """Look at it again after a time, None for never, or when it has changed."""
        self._settle(key, uid_of(manifest), resource_version_of(manifest), again_seconds)

    def settle_extra(self, key: Key, broker: Object, again_seconds: float) -> None:
        """Do what the Broker wants besides again after a time."""
        self._settle(key, "", self._extra_of(broker), again_seconds)

    def again_seconds(self, key: Key) -> float | None:
        """When the next pass over a cluster is wanted, None for when something changes."""
        cluster = self._clusters.get(key)
        due = None if cluster is None else cluster.agenda.next_due
        if due is None or due == _NEVER:
            return None
        now = self._now()
        # Never too early by what clocks differ in, as nothing would be due then.
        return 0.0 if due <= now else due - now + _CLOCKS_DIFFER_SECONDS

    def _settle(self, key: Key, uid: str, version: str, again_seconds: float | None) -> None:
        cluster = self._clusters.get(key)
        if cluster is not None:
            due = _NEVER if again_seconds is None else self._now() + again_seconds
            cluster.agenda.settle(uid, version, due)

    async def _broker(self, key: Key) -> tuple[Object | None, tuple[NamespacedName, ...]]:
        brokers = await self.cache.brokers(key.namespace)
        chosen = (
            broker for broker in brokers if name_of(broker) == key.name and not is_going(broker)
        )
        return next(chosen, None), tuple(names_of(brokers))

    def _now(self) -> float:
        return self._clock.monotonic_ms() / 1000
