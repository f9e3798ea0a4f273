"""The status of a Broker, from what was observed and planned. Pure.

Invariant: nothing in it changes by itself: sizes are rounded to two digits, lists are sorted, there
are no times but those at which a condition changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec, UpdatePolicy
from barnabas_operator.conditions import (
    DEGRADED,
    PAUSED,
    RECONCILING,
    Condition,
    from_manifest,
    holding,
    merged_manifests,
    ready,
    reconciling,
    stalled,
    timestamp,
    with_progressing,
)
from barnabas_operator.kubernetes.quantity import quantity_text
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.approval import read_announced, told
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan, lost_or_waiting
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.eviction_gate import eviction_hindrance
from barnabas_operator.reconcile.broker.isr_gate import may_go
from barnabas_operator.reconcile.broker.listener_plan import ListenerPlan
from barnabas_operator.reconcile.broker.observed import InFlight, Observed, PodView, Remembered

DISK_GUARD = "DiskGuard"
DISKS_FULL = "DisksFillUp"

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def broker_status(
    spec: BrokerSpec,
    observed: Observed,
    plan: BrokerPlan,
    *,
    before: Mapping[str, Any],
    now: datetime,
    eviction_patience: timedelta,
) -> dict[str, Any]:
    """The whole status after the plan was made; None stands for what is not known."""
    cluster = observed.cluster
    ready_count = sum(
        pod.is_ready and not pod.is_terminating
        for node_id, pod in observed.pods.items()
        if node_id < plan.rendering.replicas
    )
    return {
        "observedGeneration": spec.generation,
        "replicas": plan.rendering.replicas,
        "readyReplicas": ready_count,
        "ready": f"{ready_count}/{spec.replicas}",
        "selector": f"barnabas.dev/broker={spec.name}",
        "bootstrapServers": (
            f"{names.bootstrap_service(spec.name)}.{spec.namespace}.svc"
            f":{ListenerPlan(spec=spec).bootstrap_port}"
        ),
        "security": plan.security.to_manifest(),
        **cluster_fields(cluster, before),
        "volumeSize": _largest_request(observed),
        "disk": _size_text(sum(one.size_bytes for one in observed.processes.values())),
        "brokers": list(_brokers(spec, observed, plan, eviction_patience)),
        "plan": _plan(spec, plan),
        "restarting": _restarting(plan.roll.in_flight),
        "decommission": _decommission(plan),
        "liveConfig": dict(plan.live.remembered) or None,
        "conditions": merged_manifests(before, _conditions(spec, observed, plan, before, now), now),
    }


def cluster_fields(cluster: ClusterView | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """What the metadata says, for the status; nothing but who it is while nobody answers."""
    if cluster is None:
        return {"clusterId": before.get("clusterId")}
    partitions = cluster.partitions
    led = sum(one.leader is not None for one in partitions)
    live = cluster.live_ids
    is_safe = bool(live) and all(may_go(cluster, node_id) for node_id in live)
    return {
        "clusterId": cluster.cluster_id or None,
        "controller": cluster.controller_id,
        "partitions": len(partitions),
        "leaders": f"{led}/{len(partitions)}",
        "underReplicatedPartitions": sum(one.is_under_replicated for one in partitions),
        "offlinePartitions": len(partitions) - led,
        "safeToDrain": "yes" if is_safe else "no",
    }


def invalid_status(
    spec_generation: int, message: str, *, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """The status of a Broker that asks for what cannot be; all else stays as it was."""
    verdict = with_progressing(stalled("InvalidSpec", message, generation=spec_generation))
    known = {one.type for one in verdict} | {RECONCILING}
    # What is known of the brokers still holds; it was found with an earlier generation.
    found = (from_manifest(one) for one in before.get("conditions") or ())
    kept = (one for one in found if one.type not in known)
    return {
        **before,
        "observedGeneration": spec_generation,
        "conditions": merged_manifests(before, (*verdict, *kept), now),
    }


def remembered(status: Mapping[str, Any]) -> Remembered:
    """What a status keeps for the next plan."""
    flying = status.get("restarting")
    reasons = {
        int(broker["id"]): str(broker["lastRestartReason"])
        for broker in status.get("brokers") or ()
        if broker.get("lastRestartReason")
    }
    in_flight = None
    if flying and "broker" in flying:
        in_flight = InFlight(
            node_id=int(flying["broker"]),
            pod_uid=str(flying.get("podUid", "")),
            reason=str(flying.get("reason", "")),
        )
    return Remembered(
        in_flight=in_flight,
        live_config=dict(status.get("liveConfig") or {}),
        last_reasons=reasons,
        announced=read_announced(status.get("plan") or {}),
    )


def _conditions(
    spec: BrokerSpec,
    observed: Observed,
    plan: BrokerPlan,
    before: Mapping[str, Any],
    now: datetime,
) -> Iterable[Condition]:
    generation = spec.generation
    verdict = _verdict(spec, observed, plan)
    yield from with_progressing(verdict)
    yield _degraded(spec, observed, plan, has_served=bool(before.get("clusterId")))
    if spec.is_paused:
        yield holding(
            PAUSED, PAUSED, "nothing is changed while it is paused", generation=generation
        )
    if text := full_disks(observed):
        yield holding(DISK_GUARD, DISKS_FULL, text, generation=generation)
    if plan.unknown_ids:
        ids = ", ".join(map(str, plan.unknown_ids))
        message = f"spec.maintenance names brokers that there are not: {ids}"
        yield holding("UnknownBrokers", "NoSuchBroker", message, generation=generation)
    yield from plan.security.conditions(generation, now)
    if plan.warnings:
        yield holding("Warning", "NothingToSpare", "; ".join(plan.warnings), generation=generation)


def _verdict(spec: BrokerSpec, observed: Observed, plan: BrokerPlan) -> tuple[Condition, ...]:
    """Ready, and why not: the first reason that holds."""
    generation = spec.generation
    if spec.is_paused and (waiting := _held_by_pause(spec, plan)):
        text = f"waits for the end of the pause: {waiting}"
        return stalled(PAUSED, text, generation=generation)
    if plan.not_ours:
        return stalled("NotOurs", "; ".join(plan.not_ours), generation=generation)
    if plan.roll.stalled:
        return stalled("RollStopped", plan.roll.stalled, generation=generation)
    if plan.problems:
        return stalled("NeedsAttention", "; ".join(plan.problems), generation=generation)
    if lost := lost_or_waiting(observed):
        text = "; ".join(f"broker {node_id}: {why}" for node_id, why in sorted(lost.items()))
        return stalled("BrokerLost", text, generation=generation)
    if not _is_done(spec, observed, plan):
        reason = "Restarting" if plan.roll.needs or plan.roll.in_flight else "Progressing"
        stopping = sorted(one for one in observed.pods if one >= plan.rendering.replicas)
        text = plan.waiting_on or ", ".join(plan.unwritten)
        if not text:
            text = (
                f"brokers {', '.join(map(str, stopping))} stop" if stopping else "children are made"
            )
        return reconciling(reason, text, generation=generation)
    if lack := _lack(spec, observed, plan):
        return reconciling(*lack, generation=generation)
    count = plan.rendering.replicas - len(spec.parked & set(range(plan.rendering.replicas)))
    return ready("AllBrokersReady", f"{count} brokers serve", generation=generation)


def _held_by_pause(spec: BrokerSpec, plan: BrokerPlan) -> str:
    """What would be done if the Broker were not paused, empty if nothing."""
    if plan.roll.needs:
        named = ", ".join(map(str, sorted(need.node_id for need in plan.roll.needs)))
        return f"restart brokers {named}"
    if plan.live.assigned or plan.live.removed:
        return f"change settings {', '.join(sorted({*plan.live.assigned, *plan.live.removed}))}"
    if plan.rendering.replicas != spec.replicas or plan.scale.emptying is not None:
        return f"scale to {spec.replicas} brokers"
    return f"apply {', '.join(plan.unwritten)}" if plan.unwritten else ""


def _degraded(
    spec: BrokerSpec, observed: Observed, plan: BrokerPlan, *, has_served: bool
) -> Condition:
    """Whether something that has served, and is to go on, does not.

    A broker that is restarted by plan, or that has never been there, is none of that.
    """
    reason, text = _damage(spec, observed, plan, has_served=has_served)
    return Condition(
        type=DEGRADED,
        status="True" if reason else "False",
        reason=reason or "AsExpected",
        message=text,
        observed_generation=spec.generation,
    )


def _damage(
    spec: BrokerSpec, observed: Observed, plan: BrokerPlan, *, has_served: bool
) -> tuple[str, str]:
    """Reason and message, empty where all is well."""
    expected = set(range(min(plan.rendering.replicas, spec.replicas))) - spec.parked
    cluster = observed.cluster
    if lost := lost_or_waiting(observed):
        return "BrokerLost", "; ".join(f"broker {one}: {lost[one]}" for one in sorted(lost))
    if not expected or (cluster is None and not has_served):
        return "", ""
    if cluster is None:
        return "BrokersUnreachable", "no broker answers"
    if cluster.controller_id is None:
        return "NoController", "no broker leads the control plane"
    flying = observed.remembered.in_flight
    going = {flying.node_id} if flying is not None else set()
    if away := (expected & set(cluster.brokers)) - cluster.live_ids - going:
        named = ", ".join(map(str, sorted(away)))
        return "BrokersUnreachable", f"brokers do not take part in the cluster: {named}"
    if offline := sum(one.leader is None for one in cluster.partitions):
        return "PartitionsOffline", f"{offline} partitions have no leader"
    return "", ""


def full_disks(observed: Observed) -> str:
    """The disks that have too little room, of all brokers; empty where there are none."""
    return "; ".join(
        f"broker {node_id}: {disk}"
        for node_id, process in sorted(observed.processes.items())
        for disk in process.full_disks
    )


def _is_done(spec: BrokerSpec, observed: Observed, plan: BrokerPlan) -> bool:
    replicas = plan.rendering.replicas
    if plan.waiting_on or plan.roll.needs or replicas != spec.replicas or plan.unwritten:
        return False
    if observed.stateful_set is None or observed.stateful_set.replicas != replicas:
        return False
    if any(node_id >= replicas for node_id in observed.pods):
        return False
    return all(
        node_id in spec.parked or (node_id in observed.pods and observed.pods[node_id].is_ready)
        for node_id in range(replicas)
    )


def _lack(spec: BrokerSpec, observed: Observed, plan: BrokerPlan) -> tuple[str, str] | None:
    """Reason and message of what the cluster lacks although all pods are ready."""
    expected = set(range(plan.rendering.replicas)) - spec.parked
    cluster = observed.cluster
    if not expected:
        return None
    if cluster is None:
        return "BrokersUnreachable", "the brokers are ready, and do not answer"
    if cluster.controller_id is None:
        return "NoController", "no broker leads the control plane"
    if away := expected - cluster.live_ids:
        named = ", ".join(map(str, sorted(away)))
        return "BrokersUnreachable", f"brokers do not take part in the cluster: {named}"
    if cluster.settings is None:
        return "BrokersUnreachable", "the brokers do not tell their settings"
    if plan.live.assigned or plan.live.removed:
        named = ", ".join(sorted({*plan.live.assigned, *plan.live.removed}))
        return "Progressing", f"settings are changed: {named}"
    return None


def _brokers(
    spec: BrokerSpec, observed: Observed, plan: BrokerPlan, eviction_patience: timedelta
) -> Iterable[dict[str, Any]]:
    lost = lost_or_waiting(observed)
    restarted = {one.node_id: "; ".join(one.reasons) for one in plan.roll.restarts}
    known = set(observed.pods) | set(range(plan.rendering.replicas))
    for node_id in sorted(known):
        pod = observed.pods.get(node_id)
        process = observed.processes.get(node_id)
        cluster = observed.cluster
        held = cluster.held_by(node_id) if cluster is not None else []
        request = None if pod is None else pod.drain_request
        broker = {
            "id": node_id,
            "phase": _phase(spec, observed, node_id),
            "message": lost.get(node_id) or (pod.stuck if pod and pod.stuck else None),
            "pod": pod.name if pod else None,
            "node": (pod.node or None) if pod else None,
            "rack": cluster.brokers[node_id].rack
            if cluster and node_id in cluster.brokers
            else None,
            "leaders": sum(one.leader == node_id for one in held) if cluster else None,
            "underReplicated": sum(node_id not in one.in_sync and not one.is_moving for one in held)
            if cluster
            else None,
            "diskBytes": _rounded(process.size_bytes) if process else None,
            "drain": process.drain if process else None,
            "lastRestartReason": restarted.get(node_id)
            or observed.remembered.last_reasons.get(node_id),
            "waitingOn": plan.roll.waiting_for.get(node_id) or _eviction_waits(spec, observed, pod),
            "drainRequested": timestamp(request.since) if request else None,
            "drainDeadline": timestamp(request.since + eviction_patience) if request else None,
            "safeToDrain": may_go(cluster, node_id) if cluster else None,
        }
        yield {key: value for key, value in broker.items() if value is not None}


def _eviction_waits(spec: BrokerSpec, observed: Observed, pod: PodView | None) -> str | None:
    """What keeps a broker whose eviction was refused."""
    if pod is None or pod.drain_request is None:
        return None
    return eviction_hindrance(spec, observed, pod.node_id) or None


def _phase(spec: BrokerSpec, observed: Observed, node_id: int) -> str:
    pod = observed.pods.get(node_id)
    if any(volume.lost_node for volume in observed.volumes if volume.node_id == node_id):
        return "DiskLost"
    if pod is None:
        return "Missing"
    if pod.is_terminating:
        return "LostNode" if pod.is_node_lost else "Stopping"
    if pod.is_gated:
        return "Parked" if node_id in spec.parked else "Pending"
    if pod.stuck:
        return "Stuck"
    if not pod.node:
        return "Pending"
    return _running_phase(observed, pod)


def _running_phase(observed: Observed, pod: PodView) -> str:
    process = observed.processes.get(pod.node_id)
    if process is not None and process.drain not in ("running", ""):
        return "Draining"
    if pod.is_ready:
        return "Ready"
    return (
        "Starting" if process is None else process.state.replace("_", " ").title().replace(" ", "")
    )


def _plan(spec: BrokerSpec, plan: BrokerPlan) -> dict[str, Any]:
    needs = [{"broker": need.node_id, "reasons": list(need.reasons)} for need in plan.roll.needs]
    if plan.roll.in_flight is not None:
        summary = f"restarting {plan.roll.in_flight.node_id}"
    elif needs:
        summary = f"{len(needs)} to restart"
    elif plan.scale.emptying is not None:
        summary = f"emptying {plan.scale.emptying.node_id}"
    else:
        summary = "waiting" if plan.waiting_on else "done"
    return {
        "hash": plan.announced.hash,
        "summary": summary,
        "waitingOn": plan.waiting_on or None,
        "restarts": needs or None,
        "covers": told(plan.announced) if spec.update_policy is UpdatePolicy.ON_APPROVAL else None,
    }


def _restarting(flying: InFlight | None) -> dict[str, Any] | None:
    if flying is None:
        return None
    return {"broker": flying.node_id, "podUid": flying.pod_uid, "reason": flying.reason}


def _decommission(plan: BrokerPlan) -> dict[str, Any] | None:
    emptying = plan.scale.emptying
    if emptying is None:
        return None
    return {
        "broker": emptying.node_id,
        "partitionsLeft": emptying.left,
        "moving": emptying.moving,
        "message": emptying.blocked or None,
    }


def _largest_request(observed: Observed) -> str | None:
    """What the largest claim asks for."""
    largest = max((one.requested_bytes for one in observed.volumes), default=0)
    return quantity_text(largest) if largest else None


def _rounded(size_bytes: int) -> int:
    """Two digits, so that a broker that takes records does not change its status each time."""
    digits = len(str(size_bytes)) - 2
    return size_bytes if digits <= 0 else size_bytes // 10**digits * 10**digits


def _size_text(size_bytes: int) -> str:
    number, unit = float(size_bytes), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    if number >= 10 or unit == 0:
        digits = len(str(int(number))) - 2
        whole = int(number) // 10 ** max(digits, 0) * 10 ** max(digits, 0)
        return f"{whole}{_UNITS[unit]}"
    return f"{number:.1f}{_UNITS[unit]}"
