"""How a Broker goes whose claims go with it: our finalizer, and the next step of its end. Pure.

Deleting a Broker is left to Kubernetes, which removes what the Broker owns; claims and the
arbiter's Lease are owned by nobody and stay. Only one with `deleteClaim: WhenDeleted` or `Always`
has our finalizer, because somebody has to see to the order: brokers, claims, the Lease, and the
Broker last. An operator that dies goes on from what is there.

The Lease holds the history of the cluster whose data the claims are. With any of them left it is
what its brokers follow, and stays; with none left it would keep the next Broker of that name from
founding its cluster (decision 0007), and goes.

Nothing is deleted where the user has thought better of it: another `deleteClaim` by now, or a
deletion that leaves the children alone (`--cascade=orphan`). A namespace that goes takes everything
along by itself and waits for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from barnabas_operator.broker_spec import delete_claim_of
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import (
    finalizers_of,
    is_elsewhere,
    is_going,
    name_of,
    resource_version_of,
    uid_of,
)
from barnabas_operator.reconcile.broker import names

FINALIZER = "barnabas.dev/claims"
# Of the garbage collector, while it makes the children nobody's.
_ORPHANING = "orphan"


class Step(Enum):
    """What comes next."""

    STOP_BROKERS = auto()
    DELETE_CLAIMS = auto()
    FORGET_CLUSTER = auto()
    WAIT = auto()
    REMOVE_FINALIZER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What there is of a Broker that is being deleted."""

    stateful_set: Object | None
    pods: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    has_record: bool = False
    is_namespace_going: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPlan:
    """The next step, with what it is about; `waiting_on` is for the status."""

    step: Step
    objects: tuple[Object, ...] = ()
    waiting_on: str = ""


def wants_finalizer(broker: Mapping[str, Any]) -> bool | None:
    """Whether to put our finalizer on a Broker that stays, or to take it off; None: neither."""
    wanted = delete_claim_of(broker).is_when_deleted and not is_elsewhere(broker)
    return None if (FINALIZER in finalizers_of(broker)) == wanted else wanted


def finalizer_patch(broker: Mapping[str, Any], *, is_added: bool) -> dict[str, Any]:
    """The merge patch for it, on this very version: finalizers of others must not be lost."""
    others = [one for one in finalizers_of(broker) if one != FINALIZER]
    wanted = [*others, FINALIZER] if is_added else others
    return {
        "metadata": {
            "resourceVersion": resource_version_of(broker),
            "finalizers": wanted or None,
        }
    }


def plan_end(broker: Mapping[str, Any], remains: Remains) -> EndPlan:
    """The next step for a Broker that is being deleted and has our finalizer."""
    if not delete_claim_of(broker).is_when_deleted or remains.is_namespace_going:
        return EndPlan(step=Step.REMOVE_FINALIZER)
    current = remains.stateful_set
    if _ORPHANING in finalizers_of(broker) or (current is not None and not _owns(broker, current)):
        return EndPlan(step=Step.REMOVE_FINALIZER)
    if current is not None:
        if is_going(current):
            return EndPlan(step=Step.WAIT, waiting_on="its brokers stop")
        return EndPlan(step=Step.STOP_BROKERS, objects=(current,), waiting_on="its brokers stop")
    if remains.pods:
        # Those of a StatefulSet that was just being made again have no owner who takes them along.
        left = tuple(pod for pod in remains.pods if not is_going(pod))
        waiting = f"pod {name_of(remains.pods[0])} stops"
        return EndPlan(
            step=Step.STOP_BROKERS if left else Step.WAIT, objects=left, waiting_on=waiting
        )
    if remains.claims:
        left = tuple(claim for claim in remains.claims if not is_going(claim))
        waiting = f"claim {name_of(remains.claims[0])} goes"
        if held := finalizers_of(remains.claims[0]):
            waiting += f", which {', '.join(held)} may hold"
        return EndPlan(
            step=Step.DELETE_CLAIMS if left else Step.WAIT, objects=left, waiting_on=waiting
        )
    return EndPlan(step=Step.FORGET_CLUSTER if remains.has_record else Step.REMOVE_FINALIZER)


def is_of(broker: str, pod: Object) -> bool:
    """Whether a pod with the Broker's label is one of its brokers."""
    node_id = names.node_id_of(name_of(pod))
    return node_id is not None and name_of(pod) == names.pod(broker, node_id)


def _owns(broker: Mapping[str, Any], child: Mapping[str, Any]) -> bool:
    owners = (child.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("uid") == uid_of(broker) for owner in owners)
