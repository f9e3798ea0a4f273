"""Brings the brokers of one Broker to what it declares: observe, plan, status, apply.

The status is written before anything is done: a restart that is in flight stands in it, so an
operator that starts anew waits for that broker and never takes a second one down.

Invariants: an idle Broker causes no write; a Broker that is deleted is left to Kubernetes, which
removes what it owns; volumes and the arbiter's Lease are owned by nobody and stay.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.gateway.broker_admin import BrokerAdmin
from barnabas_operator.gateway.kafka_cluster import Admins, KafkaClusters
from barnabas_operator.kubernetes.api import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import BROKER
from barnabas_operator.kubernetes.objects import is_going
from barnabas_operator.kubernetes.status_write import write_status
from barnabas_operator.reconcile.broker.broker_apply import BrokerApplier, unwritten
from barnabas_operator.reconcile.broker.broker_observe import (
    BrokerObserver,
    Cluster,
    Clusters,
    Processes,
)
from barnabas_operator.reconcile.broker.broker_plan import (
    BrokerPlan,
    forgotten_drains,
    plan_broker,
)
from barnabas_operator.reconcile.broker.broker_status import (
    DISK_GUARD,
    DISKS_FULL,
    broker_status,
    full_disks,
    invalid_status,
)
from barnabas_operator.reconcile.broker.elsewhere_status import elsewhere_status
from barnabas_operator.reconcile.broker.observed import Observed
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.spec import SpecError
from barnabas_operator.work.key import Key

logger = logging.getLogger(__name__)

BUSY_SECONDS = 2.0
_FAILURES_TOLD = 2
IDLE_SECONDS = 15.0
# Evictions are not held up for ever: after this long somebody may know better than the operator.
CLOSED_BUDGET_MS_MAX = 30 * 60 * 1000


class BrokerReconciler:
    """Reconciles Brokers, one key at a time for each."""

    def __init__(
        self,
        api: KubernetesApi,
        admins: Admins,
        settings: OperatorSettings,
        clock: Clock,
        *,
        clusters: Clusters | None = None,
        processes: Processes | None = None,
    ) -> None:
        """Clusters and processes are the real ones unless others are given."""
        self._api = api
        self._clusters = clusters or KafkaClusters(admins)
        self._events = Events(api)
        self._observer = BrokerObserver(api, self._clusters, processes or BrokerAdmin())
        self._applier = BrokerApplier(api, self._events)
        self._settings = settings
        self._clock = clock
        self._closed_since_ms: dict[Key, int] = {}
        self._refused: dict[Key, tuple[dict[str, str], str]] = {}
        self._forbidden: dict[Key, str] = {}
        self._failures: dict[Key, int] = {}

    async def reconcile(self, key: Key) -> float | None:
        """One pass; the seconds until the next one is wanted, None for a Broker that is gone.

        Raises: KubernetesError; BarnabasError.
        """
        broker = await self._api.get(BROKER, key.namespace, key.name)
        if broker is None or is_going(broker):
            for remembered in (
                self._closed_since_ms,
                self._refused,
                self._forbidden,
                self._failures,
            ):
                remembered.pop(key, None)
            return None
        try:
            spec = BrokerSpec.from_manifest(broker)
        except SpecError as error:
            await self._write_invalid(broker, str(error))
            return None
        before = broker.get("status") or {}
        observed = await self._observer.observe(spec, before)
        if spec.is_elsewhere:
            status = elsewhere_status(spec, observed, before=before, now=self._now())
            await write_status(self._api, broker, status)
            return IDLE_SECONDS
        plan = plan_broker(
            spec,
            observed,
            now=self._now(),
            default_image=self._settings.broker_image,
            cluster_domain=self._settings.cluster_domain,
        )
        plan = self._with_refusals(key, self._with_budget(key, plan))
        children = await self._applier.read_children(spec, plan)
        plan = replace(
            plan,
            forgotten=forgotten_drains(observed, self._now()),
            unwritten=unwritten(children),
        )
        status = broker_status(spec, observed, plan, before=before, now=self._now())
        await write_status(self._api, broker, status)
        await self._tell_full_disks(broker, observed, before)
        if spec.is_paused:
            return IDLE_SECONDS
        try:
            await self._applier.apply_children(spec, observed, plan, children)
            await self._applier.apply_steps(broker, spec, observed, plan)
        except KubernetesError as error:
            self._note_refusal(key, error)
            raise
        self._forbidden.pop(key, None)
        self._failures.pop(key, None)
        await self._apply_to_cluster(key, broker, plan)
        return BUSY_SECONDS if _is_busy(observed, plan) else IDLE_SECONDS

    def _note_refusal(self, key: Key, error: KubernetesError) -> None:
        """Have the next status tell what was refused, unless it may pass by itself.

        What the server cannot parse it answers with 500, like a fault of its own; one that comes
        twice is worth knowing either way. Without a code nobody has answered.
        """
        if isinstance(error, ConflictError | NotFoundError) or not error.code:
            return
        count = self._failures.get(key, 0) + 1
        self._failures[key] = count
        if isinstance(error, InvalidError | ForbiddenError) or count >= _FAILURES_TOLD:
            self._forbidden[key] = str(error)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

    def _with_budget(self, key: Key, plan: BrokerPlan) -> BrokerPlan:
        """The plan with the disruption budget opened again where it was closed for too long."""
        if plan.rendering.max_unavailable > 0:
            self._closed_since_ms.pop(key, None)
            return plan
        now_ms = self._clock.monotonic_ms()
        since_ms = self._closed_since_ms.setdefault(key, now_ms)
        if now_ms - since_ms < CLOSED_BUDGET_MS_MAX:
            return plan
        return replace(plan, rendering=replace(plan.rendering, max_unavailable=1))

    def _with_refusals(self, key: Key, plan: BrokerPlan) -> BrokerPlan:
        """The plan with what the API server, or the brokers, would not take the last time."""
        if key in self._forbidden:
            plan = replace(plan, problems=(*plan.problems, self._forbidden[key]))
        refused, message = self._refused.get(key, ({}, ""))
        assigned = plan.live.assigned.items()
        if not message or not assigned or not assigned <= refused.items():
            self._refused.pop(key, None)
            return plan
        return replace(plan, problems=(*plan.problems, message))

    async def _tell_full_disks(
        self, broker: Object, observed: Observed, before: Mapping[str, Any]
    ) -> None:
        """An event where disks begin to fill up, none while they stay so (VOL-5)."""
        text = full_disks(observed)
        known = any(one.get("type") == DISK_GUARD for one in before.get("conditions") or ())
        if text and not known:
            await self._events.tell(broker, DISKS_FULL, text, type_="Warning")

    async def _apply_to_cluster(self, key: Key, broker: Object, plan: BrokerPlan) -> None:
        changes_settings = bool(plan.live.assigned or plan.live.removed)
        scale = plan.scale
        if not (changes_settings or scale.moves or scale.unregistered or scale.leaving):
            return
        cluster = await self._clusters.cluster(key.namespace, key.name)
        if changes_settings:
            await self._change_settings(key, cluster, plan)
        for node_id, is_leaving in scale.leaving.items():
            await cluster.set_leaving(node_id, is_leaving=is_leaving)
        for node_id in plan.scale.unregistered:
            await cluster.unregister(node_id)
        errors = await cluster.move(plan.scale.moves) if plan.scale.moves else {}
        for place, error in sorted(errors.items())[:5]:
            message = f"{place} cannot be moved: {error}"
            await self._events.tell(broker, "MoveFailed", message, type_="Warning")
        others = [error for error in errors.values() if isinstance(error, RetriableError)]
        if others:
            raise others[0]

    async def _change_settings(self, key: Key, cluster: Cluster, plan: BrokerPlan) -> None:
        """Change all of them, or each that is not refused. Raises: RetriableError."""
        assigned, removed = plan.live.assigned, plan.live.removed
        if await _refusal(cluster, assigned, removed) is None:
            return
        singles = [
            *(({name: value}, ()) for name, value in assigned.items()),
            *(({}, (name,)) for name in removed),
        ]
        refusals = [await _refusal(cluster, *single) for single in singles]
        messages = "; ".join(str(error) for error in refusals if error is not None)
        if messages:
            # Trying again the same does not help: the status says so until it is changed.
            logger.info("settings of %s are refused: %s", key, messages)
            self._refused[key] = (dict(assigned), f"settings are refused: {messages}")

    async def _write_invalid(self, broker: Object, message: str) -> None:
        before = broker.get("status") or {}
        generation = int(broker["metadata"].get("generation") or 0)
        status = invalid_status(generation, message, before=before, now=self._now())
        await write_status(self._api, broker, status)


async def _refusal(
    cluster: Cluster, assigned: Mapping[str, str], removed: Sequence[str]
) -> BarnabasError | None:
    """Why the brokers do not take these changes, None where they did. Raises: RetriableError."""
    try:
        await cluster.change_settings(assigned, removed)
    except RetriableError:
        raise
    except BarnabasError as error:
        return error
    return None


def _is_busy(observed: Observed, plan: BrokerPlan) -> bool:
    """Whether something is under way that nobody tells about."""
    if plan.unwritten or ((plan.live.assigned or plan.live.removed) and not plan.problems):
        # Done when the pass is over, and the status was written before.
        return True
    if plan.roll.restarts or plan.roll.in_flight or plan.scale.emptying or plan.ungated:
        return True
    if any(pod.drain_request is not None for pod in observed.pods.values()):
        # Who evicts asks again soon, and the disruption budget should be up to date then.
        return True
    if observed.stateful_set is None or observed.cluster is None or plan.storage.recreated_set:
        return plan.rendering.replicas > 0
    return bool(plan.waiting_on) or observed.stateful_set.replicas != plan.rendering.replicas
