"""Carries out a plan for a Broker: children, then the steps, in the plan's order.

Not here: deciding (`broker_plan.py`), the status (which the reconciler writes first, because it
holds the lock of a restart).

Invariants: nothing is written that already is so; no broker that serves is restarted when another
one has gone since the plan was made; what belongs to somebody else is neither written
nor deleted; every delete names the uid of what is meant; pods are deleted with their own grace
period, in which they give their leaderships away, but for those whose process has never answered.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import (
    CONFIG_MAP,
    INGRESS,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
    TLS_ROUTE,
    kind_of,
)
from barnabas_operator.kubernetes.objects import BROKER_LABEL, is_going, name_of, uid_of
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan
from barnabas_operator.reconcile.broker.child_drift import (
    Difference,
    differences,
    is_applied,
    is_marked_as,
    marked,
)
from barnabas_operator.reconcile.broker.children import render
from barnabas_operator.reconcile.broker.claim_plan import DropClaim
from barnabas_operator.reconcile.broker.drain_request import DRAIN_REQUESTED_ANNOTATION
from barnabas_operator.reconcile.broker.observed import Observed, PodView
from barnabas_operator.reconcile.broker.ownership import is_ours, not_ours_text
from barnabas_operator.reconcile.broker.pod_reading import DECOMMISSIONED_ANNOTATION, read_pod
from barnabas_operator.reconcile.broker.roll_plan import Restart

logger = logging.getLogger(__name__)

# The template of the pods, and the files that a broker reads when it starts.
_POD_SOURCES = {STATEFUL_SET.kind, CONFIG_MAP.kind}
# Fields that the API server writes in another way, of so many objects at most.
_TOLERATED_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What a child is to be, and what was found: None if there is none, or it cannot be read.

    `not_ours` says whose the object of its name is, empty where it is this Broker's or there is
    none.
    """

    intent: Object
    found: Object | None
    error: KubernetesError | None = None
    not_ours: str = ""


def unwritten(children: Iterable[Child]) -> tuple[str, ...]:
    """The children that do not yet have what is declared, as `Kind name`.

    Without the disruption budget, which follows the replicas in sync and not what is declared, and
    without what never will have it, because it belongs to somebody else.
    """
    return tuple(
        f"{child.intent['kind']} {name_of(child.intent)}"
        for child in children
        if child.intent["kind"] != POD_DISRUPTION_BUDGET.kind
        and not child.not_ours
        and not is_marked_as(child.intent, child.found)
    )


