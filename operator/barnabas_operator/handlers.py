"""The handlers that kopf calls: each event of a resource adds the key to be reconciled.

Only `on.event` is used: it puts nothing into the resources, neither finalizers nor annotations, and
what it misses the next round of the queue finds. kopf's own indices are not: they hear nothing of
what the operator has just written, and keep what was deleted while a watch had to begin anew.

What the operator writes itself wakes it, too. The pass that follows shows what brokers did not show
yet when the status was written, and writes nothing where that says so already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import kopf

from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONSUMER_GROUP,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    TOPIC,
    USER,
    Kind,
)
from barnabas_operator.kubernetes.objects import BROKER_LABEL, labels_of, name_of, namespace_of
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.reconcile.broker_reference import (
    NamespacedName,
    broker_of,
    what_resources_see,
)
from barnabas_operator.work.freshness import WatchFreshness
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache

WATCHED = (TOPIC, BROKER, CONSUMER_GROUP, USER)
# What belongs to a Broker says so by its label; others are not even sent.
CHILDREN = (STATEFUL_SET, POD, PERSISTENT_VOLUME_CLAIM)


class EventHandlers:
    """Handles the events of watches: updates the cache and adds keys to the work queue."""

    def __init__(
        self,
        add: Callable[[Key], None],
        *,
        admins: AdminPool,
        cache: WatchCache,
        freshness: WatchFreshness,
        metrics: OperatorMetrics,
    ) -> None:
        self._add = add
        self._admins = admins
        self._cache = cache
        self._freshness = freshness
        self._metrics = metrics
        self._brokers: dict[NamespacedName, tuple[Any, ...]] = {}

    def on_event(self, kind: Kind, manifest: Mapping[str, Any], *, is_deleted: bool) -> None:
        """Take an event of a watch; the first ones are of all objects that exist."""
        self._metrics.on_event(kind)
        self._freshness.on_event(kind, manifest, is_deleted=is_deleted)
        self._cache.on_event(kind, manifest, is_deleted=is_deleted)
        if kind is TOPIC:
            self._add_key(KeyKind.TOPICS, broker_of(manifest, self._brokers))
        elif kind is CONSUMER_GROUP:
            self._add_key(KeyKind.GROUPS, broker_of(manifest, self._brokers))
        elif kind is USER:
            self._add_key(KeyKind.USERS, broker_of(manifest, self._brokers))
        elif kind is BROKER:
            self._broker(manifest, is_deleted=is_deleted)
        else:
            name = labels_of(manifest).get(BROKER_LABEL)
            if name:
                self._add_key(KeyKind.BROKER, (namespace_of(manifest), name))

    def _broker(self, manifest: Mapping[str, Any], *, is_deleted: bool) -> None:
        broker_name = namespace_of(manifest), name_of(manifest)
        self._add_key(KeyKind.BROKER, broker_name)
        before = self._brokers.pop(broker_name, None)
        now = None if is_deleted else what_resources_see(manifest)
        if now is not None:
            self._brokers[broker_name] = now
            self._admins.learn(manifest)
        if now != before:
            for kind in (KeyKind.TOPICS, KeyKind.GROUPS, KeyKind.USERS):
                self._add_key(kind, broker_name)
                if (now is None) != (before is None):
                    # What names no Broker may mean another one, or none, from now on.
                    self._add_key(kind, (broker_name[0], ""))

    def _add_key(self, kind: KeyKind, broker_name: NamespacedName) -> None:
        self._add(Key(kind=kind, namespace=broker_name[0], name=broker_name[1]))


def registry_of(
    handlers: EventHandlers,
    *,
    login: Callable[[], Any],
    stopped: Callable[[], Any],
) -> kopf.OperatorRegistry:
    """A registry with our handlers; `login` and `stopped` are coroutine functions."""
    registry = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> Any:
        return await login()

    async def clean_up(**_: Any) -> None:
        await stopped()

    kopf.on.login(registry=registry, retries=3)(log_in)
    kopf.on.cleanup(registry=registry)(clean_up)
    for kind in (*WATCHED, *CHILDREN):
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry)(
            _handler(handlers, kind)
        )
    return registry


def _handler(handlers: EventHandlers, kind: Kind) -> Any:
    async def on_event(event: Any, **_: Any) -> None:
        handlers.on_event(kind, event["object"], is_deleted=event["type"] == "DELETED")

    on_event.__name__ = f"on_event_of_{kind.plural}"
    return on_event


def kopf_settings() -> kopf.OperatorSettings:
    """How kopf watches: no peering, no events of its own, streams that notice their death."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.posting.loggers = False
    settings.execution.max_workers = 1
    settings.execution.default_backoff = 10
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = (1, 2, 3, 5, 8, 13, 21, 30)
    settings.watching.server_timeout = 270
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 200
    settings.queueing.exit_timeout = 1
    settings.process.ultimate_exiting_timeout = 60
    # Unused, and ours should a handler ever be added that marks resources.
    settings.persistence.finalizer = "barnabas.dev/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="barnabas.dev")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="barnabas.dev")
    settings.persistence.consistency_timeout = 5
    for kind in CHILDREN:
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = BROKER_LABEL
    return settings
