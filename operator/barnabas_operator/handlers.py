"""What kopf calls: every change of a resource becomes the key of what has to be reconciled.

Only `on.event` is used: it puts nothing into the resources, neither finalizers nor annotations, and
what it misses the next round of the queue finds.

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
    Kind,
)
from barnabas_operator.kubernetes.objects import (
    BROKER_LABEL,
    annotations_of,
    generation_of,
    is_going,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.reconcile.broker_reference import Place, broker_of
from barnabas_operator.work.freshness import WatchFreshness
from barnabas_operator.work.key import Key, Work

WATCHED = (TOPIC, BROKER, CONSUMER_GROUP)
# What belongs to a Broker says so by its label; others are not even sent.
CHILDREN = (STATEFUL_SET, POD, PERSISTENT_VOLUME_CLAIM)


class Wakeups:
    """Turns events into keys; it knows which Brokers there are, and no more."""

    def __init__(
        self,
        add: Callable[[Key], None],
        *,
        admins: AdminPool,
        freshness: WatchFreshness,
        metrics: OperatorMetrics,
    ) -> None:
        self._add = add
        self._admins = admins
        self._freshness = freshness
        self._metrics = metrics
        self._brokers: dict[Place, tuple[Any, ...]] = {}

    def heard(self, kind: Kind, manifest: Mapping[str, Any], *, is_deleted: bool) -> None:
        """Take an event of a watch; the first ones are of all objects that exist."""
        self._metrics.heard(kind)
        self._freshness.heard(kind, manifest, is_deleted=is_deleted)
        if kind is TOPIC:
            self._wake(Work.TOPICS, broker_of(manifest, self._brokers))
        elif kind is CONSUMER_GROUP:
            self._wake(Work.GROUPS, broker_of(manifest, self._brokers))
        elif kind is BROKER:
            self._broker(manifest, is_deleted=is_deleted)
        else:
            name = labels_of(manifest).get(BROKER_LABEL)
            if name:
                self._wake(Work.BROKER, (namespace_of(manifest), name))

    def _broker(self, manifest: Mapping[str, Any], *, is_deleted: bool) -> None:
        place = namespace_of(manifest), name_of(manifest)
        self._wake(Work.BROKER, place)
        before = self._brokers.pop(place, None)
        now = None if is_deleted else _what_topics_see(manifest)
        if now is not None:
            self._brokers[place] = now
            self._admins.learn(manifest)
        if now != before:
            for work in (Work.TOPICS, Work.GROUPS):
                self._wake(work, place)
                if (now is None) != (before is None):
                    # What names no Broker may mean another one, or none, from now on.
                    self._wake(work, (place[0], ""))

    def _wake(self, work: Work, place: Place) -> None:
        self._add(Key(kind=work, namespace=place[0], name=place[1]))


def _what_topics_see(broker: Mapping[str, Any]) -> tuple[Any, ...]:
    """All of a Broker that matters to its topics and groups, not its ever-changing status."""
    conditions = (broker.get("status") or {}).get("conditions") or ()
    ready = [one.get("status") for one in conditions if one.get("type") == "Ready"]
    return (
        uid_of(broker),
        generation_of(broker),
        is_going(broker),
        dict(annotations_of(broker)),
        ready,
    )


def registry_of(
    wakeups: Wakeups,
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
            _handler(wakeups, kind)
        )
    return registry


def _handler(wakeups: Wakeups, kind: Kind) -> Any:
    async def heard(event: Any, **_: Any) -> None:
        wakeups.heard(kind, event["object"], is_deleted=event["type"] == "DELETED")

    heard.__name__ = f"heard_of_{kind.plural}"
    return heard


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
    settings.watching.chunk_size = 500
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
