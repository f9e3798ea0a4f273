"""Reconciles the Topics of a cluster, in one pass those that are due.

Not here: the pass itself (`topic_pass`), which Topics it is about (`portions`). Invariant: but for
rates, when each Topic is to be looked at again, and how long a conflict has gone on, nothing is
remembered that the next pass could not find out by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_client.env import Clock
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.gateway.kafka_topics import KafkaTopics
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import TOPIC, Kind
from barnabas_operator.reconcile.elsewhere import Elsewhere
from barnabas_operator.reconcile.portions import Portion, Portions
from barnabas_operator.reconcile.topic_discovery import discovery_of
from barnabas_operator.reconcile.topic_extras import TopicExtras
from barnabas_operator.reconcile.topic_pass import MakeGateway, Tools, TopicPass
from barnabas_operator.reconcile.topic_resources import TopicResources, topic_of
from barnabas_operator.reconcile.topic_status import is_ready
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.bounded import in_portions
from barnabas_operator.work.key import Key
from barnabas_operator.work.watch_cache import WatchCache
from barnabas_protocol.backoff import ExponentialBackoff

_CONFLICT_MS = 1000


class TopicReconciler:
    """Topics of all clusters, some of one cluster in each call."""

    def __init__(
        self,
        api: KubernetesApi,
        admins: AdminPool,
        settings: OperatorSettings,
        clock: Clock,
        cache: WatchCache,
        *,
        counted: Callable[[Kind, Key, int, int], None] = lambda kind, key, ready, others: None,
        make_gateway: MakeGateway = KafkaTopics,
    ) -> None:
        """`counted` hears how many resources are ready and how many are not."""
        self._api = api
        self._admins = admins
        self._settings = settings
        self._cache = cache
        self._counted = counted
        self._events = Events(api)
        self._portions = Portions(cache, TOPIC, clock, topic_of, extra_of=discovery_of)
        self._tools = Tools(
            api=api,
            admins=admins,
            settings=settings,
            clock=clock,
            extras=TopicExtras(api, self._events),
            elsewhere=Elsewhere(cache.all_brokers, settings.elsewhere_namespaces),
            portions=self._portions,
            make_gateway=make_gateway,
        )
        self._conflicts: dict[Key, int] = {}  # in a row

    async def reconcile(self, key: Key) -> float | None:
        """One pass over Topics of a Broker; with an empty name over those that have none.

        Raises: KubernetesError.
        """
        portion = await self._portions.take(key)
        if portion.broker is None:
            await self._admins.forget(key.namespace, key.name)
        if portion.broker is None or not (portion.resources or portion.is_extra_due):
            self._tools.measuring.pop(key, None)
        if portion.due or portion.is_extra_due:
            await self._pass(key, portion)
        await self._count(key, portion)
        return self._portions.again_seconds(key)

    async def _pass(self, key: Key, portion: Portion) -> None:
        resources = TopicResources(self._api, self._events, self._cache)
        one_pass = TopicPass(self._tools, resources)
        topics = await one_pass.run(key, portion)
        conflict_seconds = self._conflict_seconds(key, has_conflict=bool(resources.conflicted))
        for resource in topics:
            if resource.name in resources.conflicted:
                self._portions.settle(key, resource.manifest, conflict_seconds)
            elif resource.name not in resources.unfinished:
                self._portions.settle(key, resource.manifest, one_pass.again_seconds(resource))
        resources.raise_failure()
        if portion.is_extra_due and portion.broker is not None:
            self._portions.settle_extra(key, portion.broker, self._settings.resync_seconds)

    def _conflict_seconds(self, key: Key, *, has_conflict: bool) -> float:
        """Soon, and later and later while conflicts go on."""
        if not has_conflict:
            self._conflicts.pop(key, None)
            return 0.0
        count = self._conflicts[key] = self._conflicts.get(key, 0) + 1
        backoff = ExponentialBackoff(_CONFLICT_MS, int(self._settings.resync_seconds * 1000))
        return backoff.wait_ms(count - 1) / 1000

    async def _count(self, key: Key, portion: Portion) -> None:
        topics = self._portions.resources(key, portion.brokers)
        if (measuring := self._tools.measuring.get(key)) is not None:
            measuring.forget_others([topic_of(resource) for resource in topics])
        ready = 0
        async for resource in in_portions(topics, size=1000):
            ready += is_ready(resource.get("status") or {})
        self._counted(TOPIC, key, ready, len(topics) - ready)
