"""Reconciles all Topics of one cluster in one pass.

Not here: the pass itself (`topic_pass`). Invariant: but for rates, and how long a conflict has gone
on, nothing is remembered that the next pass could not find out by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_client.env import Clock
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.gateway.kafka_topics import KafkaTopics
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import TOPIC, Kind
from barnabas_operator.reconcile.topic_extras import TopicExtras
from barnabas_operator.reconcile.topic_pass import MakeGateway, Tools, TopicPass
from barnabas_operator.reconcile.topic_resources import TopicResources
from barnabas_operator.reconcile.topic_status import is_ready
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key

_CONFLICT_SECONDS = 1.0


class TopicReconciler:
    """Topics of all clusters, one cluster in each call."""

    def __init__(
        self,
        api: KubernetesApi,
        admins: AdminPool,
        settings: OperatorSettings,
        clock: Clock,
        *,
        counted: Callable[[Kind, Key, int, int], None] = lambda kind, key, ready, others: None,
        make_gateway: MakeGateway = KafkaTopics,
    ) -> None:
        """`counted` hears how many resources are ready and how many are not."""
        self._api = api
        self._settings = settings
        self._counted = counted
        self._events = Events(api)
        self._tools = Tools(
            api=api,
            admins=admins,
            settings=settings,
            clock=clock,
            extras=TopicExtras(api, self._events),
            make_gateway=make_gateway,
        )
        self._conflicts: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> float | None:
        """One pass over the Topics of a Broker; with an empty name over those that have none.

        Raises: KubernetesError.
        """
        resources = TopicResources(self._api, self._events, self._settings.namespaces)
        topics, again = await TopicPass(self._tools, resources).run(key)
        ready = sum(is_ready(one.old_status) for one in topics)
        self._counted(TOPIC, key, ready, len(topics) - ready)
        resources.raise_failure()
        if not resources.has_conflict:
            self._conflicts.pop(key, None)
            return again
        # Soon, and later and later while conflicts go on.
        wait_seconds = self._conflicts.get(key, _CONFLICT_SECONDS)
        self._conflicts[key] = min(wait_seconds * 2, self._settings.resync_seconds)
        return wait_seconds if again is None else min(wait_seconds, again)
