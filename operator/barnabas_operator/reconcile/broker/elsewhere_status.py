"""The status of a Broker whose brokers somebody else runs. Pure.

Such a Broker gives topics and groups something to refer to: it has the annotation
`barnabas.dev/bootstrap-servers`, no children, and a status with what can be seen from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.conditions import merged_manifests, ready, reconciling, with_progressing
from barnabas_operator.reconcile.broker.broker_status import cluster_fields
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.isr_gate import may_go
from barnabas_operator.reconcile.broker.observed import Observed
from barnabas_operator.reconcile.elsewhere import NotAdmittedError, not_admitted


def elsewhere_status(
    spec: BrokerSpec, observed: Observed, *, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """The whole status; None stands for what is not known."""
    cluster = observed.cluster
    if cluster is None:
        conditions = reconciling(
            "Unreachable", "the brokers do not answer", generation=spec.generation
        )
    else:
        count = len(cluster.live_ids)
        message = f"{count} brokers serve, and are run elsewhere"
        conditions = ready("Elsewhere", message, generation=spec.generation)
    return {
        "observedGeneration": spec.generation,
        "ready": None if cluster is None else f"{len(cluster.live_ids)}/{len(cluster.brokers)}",
        **cluster_fields(cluster, before),
        "brokers": None if cluster is None else _brokers(cluster),
        "conditions": merged_manifests(before, with_progressing(conditions), now),
    }


def refused_status(
    spec: BrokerSpec, error: NotAdmittedError, *, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """The status of one that is not worked for: it tells nothing of the cluster."""
    verdict = with_progressing(not_admitted(error, spec.generation))
    return {
        "observedGeneration": spec.generation,
        "conditions": merged_manifests(before, verdict, now),
    }


def _brokers(cluster: ClusterView) -> list[dict[str, Any]]:
    found = []
    for node_id, broker in sorted(cluster.brokers.items()):
        held = cluster.held_by(node_id)
        one = {
            "id": node_id,
            "phase": "Fenced" if broker.is_fenced else "Ready",
            "rack": broker.rack,
            "leaders": sum(partition.leader == node_id for partition in held),
            "underReplicated": sum(node_id not in partition.in_sync for partition in held),
            "safeToDrain": may_go(cluster, node_id),
        }
        found.append({key: value for key, value in one.items() if value is not None})
    return found
