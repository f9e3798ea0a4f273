"""Faults that the operator had, and some that it might have, planted one by one.

Numbers are rows of `docs/operator-findings.md`. Each has to be found by stories that know nothing
of it: `BUG=row1 python -m tests.simulation.operator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from barnabas_operator.reconcile import topic_pass, topic_plan
from barnabas_operator.reconcile.broker import (
    broker_apply,
    broker_observe,
    broker_plan,
    broker_status,
    child_drift,
    isr_gate,
    roll_plan,
    scale_plan,
)
from barnabas_operator.reconcile.broker.scale_plan import ScalePlan
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


def _remembers_nothing(status: Mapping[str, Any]) -> Any:
    return _REMEMBERED({})


def _never(*_: Any, **__: Any) -> bool:
    return False


def _nothing(*_: Any, **__: Any) -> tuple[Any, ...]:
    return ()


def _no_reason(*_: Any, **__: Any) -> str:
    return ""


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
    "not ready is not waited for": [(roll_plan, "unready", _nothing)],
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
