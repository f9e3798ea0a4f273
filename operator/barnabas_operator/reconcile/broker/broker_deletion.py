"""Carries out the end of a Broker whose claims go with it, and keeps our finalizer. I/O only.

Invariants: one step a pass, planned from what is there then; every delete names the uid of what was
seen; the arbiter's Lease and what was noted of the cluster's groups go after the last claim.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from barnabas_operator.conditions import merged_manifests, reconciling, with_progressing
from barnabas_operator.kubernetes.api import KubernetesApi, NotFoundError, Object
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    LEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    kind_of,
)
from barnabas_operator.kubernetes.objects import (
    BROKER_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    annotations_of,
    finalizers_of,
    generation_of,
    is_going,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.kubernetes.status_write import write_status
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.deletion_plan import (
    FINALIZER,
    Remains,
    Step,
    finalizer_patch,
    is_of,
    plan_end,
    wants_finalizer,
)

logger = logging.getLogger(__name__)

# Of the annotations in which an arbiter keeps its record.
_ARBITER_PREFIX = "barnabas.dev/arbiter-"
# What the chart's policy wants to see on the Lease of an arbiter before it lets it be deleted.
_MAY_GO = {"metadata": {"annotations": {"barnabas.dev/delete": "true"}}}


class BrokerDeletion:
    """Sees Brokers to their end."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    async def keep_finalizer(self, broker: Object) -> bool:
        """Have our finalizer follow what a Broker that stays declares; returns whether it changed.

        Raises: KubernetesError.
        """
        wanted = wants_finalizer(broker)
        if wanted is None:
            return False
        await self._patch_finalizer(broker, is_added=wanted)
        return True

    async def go_on(self, broker: Object, now: datetime) -> bool:
        """Take the next step of a Broker that is being deleted; returns whether more are to come.

        Raises: KubernetesError.
        """
        if FINALIZER not in finalizers_of(broker):
            return False
        plan = plan_end(broker, await self._remains(broker))
        if plan.waiting_on:
            await self._emit(broker, plan.waiting_on, now)
        match plan.step:
            case Step.STOP_BROKERS | Step.DELETE_CLAIMS:
                for one in plan.objects:
                    logger.info("deleting %s %s", one["kind"], name_of(one))
                    kind = kind_of(one["apiVersion"], one["kind"])
                    await self._api.delete(kind, namespace_of(one), name_of(one), uid=uid_of(one))
            case Step.FORGET_CLUSTER:
                await self._forget_cluster(broker)
            case Step.REMOVE_FINALIZER:
                await self._patch_finalizer(broker, is_added=False)
                return False
            case Step.WAIT:
                pass
        return True

    async def _remains(self, broker: Object) -> Remains:
        namespace, name = namespace_of(broker), name_of(broker)
        selector = f"{BROKER_LABEL}={name}"
        # Claims last: what was there when the others were looked at is among them.
        namespace_object, current, lease, ledger = await asyncio.gather(
            self._api.get(NAMESPACE, None, namespace),
            self._api.get(STATEFUL_SET, namespace, name),
            self._api.get(LEASE, namespace, names.arbiter_lease(name)),
            self._api.get(CONFIG_MAP, namespace, names.group_operations(name)),
        )
        pods = await self._api.list(POD, namespace=namespace, label_selector=selector)
        claims = await self._api.list(
            PERSISTENT_VOLUME_CLAIM, namespace=namespace, label_selector=selector
        )
        return Remains(
            stateful_set=current,
            pods=[pod for pod in pods if is_of(name, pod)],
            claims=[one for one in claims if names.claimed(name, name_of(one)) is not None],
            has_record=any(one is not None and _is_record(one) for one in (lease, ledger)),
            is_namespace_going=namespace_object is None or is_going(namespace_object),
        )

    async def _forget_cluster(self, broker: Object) -> None:
        """Delete what says which cluster it was: nothing of that cluster is there any more."""
        namespace, name = namespace_of(broker), name_of(broker)
        lease = await self._api.get(LEASE, namespace, names.arbiter_lease(name))
        if lease is not None and _is_record(lease):
            logger.info("deleting Lease %s: all claims are gone", name_of(lease))
            await self._api.patch(LEASE, namespace, name_of(lease), _MAY_GO, uid=uid_of(lease))
            await self._api.delete(LEASE, namespace, name_of(lease), uid=uid_of(lease))
        ledger = await self._api.get(CONFIG_MAP, namespace, names.group_operations(name))
        if ledger is not None and _is_record(ledger):
            await self._api.delete(CONFIG_MAP, namespace, name_of(ledger), uid=uid_of(ledger))

    async def _patch_finalizer(self, broker: Object, *, is_added: bool) -> None:
        patch = finalizer_patch(broker, is_added=is_added)
        try:
            await self._api.patch(BROKER, namespace_of(broker), name_of(broker), patch)
        except NotFoundError:
            logger.info("Broker %s is gone already", name_of(broker))

    async def _emit(self, broker: Object, waiting_on: str, now: datetime) -> None:
        before = broker.get("status") or {}
        text = f"it is deleted with its claims: {waiting_on}"
        verdict = reconciling("Deleting", text, generation=generation_of(broker))
        conditions = merged_manifests(before, with_progressing(verdict), now)
        status = {**before, "conditions": conditions, "observedGeneration": generation_of(broker)}
        await write_status(self._api, broker, status)


def _is_record(found: Object) -> bool:
    """Whether it says which cluster the claims are of: others may have made one of that name."""
    return labels_of(found).get(MANAGED_BY_LABEL) == MANAGED_BY or any(
        key.startswith(_ARBITER_PREFIX) for key in annotations_of(found)
    )
