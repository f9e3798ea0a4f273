"""Faults that the operator had, and some that it might have, planted one by one.

Numbers are rows of `docs/operator-findings.md`. Each has to be found by stories that know nothing
of it: `BUG=row1 python -m tests.simulation.operator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from barnabas_operator import group_spec
from barnabas_operator.broker_spec import DeleteClaim
from barnabas_operator.reconcile import topic_pass, topic_plan
from barnabas_operator.reconcile.broker import (
    broker_apply,
    broker_deletion,
    broker_observe,
    broker_plan,
    broker_status,
    child_drift,
    claim_plan,
    deletion_plan,
    isr_gate,
    roll_plan,
    scale_plan,
    storage_plan,
)
from barnabas_operator.reconcile.broker.deletion_plan import EndPlan, Step
from barnabas_operator.reconcile.broker.scale_plan import ScalePlan
from barnabas_operator.reconcile.elsewhere import Elsewhere
from barnabas_operator.reconcile.group import group_status
from barnabas_operator.reconcile.group.operation_ledger import OperationLedger
from tests.simulation.operator.story import Told, tell


def _removed_at_once(
    spec: Any, observed: Any, cluster: Any, node_id: int, *, is_rolling: bool
) -> ScalePlan:
    return ScalePlan(replicas=node_id)


def _is_applied_but_for_sidecars(intent: dict[str, Any], found: Any, tolerated: Any) -> bool:
    template = ((found or {}).get("spec") or {}).get("template") or {}
    if len((template.get("spec") or {}).get("containers") or ()) > 1:
        return True
    return bool(_IS_APPLIED(intent, found, tolerated))


def _all_claims_may_go(spec: Any, *rest: Any) -> Any:
    return _PLAN_CLAIMS(replace(spec, delete_claim=DeleteClaim.ALWAYS), *rest)


def _lease_goes_first(broker: Any, remains: Any) -> EndPlan:
    plan = _PLAN_END(broker, remains)
    if plan.step is Step.DELETE_CLAIMS and remains.has_record:
        return EndPlan(step=Step.FORGET_CLUSTER)
    return plan


def _remembers_nothing(status: Mapping[str, Any]) -> Any:
    return _REMEMBERED({})


def _with_secrets(spec: Any, observed: Any, **rest: Any) -> dict[int, list[str]]:
    reasons: dict[int, list[str]] = _REASONS(spec, observed, **rest)
    wanted = tuple(str(one["name"]) for one in spec.pod_template.image_pull_secrets)
    for node_id, pod in observed.pods.items():
        if wanted and wanted != pod.pull_secrets:
            reasons.setdefault(node_id, []).append("imagePullSecrets changed")
    return reasons


def _never(*_: Any, **__: Any) -> bool:
    return False


def _always(*_: Any, **__: Any) -> bool:
    return True


def _nothing(*_: Any, **__: Any) -> tuple[Any, ...]:
    return ()


def _no_reason(*_: Any, **__: Any) -> str:
    return ""


_REASONS = broker_plan.restart_reasons
_PLAN_CLAIMS = claim_plan.plan_claims
_PLAN_END = deletion_plan.plan_end
_IS_APPLIED = child_drift.is_applied
_REMEMBERED = broker_status.remembered

BUGS: dict[str, list[tuple[Any, str, Any]]] = {
    "row1": [(scale_plan, "_removed", _removed_at_once)],
    "row2": [(scale_plan, "unready", _nothing)],
    "row3": [(broker_plan, "_factor_reasons", _nothing)],
    "row4": [(broker_plan, "_mounted_files", lambda observed: frozenset())],
    "row5": [(roll_plan, "_starts_in_vain", _never)],
    "row6": [(broker_status, "_lack", lambda *_: None)],
    "row7": [
        (topic_pass, "going_seconds", lambda *_: 0.0),
    ],
    "row8 namespaces": [(topic_pass, "admits", lambda *_: True)],
    "row8 topics": [(topic_plan, "why_kept", _no_reason), (topic_pass, "why_kept", _no_reason)],
    "row11": [(broker_plan, "_relabelled", _nothing)],
    "row12": [(OperationLedger, "of", lambda self, group_id: {})],
    "row13": [(broker_apply, "is_applied", _is_applied_but_for_sidecars)],
    "no wait for members": [(isr_gate, "members_hindrance", _no_reason)],
    "no wait for replicas": [(isr_gate, "blocking", lambda *_: [])],
    "no wait for those that catch up": [(roll_plan, "not_caught_up", lambda *_: [])],
    "the restart in flight is forgotten": [(broker_observe, "remembered", _remembers_nothing)],
    "partitions are not moved away": [
        (
            scale_plan,
            "_emptied",
            lambda cluster, current, node_id, held, leaving: ScalePlan(replicas=node_id),
        )
    ],
    "who was taken away by hand stays away": [(scale_plan, "_serves", _always)],
    "a volume goes with what is on it": [(storage_plan, "_held", _no_reason)],
    "claims go that nobody gave up": [(broker_plan, "plan_claims", _all_claims_may_go)],
    "the Lease goes before the claims": [(broker_deletion, "plan_end", _lease_goes_first)],
    "whose a child is is not asked": [
        (broker_apply, "is_ours", _always),
        (broker_observe, "is_ours", _always),
    ],
    "who serves beside what crashes counts for nothing": [(roll_plan, "takes_part", _never)],
    "an address of others is nobody's": [(Elsewhere, "check_cluster", lambda *_: None)],
    "moments have no end": [
        (group_spec, "LAST_MOMENT_MS", 2**62),
        (group_status, "LAST_MOMENT_MS", 2**62),
    ],
    "pull secrets are all that pods have": [(broker_plan, "restart_reasons", _with_secrets)],
    "not ready is not waited for": [(roll_plan, "unready", _nothing)],
    "what crashes counts as well when it has just started": [(roll_plan, "_unsettled", _nothing)],
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have the operator make a fault."""
    patches = [patch.object(*one) for one in BUGS[name]]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def tell_with(bug: str, seed: int) -> Told:
    """The story of a seed with a fault."""
    with planted(bug):
        return tell(seed)
