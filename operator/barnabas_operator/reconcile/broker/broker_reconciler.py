"""Brings the brokers of one Broker to what it declares: observe, plan, status, apply.

The status is written before anything is done: a restart that is in flight stands in it, so an
operator that starts anew waits for that broker and never takes a second one down.

Invariants: an idle Broker causes no write; a Broker that is deleted is left to Kubernetes, which
removes what it owns; volumes and the arbiter's Lease are owned by nobody and stay, unless
`deleteClaim` says otherwise (`broker_deletion.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
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
from barnabas_operator.kubernetes.status_write import merge_patch, write_status
from barnabas_operator.reconcile.broker.authorities import Authorities, BrokerAuthorities
from barnabas_operator.reconcile.broker.broker_apply import (
    BrokerApplier,
    Child,
    not_ours,
    unwritten,
)
from barnabas_operator.reconcile.broker.broker_deletion import BrokerDeletion
from barnabas_operator.reconcile.broker.broker_observe import (
    BrokerObserver,
    Cluster,
    Clusters,
    Processes,
)
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan, forgotten_drains, plan_broker
from barnabas_operator.reconcile.broker.broker_status import (
    DISK_GUARD,
    DISKS_FULL,
    broker_status,
    full_disks,
    invalid_status,
)
from barnabas_operator.reconcile.broker.elsewhere_status import elsewhere_status, refused_status
from barnabas_operator.reconcile.broker.idle_look import ChangesOf, IdleBrokers
from barnabas_operator.reconcile.broker.observed import Observed
from barnabas_operator.reconcile.broker.security_report import (
    SecurityReport,
    phased,
    plain_connections,
)
from barnabas_operator.reconcile.elsewhere import Elsewhere, NotAdmittedError
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
        changes_of: ChangesOf | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Clusters and processes are the real ones unless others are given.

        Without `changes_of` every pass is a whole one.
        """
        self._api = api
        self._elsewhere = elsewhere or Elsewhere()
        self._clusters = clusters or KafkaClusters(admins)
        self._events = Events(api)
        self._observer = BrokerObserver(api, self._clusters, processes or BrokerAdmin())
        self._applier = BrokerApplier(api, self._events)
        self._deletion = BrokerDeletion(api)
        self._authorities = BrokerAuthorities(api)
        self._settings = settings
        self._eviction_patience = timedelta(seconds=settings.eviction_patience_seconds)
        self._clock = clock
        self._idle = IdleBrokers(changes_of, clock, settings.resync_seconds)
        self._closed_since_ms: dict[Key, int] = {}
        self._refused: dict[Key, tuple[dict[str, str], str]] = {}
        self._forbidden: dict[Key, str] = {}
        self._failures: dict[Key, int] = {}

    async def reconcile(self, key: Key) -> float | None:
        """One pass; the seconds until the next one is wanted, None for a Broker that is gone.

        Raises: KubernetesError; BarnabasError.
        """
        if await self._is_idle_still(key):
            return IDLE_SECONDS
        self._idle.forget(key)
        changes = self._idle.changes(key)
        broker = await self._api.get(BROKER, key.namespace, key.name)
        if broker is None or is_going(broker):
            for remembered in (
                self._closed_since_ms,
                self._refused,
                self._forbidden,
                self._failures,
            ):
                remembered.pop(key, None)
            if broker is None or not await self._deletion.go_on(broker, self._now()):
                return None
            return BUSY_SECONDS
        try:
            return await self._reconcile(key, broker, BrokerSpec.from_manifest(broker), changes)
        except SpecError as error:
            await self._write_invalid(broker, str(error))
            return None

    async def _reconcile(
        self, key: Key, broker: Object, spec: BrokerSpec, changes: int
    ) -> float | None:
        """A whole pass for a Broker that stays. Raises: as `reconcile` does; SpecError."""
        if not spec.is_paused and await self._deletion.keep_finalizer(broker):
            # Another version of it, which the pass has to begin with.
            return 0.0
        before = broker.get("status") or {}
        if spec.is_elsewhere:
            status = await self._status_elsewhere(broker, spec)
            if await write_status(self._api, broker, status) is None:
                self._idle.note(key, changes, spec, before, Observed(), broker=broker)
            return IDLE_SECONDS
        observed = await self._observer.observe(spec, before)
        security, spec = await self._secure(broker, spec, observed)
        plan = self._with_security(self._plan(key, spec, observed), security)
        children = await self._applier.read_children(spec, plan)
        plan = replace(plan, unwritten=unwritten(children), not_ours=not_ours(children))
        status = broker_status(
            spec,
            observed,
            plan,
            before=before,
            now=self._now(),
            eviction_patience=self._eviction_patience,
        )
        written = await write_status(self._api, broker, status)
        await self._tell_full_disks(broker, observed, before)
        if spec.is_paused:
            return IDLE_SECONDS
        has_changed = await self._apply(key, broker, spec, observed, plan, children)
        if _is_busy(observed, plan) or security.authorities.has_changed:
            return BUSY_SECONDS
        if written is None and not has_changed and not plan.not_ours:
            self._idle.note(key, changes, spec, before, observed, plan)
        return IDLE_SECONDS

    async def _apply(
        self,
        key: Key,
        broker: Object,
        spec: BrokerSpec,
        observed: Observed,
        plan: BrokerPlan,
        children: Sequence[Child],
    ) -> bool:
        """Whether the cluster was asked for anything, besides what Kubernetes was.

        Raises: KubernetesError; BarnabasError. A child that was refused is told when all else that
        does not need it has been done.
        """
        try:
            refusals = await self._applier.apply_children(spec, observed, plan, children)
            refusals += await self._applier.apply_steps(broker, spec, observed, plan, refusals)
        except KubernetesError as error:
            self._note_refusal(key, error)
            raise
        if refusals:
            self._note_refusal(key, refusals[0].error)
        else:
            self._forbidden.pop(key, None)
            self._failures.pop(key, None)
        has_changed = await self._apply_to_cluster(key, broker, plan)
        if refusals:
            raise refusals[0].error
        return has_changed

    async def _is_idle_still(self, key: Key) -> bool:
        """Whether a Broker that had nothing to do has not by what its brokers say now, either."""
        idle = self._idle.find(key)
        if idle is None:
            return False
        spec, before, now = idle.spec, idle.status, self._now()
        if idle.broker is not None:
            return not merge_patch(before, await self._status_elsewhere(idle.broker, spec))
        observed = await self._observer.observe_brokers(spec, idle.observed)
        assert idle.plan is not None
        plan = replace(self._plan(key, spec, observed), unwritten=idle.plan.unwritten)
        plan = self._with_security(plan, idle.plan.security)
        status = broker_status(
            spec,
            observed,
            plan,
            before=before,
            now=now,
            eviction_patience=self._eviction_patience,
        )
        return (
            plan == idle.plan and not _is_busy(observed, plan) and not merge_patch(before, status)
        )

    async def _secure(
        self, broker: Object, spec: BrokerSpec, observed: Observed
    ) -> tuple[SecurityReport, BrokerSpec]:
        """Authorities and certificates first: no pod starts without what it is to mount.

        Returns also the spec with the phase that its brokers are to have. Raises: KubernetesError.
        """
        image = spec.image or self._settings.broker_image
        spec, phase = phased(spec, observed, broker.get("status") or {}, image=image)
        authorities = Authorities()
        has_certificates = phase.phase.has_certificates or spec.security.has_tls
        if has_certificates and spec.is_paused:
            authorities = await self._authorities.look(spec)
        elif has_certificates:
            authorities = await self._authorities.settle(
                broker, spec, observed, self._now(), cluster_domain=self._settings.cluster_domain
            )
        report = SecurityReport(
            plan=phase,
            authorities=authorities,
            plain_connections=None if phase.is_done else plain_connections(observed),
            has_authentication=spec.security.has_authentication,
            has_authorization=spec.security.has_authorization,
        )
        return report, spec

    def _with_security(self, plan: BrokerPlan, security: SecurityReport) -> BrokerPlan:
        problem = security.authorities.problem
        problems = (*plan.problems, problem) if problem else plan.problems
        return replace(plan, security=security, problems=problems)

    async def _status_elsewhere(self, broker: Object, spec: BrokerSpec) -> dict[str, Any]:
        """The status of a Broker whose brokers somebody else runs, from a look at them."""
        before, now = broker.get("status") or {}, self._now()
        try:
            self._elsewhere.check_namespace(broker)
            observed = await self._observer.observe(spec, before)
            if observed.cluster is not None:
                self._elsewhere.check_cluster(broker, observed.cluster.cluster_id)
        except NotAdmittedError as error:
            return refused_status(spec, error, before=before, now=now)
        return elsewhere_status(spec, observed, before=before, now=now)

    def _plan(self, key: Key, spec: BrokerSpec, observed: Observed) -> BrokerPlan:
        """The plan, but for what of its children is not written yet."""
        plan = plan_broker(
            spec,
            observed,
            now=self._now(),
            default_image=self._settings.broker_image,
            cluster_domain=self._settings.cluster_domain,
        )
        plan = replace(plan, forgotten=forgotten_drains(observed, self._now()))
        return self._with_refusals(key, self._with_budget(key, plan))

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
            await self._events.emit(broker, DISKS_FULL, text, type_="Warning")

    async def _apply_to_cluster(self, key: Key, broker: Object, plan: BrokerPlan) -> bool:
        """Whether there was anything to do."""
        changes_settings = bool(plan.live.assigned or plan.live.removed)
        scale = plan.scale
        if not (changes_settings or scale.moves or scale.unregistered or scale.leaving):
            return False
        cluster = await self._clusters.cluster(key.namespace, key.name)
        if changes_settings:
            await self._change_settings(key, cluster, plan)
        for node_id, is_leaving in scale.leaving.items():
            await cluster.set_leaving(node_id, is_leaving=is_leaving)
        for node_id in plan.scale.unregistered:
            await cluster.unregister(node_id)
        errors = await cluster.move(plan.scale.moves) if plan.scale.moves else {}
        for topic_partition, error in sorted(errors.items())[:5]:
            message = f"{topic_partition} cannot be moved: {error}"
            await self._events.emit(broker, "MoveFailed", message, type_="Warning")
        others = [error for error in errors.values() if isinstance(error, RetriableError)]
        if others:
            raise others[0]
        return True

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
            logger.info("settings refused by the brokers: %s: %s", key, messages)
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
    if observed.stateful_set is None and plan.not_ours:
        # Whose it is takes it away some time, or nobody does.
        return False
    if observed.stateful_set is None or observed.cluster is None or plan.storage.recreated_set:
        return plan.rendering.replicas > 0
    return bool(plan.waiting_on) or observed.stateful_set.replicas != plan.rendering.replicas
