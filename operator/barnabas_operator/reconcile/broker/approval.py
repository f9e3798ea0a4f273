"""What an approval is of: these restarts of these pods, into what is declared now. Pure.

The hash in `status.plan` stands for the needs that there were when it was told. It stays while
there are fewer of them, because they are carried out one after the other, and while some are not
known for a moment; anything else that comes is another plan and waits for another approval. A pod
that has been restarted has another uid, so that no approval is used twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.observed import AnnouncedPlan, CoveredNeed, Observed
from barnabas_operator.reconcile.broker.revision import digest, revision_of


def announced_plan(
    spec: BrokerSpec,
    observed: Observed,
    reasons: Mapping[int, Sequence[str]],
    *,
    image: str,
    expected: Sequence[int],
) -> AnnouncedPlan:
    """The plan to ask approval for: the one that was told before, if it has all of this one."""
    needs = tuple(
        CoveredNeed(node_id=node_id, pod_uid=pod.uid, reasons=tuple(reasons[node_id]))
        for node_id, pod in sorted(observed.pods.items())
        if node_id in expected and reasons.get(node_id)
    )
    target = digest(
        [
            revision_of(spec, image),
            dict(spec.config),
            [dict(one) for one in spec.pod_template.image_pull_secrets],
        ]
    )
    before = observed.remembered.announced
    if before is not None and _target_of(before) == target and _has_all(before, needs):
        return before
    told = [[one.node_id, one.pod_uid, *one.reasons] for one in needs]
    return AnnouncedPlan(hash=f"{target}-{digest(told)}", needs=needs)


def told(plan: AnnouncedPlan) -> list[dict[str, Any]] | None:
    """What a status keeps of it; None where it is of nothing."""
    return [
        {"broker": one.node_id, "podUid": one.pod_uid, "reasons": list(one.reasons)}
        for one in plan.needs
    ] or None


def read_announced(plan: Mapping[str, Any]) -> AnnouncedPlan | None:
    """The plan that a status has told, None where it has told none that could be approved."""
    if "covers" not in plan:
        return None
    return AnnouncedPlan(
        hash=str(plan.get("hash", "")),
        needs=tuple(
            CoveredNeed(
                node_id=int(one["broker"]),
                pod_uid=str(one["podUid"]),
                reasons=tuple(one["reasons"]),
            )
            for one in plan["covers"]
        ),
    )


def _target_of(plan: AnnouncedPlan) -> str:
    return plan.hash.partition("-")[0]


def _has_all(before: AnnouncedPlan, needs: Sequence[CoveredNeed]) -> bool:
    known = {(one.node_id, one.pod_uid): set(one.reasons) for one in before.needs}
    return all(set(one.reasons) <= known.get((one.node_id, one.pod_uid), set()) for one in needs)