def not_ours(children: Iterable[Child]) -> tuple[str, ...]:
    """What belongs to somebody else and has the name of a child, as text for people."""
    return tuple(child.not_ours for child in children if child.not_ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A child that the API server did not take, or a claim that it lets not grow."""

    kind: str
    error: KubernetesError


class BrokerApplier:
    """Carries out plans."""

    def __init__(self, api: KubernetesApi, events: Events) -> None:
        self._api = api
        self._events = events
        self._tolerated: dict[tuple[str, str], frozenset[Difference]] = {}

    async def read_children(self, spec: BrokerSpec, plan: BrokerPlan) -> tuple[Child, ...]:
        """The children as they are to be and as they are, in order.

        Raises: KubernetesError if nobody answers, or this operator may not act any more.
        """
        children = []
        for intent in map(marked, render(spec, plan.rendering)):
            kind = kind_of(intent["apiVersion"], intent["kind"])
            found, failure = None, None
            try:
                found = await self._api.get(kind, spec.namespace, name_of(intent))
            except KubernetesError as error:
                if not error.code:
                    raise
                failure = error
            whose = ""
            if found is not None and not is_ours(found, spec):
                whose = not_ours_text(kind.kind, found, spec)
            children.append(Child(intent=intent, found=found, error=failure, not_ours=whose))
        return tuple(children)

    async def apply_children(
        self, spec: BrokerSpec, observed: Observed, plan: BrokerPlan, children: Sequence[Child]
    ) -> tuple[Refusal, ...]:
        """Make the children what they are to be, in order; returns those that were refused.

        One that is refused does not keep the others waiting. Raises: KubernetesError if nobody
        answers, or this operator may not act any more.
        """
        current = observed.stateful_set
        if plan.storage.recreated_set is not None:
            # Its pods stay; the claim template cannot be changed in any other way.
            await self._api.delete(
                STATEFUL_SET,
                spec.namespace,
                spec.name,
                uid=plan.storage.recreated_set,
                propagation="Orphan",
            )
        is_set_going = current is not None and current.is_going
        refusals: list[Refusal] = []
        for child in children:
            is_set = child.intent["kind"] == STATEFUL_SET.kind
            if child.not_ours or (
                is_set and (is_set_going or plan.storage.recreated_set is not None)
            ):
                continue
            try:
                await self._apply(child)
            except KubernetesError as error:
                if not error.code:
                    # Nobody answers, or this operator may not act any more.
                    raise
                refusals.append(Refusal(kind=child.intent["kind"], error=error))
        if not refusals:
            await self._prune_services(spec, plan)
            await self._prune_rules(spec, children)
        return tuple(refusals)

    async def apply_steps(
        self,
        broker: Object,
        spec: BrokerSpec,
        observed: Observed,
        plan: BrokerPlan,
        refusals: Sequence[Refusal] = (),
    ) -> tuple[Refusal, ...]:
        """Volumes, gates and restarts; returns the volumes that were refused more.

        While a child is refused no broker that serves is restarted, because it may lack what was
        refused. Those that cannot start go on being replaced, unless the StatefulSet or the
        ConfigMap is refused. For volumes that may not grow nothing else waits. Raises:
        KubernetesError.
        """
        too_small = await self._expand(spec, plan)
        for ungate in plan.ungated:
            pod = names.pod(spec.name, ungate.node_id)
            gates = {"spec": {"schedulingGates": None}}
            await self._api.patch(POD, spec.namespace, pod, gates, uid=ungate.pod_uid)
        for forgotten in plan.forgotten:
            pod = names.pod(spec.name, forgotten.node_id)
            note = {"metadata": {"annotations": {DRAIN_REQUESTED_ANNOTATION: None}}}
            await self._api.patch(POD, spec.namespace, pod, note, uid=forgotten.pod_uid)
        for relabel in plan.relabelled:
            pod = names.pod(spec.name, relabel.node_id)
            metadata = {"labels": dict(relabel.labels), "annotations": dict(relabel.annotations)}
            declared = {"metadata": metadata}
            await self._api.patch(POD, spec.namespace, pod, declared, uid=relabel.pod_uid)
        for mark in plan.claims.marks:
            noted = {DECOMMISSIONED_ANNOTATION: "true" if mark.is_empty else None}
            await self._api.patch(
                PERSISTENT_VOLUME_CLAIM,
                spec.namespace,
                mark.claim,
                {"metadata": {"annotations": noted}},
                uid=mark.uid,
            )
        for dropped in plan.claims.dropped:
            await self._drop_claim(broker, spec, dropped)
        await self._replace_disks(broker, spec, plan)
        refused = {refusal.kind for refusal in refusals}
        if not refused & _POD_SOURCES:
            restarts = plan.roll.restarts
            chosen = [one for one in restarts if one.is_stuck] if refused else restarts
            await self._restart(broker, spec, observed, chosen)
        return too_small

    async def _expand(self, spec: BrokerSpec, plan: BrokerPlan) -> tuple[Refusal, ...]:
        """Ask for larger volumes. Raises: KubernetesError if nobody answers."""
        refusals = []
        for step in plan.storage.expansions:
            try:
                await self._api.patch(
                    PERSISTENT_VOLUME_CLAIM,
                    spec.namespace,
                    step.claim,
                    {"spec": {"resources": {"requests": {"storage": step.size}}}},
                    uid=step.uid,
                )
            except KubernetesError as error:
                if not error.code:
                    raise
                refusals.append(Refusal(kind=PERSISTENT_VOLUME_CLAIM.kind, error=error))
        return tuple(refusals)

    async def _apply(self, child: Child) -> None:
        if child.error is not None:
            raise child.error
        intent, metadata = child.intent, child.intent["metadata"]
        child_name = (str(intent["kind"]), f"{metadata['namespace']}/{metadata['name']}")
        if is_applied(intent, child.found, self._tolerated.get(child_name, frozenset())):
            return
        if child.found is not None:
            # Of that very one it is known whose it is.
            intent = {**intent, "metadata": {**metadata, "uid": uid_of(child.found)}}
        after = await self._api.apply(intent)
        if len(self._tolerated) > _TOLERATED_MAX:
            self._tolerated.clear()
        self._tolerated[child_name] = differences(intent, after)

    async def _prune_services(self, spec: BrokerSpec, plan: BrokerPlan) -> None:
        """Delete the Services of brokers that are gone, or of a listener that is."""
        node_ids = range(plan.rendering.replicas)
        wanted = {names.broker_service(spec.name, node_id) for node_id in node_ids}
        if spec.external is not None:
            wanted |= {names.external_service(spec.name, node_id) for node_id in node_ids}
            if spec.external.is_routed:
                wanted.add(names.external_bootstrap(spec.name))
        found = await self._api.list(
            SERVICE, namespace=spec.namespace, label_selector=f"{BROKER_LABEL}={spec.name}"
        )
        for service in found:
            name = name_of(service)
            is_bootstrap = name == names.external_bootstrap(spec.name)
            is_for_brokers = is_bootstrap or names.is_of_one_broker(spec.name, name)
            if is_for_brokers and name not in wanted and is_ours(service, spec):
                if is_bootstrap:
                    # Only a listener by routes has it.
                    await self._prune_routes(spec, ())
                await self._api.delete(SERVICE, spec.namespace, name, uid=uid_of(service))

    async def _prune_rules(self, spec: BrokerSpec, children: Sequence[Child]) -> None:
        """Delete the NetworkPolicy and the routes that are not wanted any more.

        They are there only where security is, and so are the rights to look for them.
        """
        wanted = {(one.intent["kind"], name_of(one.intent)) for one in children}
        if spec.phase.has_certificates and (NETWORK_POLICY.kind, spec.name) not in wanted:
            policy = await self._api.get(NETWORK_POLICY, spec.namespace, spec.name)
            if policy is not None and is_ours(policy, spec):
                await self._api.delete(
                    NETWORK_POLICY, spec.namespace, spec.name, uid=uid_of(policy)
                )
        if spec.external is not None and spec.external.is_routed:
            await self._prune_routes(spec, wanted)

    async def _prune_routes(self, spec: BrokerSpec, wanted: Container[tuple[str, str]]) -> None:
        selector = f"{BROKER_LABEL}={spec.name}"
        try:
            routes = await self._api.list(
                TLS_ROUTE, namespace=spec.namespace, label_selector=selector
            )
        except NotFoundError:
            routes = []  # Gateway API is not here, or was taken away and its routes with it
        for route in routes:
            name = name_of(route)
            if (TLS_ROUTE.kind, name) not in wanted and is_ours(route, spec):
                await self._api.delete(TLS_ROUTE, spec.namespace, name, uid=uid_of(route))
        for ingress in await self._api.list(
            INGRESS, namespace=spec.namespace, label_selector=selector
        ):
            name = name_of(ingress)
            if (INGRESS.kind, name) not in wanted and is_ours(ingress, spec):
                await self._api.delete(INGRESS, spec.namespace, name, uid=uid_of(ingress))

    async def _drop_claim(self, broker: Object, spec: BrokerSpec, dropped: DropClaim) -> None:
        logger.info("deleting %s of %s: %s", dropped.claim, spec.name, dropped.why)
        await self._events.emit(
            broker, "ClaimDeleted", f"{dropped.claim}: {dropped.why}", occasion=dropped.uid
        )
        await self._api.delete(
            PERSISTENT_VOLUME_CLAIM, spec.namespace, dropped.claim, uid=dropped.uid
        )

    async def _replace_disks(self, broker: Object, spec: BrokerSpec, plan: BrokerPlan) -> None:
        for step in plan.storage.replacements:
            await self._events.emit(
                broker,
                "DiskReplaced",
                f"broker {step.node_id} gets an empty disk in place of the lost one",
                type_="Warning",
                occasion=step.claim_uid,
            )
            # The claim first: it goes when the pod does, and the next pod is made with a new one.
            await self._api.delete(
                PERSISTENT_VOLUME_CLAIM, spec.namespace, step.claim, uid=step.claim_uid
            )
            await self._delete_pod(spec, step.node_id, step.pod_uid)

    async def _restart(
        self, broker: Object, spec: BrokerSpec, observed: Observed, restarts: Iterable[Restart]
    ) -> None:
        for restart in restarts:
            if restart.is_serving and await self._has_lost_another(spec, observed, restart):
                # An eviction, or whoever deletes pods, was faster: the next plan waits for that.
                continue
            if restart.is_stuck and await self._has_started(spec, restart):
                # Brokers that do not answer took so long to be looked at that it has started.
                continue
            why = "; ".join(restart.reasons)
            logger.info("restarting broker %s of %s: %s", restart.node_id, spec.name, why)
            await self._events.emit(
                broker,
                "Restarting",
                f"broker {restart.node_id}: {why}",
                occasion=restart.pod_uid,
            )
            await self._delete_pod(
                spec, restart.node_id, restart.pod_uid, grace_seconds=restart.grace_seconds
            )

    async def _has_lost_another(
        self, spec: BrokerSpec, observed: Observed, restart: Restart
    ) -> bool:
        """Whether another pod is not ready any more that was when the plan was made."""
        found = await self._api.list(
            POD, namespace=spec.namespace, label_selector=f"{BROKER_LABEL}={spec.name}"
        )
        ready = {
            uid_of(pod)
            for pod in found
            if not is_going(pod) and read_pod(pod, restart.node_id, None, None).is_ready
        }
        lost = [
            node_id
            for node_id, pod in observed.pods.items()
            if node_id != restart.node_id and _is_well(pod) and pod.uid not in ready
        ]
        for node_id in lost:
            logger.info(
                "broker %s of %s is not restarted: broker %s has gone since it was looked at",
                restart.node_id,
                spec.name,
                node_id,
            )
        return bool(lost)

    async def _has_started(self, spec: BrokerSpec, restart: Restart) -> bool:
        """Whether a pod that could not start is ready by now, or its broker serves by now."""
        name = names.pod(spec.name, restart.node_id)
        found = await self._api.get(POD, spec.namespace, name)
        if found is None:
            return False
        pod = read_pod(found, restart.node_id, None, None)
        return pod.is_ready or (pod.is_broker_ready and not restart.is_serving)

    async def _delete_pod(
        self, spec: BrokerSpec, node_id: int, uid: str | None, *, grace_seconds: int | None = None
    ) -> None:
        if uid is None:
            return
        try:
            await self._api.delete(
                POD,
                spec.namespace,
                names.pod(spec.name, node_id),
                uid=uid,
                grace_seconds=grace_seconds,
            )
        except ConflictError:
            # Somebody else has restarted it: the next plan sees another pod.
            logger.info("broker %s of %s has another pod by now", node_id, spec.name)


def _is_well(pod: PodView) -> bool:
    return pod.is_ready and not pod.is_terminating
