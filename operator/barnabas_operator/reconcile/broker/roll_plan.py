"""Which broker is restarted next, if any, and what has to be waited for. Pure.

Rules, in this order; the first that holds back says what is waited for:

1. A broker whose restart is in flight has to come back first: another pod than before, ready, its
   broker registered and unfenced, and all of its replicas in sync again.
2. Pods of an old revision that cannot start are replaced, all of them: they serve nobody, and
   together they may be what a majority needs. So is one that starts and is not wanted: it has not
   answered yet, or it is the one in flight. One that recovers its logs is waited for; one whose
   broker takes part already, while its pod is not known to be ready or has another container that
   does not start, goes alone and if it can be spared, like any that serves.
3. A pod of the present revision that cannot start stops the roll. While a container that has ended
   has not run for a minute again, no broker is restarted but that of its pod.
4. A pod that starts, recovers its logs or stops is waited for: never are two brokers down.
5. The policy has to allow restarts, and a maintenance window has to be open, if there are any; one
   that somebody asks for by an annotation or by parking waits for no window.
6. No pod is deleted whose claim somebody has deleted, and which alone has what is there.
7. Of those that need one, the lowest id goes first that its partitions and the metadata log can
   spare; the broker that leads the control plane goes when no other one is left.

The plan is made anew each time. What it needs from before is the broker in flight, which stands in
the status before the pod is deleted; so it may be interrupted anywhere and goes on from there.
Waiting is a state: there is no limit to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from barnabas_operator.broker_spec import BrokerSpec, UpdatePolicy
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.isr_gate import hindrance, named, not_caught_up
from barnabas_operator.reconcile.broker.observed import InFlight, Observed, PodView
from barnabas_operator.reconcile.broker.revision import ASKED_FOR, PARKED
from barnabas_operator.reconcile.broker.storage_plan import claim_hindrance

# The state in which a broker reads its logs after a crash; to stop it then is to begin anew.
RECOVERY = "RECOVERY"
# Time for a process that has never answered to end: it leads nothing that it could give away, and
# one that hangs would take all of the time that brokers have for that.
UNANSWERED_GRACE_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A pod that is to be deleted now; the StatefulSet makes it again.

    Without `grace_seconds` it has the time that it declares. `is_stuck` is a pod that cannot start;
    its broker may serve all the same (`is_serving`).
    """

    node_id: int
    pod_uid: str
    reasons: tuple[str, ...]
    is_stuck: bool = False
    is_serving: bool = True
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A broker that has to be restarted some time, and why."""

    node_id: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPlan:
    """What is to be done about restarts.

    `needs` are in the order in which they will go. `in_flight` is what the status has to say before
    the restarts are carried out. `stalled` says why nothing goes on by itself.
    """

    needs: tuple[Need, ...] = ()
    restarts: tuple[Restart, ...] = ()
    in_flight: InFlight | None = None
    waiting_on: str = ""
    waiting_for: Mapping[int, str]
    stalled: str = ""


def plan_roll(
    spec: BrokerSpec,
    observed: Observed,
    reasons: Mapping[int, Sequence[str]],
    *,
    expected: Sequence[int],
    plan_hash: str,
    now: datetime,
    closed: str = "",
) -> RollPlan:
    """The restarts to carry out now.

    `reasons` say for each broker why it has to be restarted; `expected` are the brokers that the
    StatefulSet has. `closed` is what is waited for while no maintenance window is open.
    """
    needs = _ordered(observed, reasons, expected, now)
    in_flight, arriving = restart_in_flight(spec, observed, expected)
    stuck = tuple(_stuck_restarts(spec, observed, reasons, expected, plan_hash))
    waiting = dict(unready(spec, observed, expected))
    unsettled = dict(_unsettled(observed, expected, now))
    stalled = _stalled(spec, observed, reasons, expected)
    waiting_on = arriving or stalled or _first(waiting)
    restarts = stuck
    if unsettled and not any(need.node_id in unsettled for need in needs):
        waiting_on = waiting_on or _first(unsettled)
        waiting.update(unsettled)
    if not (waiting_on or stuck) and needs:
        able = [one for one in needs if not unsettled or one.node_id in unsettled]
        chosen, waiting_on, blocked = _choose(spec, observed, able, plan_hash, closed)
        waiting.update(blocked)
        if chosen is not None:
            restarts = (chosen,)
            in_flight = InFlight(
                node_id=chosen.node_id,
                pod_uid=chosen.pod_uid,
                reason="; ".join(chosen.reasons),
            )
    return RollPlan(
        needs=needs,
        restarts=restarts,
        in_flight=in_flight,
        waiting_on=waiting_on,
        waiting_for=waiting,
        stalled=stalled,
    )


def _ordered(
    observed: Observed,
    reasons: Mapping[int, Sequence[str]],
    expected: Sequence[int],
    now: datetime,
) -> tuple[Need, ...]:
    """Unready first, and those that may not stay ready; the controller last."""
    controller = None if observed.cluster is None else observed.cluster.controller_id

    def order(node_id: int) -> tuple[bool, bool, int]:
        pod = observed.pods.get(node_id)
        is_well = pod is not None and pod.is_ready and not _is_unsettled(pod, now)
        return node_id == controller, is_well, node_id

    waiting = sorted((one for one in expected if reasons.get(one)), key=order)
    return tuple(Need(node_id=one, reasons=tuple(reasons[one])) for one in waiting)


def restart_in_flight(
    spec: BrokerSpec, observed: Observed, expected: Sequence[int]
) -> tuple[InFlight | None, str]:
    """The restart that is not over, and what it waits for: None and empty where there is none."""
    flying = observed.remembered.in_flight
    if flying is None or flying.node_id not in expected:
        return None, ""
    node_id = flying.node_id
    pod = observed.pods.get(node_id)
    if pod is not None and pod.uid == flying.pod_uid and not pod.is_terminating:
        # The operator went away before it could delete the pod: as if nothing had been decided.
        return None, ""
    waiting = _missing_of(spec, observed, node_id, pod, flying.pod_uid)
    return (flying, f"broker {node_id}: {waiting}") if waiting else (None, "")


def _missing_of(
    spec: BrokerSpec, observed: Observed, node_id: int, pod: PodView | None, old_uid: str
) -> str:
    """What a restarted broker still lacks, empty when it is back."""
    if pod is None:
        return _podless_text(observed, node_id)
    if pod.uid == old_uid:
        return "its old pod stops"
    if node_id in spec.parked and pod.is_gated:
        return ""
    unready = _unready_text(pod)
    if unready:
        return unready
    process = observed.processes.get(node_id)
    if process is not None and process.node_id != node_id:
        return f"its pod runs broker {process.node_id}"
    cluster = observed.cluster
    if cluster is None:
        return "the cluster does not answer"
    if node_id not in cluster.live_ids:
        return "it is not back in the cluster"
    behind = not_caught_up(cluster, node_id)
    return f"{named(behind)} catch up" if behind else ""


def _stuck_restarts(
    spec: BrokerSpec,
    observed: Observed,
    reasons: Mapping[int, Sequence[str]],
    expected: Sequence[int],
    plan_hash: str,
) -> Iterator[Restart]:
    if spec.is_paused or spec.update_policy is UpdatePolicy.PAUSED:
        return
    is_allowed = spec.update_policy is UpdatePolicy.AUTOMATIC or spec.approved_hash == plan_hash
    controller = None if observed.cluster is None else observed.cluster.controller_id
    is_one_spared = False
    for node_id in sorted(expected, key=lambda one: (one == controller, one)):
        pod = observed.pods.get(node_id)
        if pod is None or pod.is_terminating or not reasons.get(node_id):
            continue
        if claim_hindrance(observed, node_id):
            continue
        is_serving = takes_part(observed, pod)
        if pod.stuck and not is_serving:
            why = f"its pod cannot start ({pod.stuck})"
        elif is_allowed and (pod.stuck or _starts_in_vain(observed, pod)):
            if is_serving and (
                is_one_spared or not _can_be_spared(spec, observed, expected, node_id)
            ):
                continue
            is_one_spared = is_one_spared or is_serving
            why = (
                f"its pod cannot start ({pod.stuck})"
                if pod.stuck
                else "its pod has not started yet"
            )
        else:
            continue
        has_answered = is_serving or pod.is_started or node_id in observed.processes
        yield Restart(
            node_id=node_id,
            pod_uid=pod.uid,
            reasons=(*reasons[node_id], why),
            is_stuck=True,
            is_serving=is_serving,
            grace_seconds=None if has_answered else UNANSWERED_GRACE_SECONDS,
        )


def takes_part(observed: Observed, pod: PodView) -> bool:
    """Whether a broker serves, whatever is the matter with its pod."""
    process, cluster = observed.processes.get(pod.node_id), observed.cluster
    if process is not None:
        return not process.is_fenced
    if pod.is_broker_ready:
        # The kubelet reaches it, even where the operator does not.
        return True
    # One that has just crashed counts as live for a while.
    return pod.is_running and cluster is not None and pod.node_id in cluster.live_ids


def _can_be_spared(
    spec: BrokerSpec, observed: Observed, expected: Sequence[int], node_id: int
) -> bool:
    """Whether all others serve, and the partitions can do without this broker."""
    cluster = observed.cluster
    if cluster is None or hindrance(cluster, node_id):
        return False
    others = [one for one in expected if one != node_id and one not in spec.parked]
    return all(one in cluster.live_ids and _is_seen_well(observed, one) for one in others)


def _is_seen_well(observed: Observed, node_id: int) -> bool:
    """Whether a broker serves as far as its pod, or itself, says; metadata is late."""
    pod, process = observed.pods.get(node_id), observed.processes.get(node_id)
    if pod is None or pod.is_terminating:
        return False
    return pod.is_ready or (process is not None and not process.is_fenced)


def _starts_in_vain(observed: Observed, pod: PodView) -> bool:
    """Whether a pod that is not wanted is on its way up, and loses nothing by being replaced."""
    if pod.is_ready or pod.is_gated:
        return False
    process = observed.processes.get(pod.node_id)
    if process is not None and process.state == RECOVERY:
        return False
    flying = observed.remembered.in_flight
    is_in_flight = (
        flying is not None and flying.node_id == pod.node_id and flying.pod_uid != pod.uid
    )
    return is_in_flight or not pod.is_started


def _stalled(
    spec: BrokerSpec,
    observed: Observed,
    reasons: Mapping[int, Sequence[str]],
    expected: Sequence[int],
) -> str:
    """The pod of the present revision that cannot start, and that a new one would not help."""
    for node_id in expected:
        pod = observed.pods.get(node_id)
        if pod is None or node_id in spec.parked:
            continue
        if pod.is_unschedulable:
            # A node may come; until then it is waited for like any other that starts.
            continue
        if pod.stuck and not pod.is_terminating and not reasons.get(node_id):
            return f"broker {node_id} cannot start: {pod.stuck}"
    return ""


def _unsettled(
    observed: Observed, expected: Sequence[int], now: datetime
) -> Iterator[tuple[int, str]]:
    """The brokers whose pods may not stay ready, and why."""
    for node_id in expected:
        pod = observed.pods.get(node_id)
        if pod is not None and _is_unsettled(pod, now):
            yield node_id, f"{pod.unsettled}, and was started again less than a minute ago"


def _is_unsettled(pod: PodView, now: datetime) -> bool:
    return pod.settles is not None and now < pod.settles


def unready(
    spec: BrokerSpec, observed: Observed, expected: Sequence[int]
) -> Iterator[tuple[int, str]]:
    """The brokers that are to serve and do not, and why."""
    for node_id in expected:
        if node_id in spec.parked:
            continue
        pod = observed.pods.get(node_id)
        text = _podless_text(observed, node_id) if pod is None else _unready_text(pod)
        if not text and observed.cluster and node_id not in observed.cluster.live_ids:
            text = "it does not take part in the cluster"
        if text:
            yield node_id, text


def _unready_text(pod: PodView) -> str:
    if pod.is_terminating:
        return "its pod stops"
    if pod.is_ready:
        return ""
    if pod.stuck:
        return f"its pod cannot start ({pod.stuck})"
    if not pod.node:
        waits = f", and waits for the scheduler {pod.scheduler}" if pod.scheduler else ""
        return f"its pod has no node yet{waits}"
    if pod.is_running and not pod.is_started:
        return "its pod runs and does not answer yet"
    return "its pod starts" + (f" ({pod.warning})" if pod.warning else "")


def _podless_text(observed: Observed, node_id: int) -> str:
    why = observed.podless.get(node_id)
    return "it has no pod yet" + (f" ({why})" if why else "")


def _first(waiting: Mapping[int, str]) -> str:
    for node_id, text in waiting.items():
        return f"broker {node_id}: {text}"
    return ""


def _choose(
    spec: BrokerSpec, observed: Observed, needs: Sequence[Need], plan_hash: str, closed: str
) -> tuple[Restart | None, str, dict[int, str]]:
    """The broker to restart, or what holds all of them back."""
    if spec.is_paused:
        return None, "the Broker is paused", {}
    if spec.update_policy is UpdatePolicy.PAUSED:
        return None, "updatePolicy is Paused", {}
    if spec.update_policy is UpdatePolicy.ON_APPROVAL and spec.approved_hash != plan_hash:
        return None, f"approval of plan {plan_hash}", {}
    if closed:
        needs = [need for need in needs if any(map(_is_asked_for, need.reasons))]
        if not needs:
            return None, closed, {}
    cluster = observed.cluster
    if cluster is None:
        return None, "the brokers do not answer", {}
    if cluster.controller_id is None:
        return None, "no broker leads the control plane", {}
    blocked: dict[int, str] = {}
    for need in _candidates(cluster, needs):
        pod = observed.pods[need.node_id]
        held_back = hindrance(cluster, need.node_id) or claim_hindrance(observed, need.node_id)
        if not held_back:
            restart = Restart(node_id=need.node_id, pod_uid=pod.uid, reasons=need.reasons)
            return restart, "", {}
        blocked[need.node_id] = held_back
    return None, _first(blocked), blocked


def _is_asked_for(reason: str) -> bool:
    return reason.startswith((ASKED_FOR, PARKED))


def _candidates(cluster: ClusterView, needs: Sequence[Need]) -> Sequence[Need]:
    others = [need for need in needs if need.node_id != cluster.controller_id]
    return others or needs
