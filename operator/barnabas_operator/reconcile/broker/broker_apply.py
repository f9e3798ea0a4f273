"""Carries out a plan for a Broker: children, then the steps, in the plan's order.

Not here: deciding (`broker_plan.py`), the status (which the reconciler writes first, because it
holds the lock of a restart).

Invariants: nothing is written that already is so; every delete names the uid of what is meant; pods
are deleted with their own grace period, in which they give their leaderships away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import (
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
    kind_of,
)
from barnabas_operator.kubernetes.objects import BROKER_LABEL, name_of, uid_of
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
from barnabas_operator.reconcile.broker.drain_request import DRAIN_REQUESTED_ANNOTATION
from barnabas_operator.reconcile.broker.observed import Observed
from barnabas_operator.reconcile.broker.pod_reading import DECOMMISSIONED_ANNOTATION

logger = logging.getLogger(__name__)

# Fields that the API server writes in another way, of so many objects at most.
_TOLERATED_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What a child is to be, and what was found: None if there is none, or it cannot be read."""

    intent: Object
    found: Object | None
    error: KubernetesError | None = None


def unwritten(children: Iterable[Child]) -> tuple[str, ...]:
    """The children that do not yet have what is declared, as `Kind name`.

    Without the disruption budget, which follows the replicas in sync and not what is declared.
    """
    return tuple(
        f"{child.intent['kind']} {name_of(child.intent)}"
        for child in children
        if child.intent["kind"] != POD_DISRUPTION_BUDGET.kind
        and not is_marked_as(child.intent, child.found)
    )


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
            children.append(Child(intent=intent, found=found, error=failure))
        return tuple(children)

    async def apply_children(
        self, spec: BrokerSpec, observed: Observed, plan: BrokerPlan, children: Sequence[Child]
    ) -> None:
        """Make the children what they are to be, in order.

        One that is refused does not keep the others waiting. Raises: KubernetesError.
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
        refusals: list[KubernetesError] = []
        for child in children:
            is_set = child.intent["kind"] == STATEFUL_SET.kind
            if is_set and (is_set_going or plan.storage.recreated_set is not None):
                continue
            try:
                await self._apply(child)
            except KubernetesError as error:
                if not error.code:
                    # Nobody answers, or this operator may not act any more.
                    raise
                refusals.append(error)
        if refusals:
            raise refusals[0]
        await self._prune_services(spec, plan)

    async def apply_steps(
        self, broker: Object, spec: BrokerSpec, observed: Observed, plan: BrokerPlan
    ) -> None:
        """Volumes, gates and restarts. Raises: KubernetesError."""
        for step in plan.storage.expansions:
            await self._api.patch(
                PERSISTENT_VOLUME_CLAIM,
                spec.namespace,
                step.claim,
                {"spec": {"resources": {"requests": {"storage": step.size}}}},
                uid=step.uid,
            )
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
        await self._mark_claims(spec, observed, plan)
        await self._replace_disks(broker, spec, plan)
        await self._restart(broker, spec, plan)

    async def _apply(self, child: Child) -> None:
        if child.error is not None:
            raise child.error
        intent, metadata = child.intent, child.intent["metadata"]
        place = (str(intent["kind"]), f"{metadata['namespace']}/{metadata['name']}")
        if is_applied(intent, child.found, self._tolerated.get(place, frozenset())):
            return
        after = await self._api.apply(intent)
        if len(self._tolerated) > _TOLERATED_MAX:
            self._tolerated.clear()
        self._tolerated[place] = differences(intent, after)

    async def _prune_services(self, spec: BrokerSpec, plan: BrokerPlan) -> None:
        """Delete the Services of brokers that are gone, or of a listener that is."""
        node_ids = range(plan.rendering.replicas)
        wanted = {names.broker_service(spec.name, node_id) for node_id in node_ids}
        if spec.external is not None:
            wanted |= {names.external_service(spec.name, node_id) for node_id in node_ids}
        found = await self._api.list(
            SERVICE, namespace=spec.namespace, label_selector=f"{BROKER_LABEL}={spec.name}"
        )
        for service in found:
            name = name_of(service)
            if names.is_of_one_broker(spec.name, name) and name not in wanted:
                await self._api.delete(SERVICE, spec.namespace, name, uid=uid_of(service))

    async def _mark_claims(self, spec: BrokerSpec, observed: Observed, plan: BrokerPlan) -> None:
        """Note on a claim that its broker has nothing any more, and that one has it again."""
        for node_id, volume in observed.volumes.items():
            is_empty = node_id in plan.scale.unregistered
            is_back = node_id < plan.scale.replicas
            if is_empty == volume.is_decommissioned or not (is_empty or is_back):
                continue
            mark = {DECOMMISSIONED_ANNOTATION: "true" if is_empty else None}
            await self._api.patch(
                PERSISTENT_VOLUME_CLAIM,
                spec.namespace,
                volume.claim,
                {"metadata": {"annotations": mark}},
                uid=volume.uid,
            )

    async def _replace_disks(self, broker: Object, spec: BrokerSpec, plan: BrokerPlan) -> None:
        for step in plan.storage.replacements:
            await self._events.tell(
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

    async def _restart(self, broker: Object, spec: BrokerSpec, plan: BrokerPlan) -> None:
        for restart in plan.roll.restarts:
            why = "; ".join(restart.reasons)
            logger.info("restarting broker %s of %s: %s", restart.node_id, spec.name, why)
            await self._events.tell(
                broker,
                "Restarting",
                f"broker {restart.node_id}: {why}",
                occasion=restart.pod_uid,
            )
            await self._delete_pod(spec, restart.node_id, restart.pod_uid)

    async def _delete_pod(self, spec: BrokerSpec, node_id: int, uid: str | None) -> None:
        if uid is None:
            return
        try:
            await self._api.delete(POD, spec.namespace, names.pod(spec.name, node_id), uid=uid)
        except ConflictError:
            # Somebody else has restarted it: the next plan sees another pod.
            logger.info("broker %s of %s has another pod by now", node_id, spec.name)
