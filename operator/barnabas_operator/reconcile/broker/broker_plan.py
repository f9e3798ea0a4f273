"""Everything that is to be done about one Broker now, from what is there. Pure.

Ties the plans of restarts, scaling, storage and settings together: who has to be restarted and why,
what the children look like, which steps follow. The steps are in the order in which they are
carried out; each may fail or be the last one before the operator dies, because the next plan is
made from what is then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from barnabas_operator.broker_spec import BrokerSpec, MaintenanceWindow
from barnabas_operator.kubernetes.objects import broker_labels
from barnabas_operator.reconcile.broker.approval import announced_plan
from barnabas_operator.reconcile.broker.children import Rendering
from barnabas_operator.reconcile.broker.claim_plan import ClaimPlan, plan_claims
from barnabas_operator.reconcile.broker.isr_gate import named, unguarded
from barnabas_operator.reconcile.broker.live_config_plan import LiveConfigPlan, plan_live_config
from barnabas_operator.reconcile.broker.members_gate import members_hindrance, members_warning
from barnabas_operator.reconcile.broker.observed import AnnouncedPlan, Observed, PodView
from barnabas_operator.reconcile.broker.properties import SIZE_FACTORS, size_defaults
from barnabas_operator.reconcile.broker.revision import (
    ASKED_FOR,
    CONFIG_ANNOTATION,
    PARKED,
    REVISION_ANNOTATION,
    changes,
    revision_of,
    setting_changes,
)
from barnabas_operator.reconcile.broker.roll_plan import RollPlan, plan_roll, restart_in_flight
from barnabas_operator.reconcile.broker.scale_plan import ScalePlan, plan_scale
from barnabas_operator.reconcile.broker.security_report import SecurityReport
from barnabas_operator.reconcile.broker.storage_plan import StoragePlan, going_claims, plan_storage

_OWN_ANNOTATIONS = (REVISION_ANNOTATION, CONFIG_ANNOTATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungate:
    """Let a pod be scheduled: it is not the one that is parked."""

    node_id: int
    pod_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetDrain:
    """Take the note off a pod that nobody wants to evict any more."""

    node_id: int
    pod_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabel:
    """Put labels and annotations on a pod that were declared after it was made."""

    node_id: int
    pod_uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlan:
    """What to do. `problems` need somebody, `warnings` should be known.

    `unwritten` are the children that do not have yet what is declared, `unknown_ids` brokers that
    `maintenance` names and that there are not. `not_ours` says of objects with the names of
    children whose they are.
    """

    rendering: Rendering
    announced: AnnouncedPlan
    roll: RollPlan
    scale: ScalePlan
    storage: StoragePlan
    claims: ClaimPlan
    live: LiveConfigPlan
    ungated: tuple[Ungate, ...] = ()
    forgotten: tuple[ForgetDrain, ...] = ()
    relabelled: tuple[Relabel, ...] = ()
    unwritten: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown_ids: tuple[int, ...] = ()
    security: SecurityReport = field(default_factory=SecurityReport)

    @property
    def waiting_on(self) -> str:
        """What nobody has to do anything about, empty when all is done."""
        return self.roll.waiting_on or self.scale.waiting_on or self.storage.waiting_on


def plan_broker(
    spec: BrokerSpec,
    observed: Observed,
    *,
    now: datetime,
    default_image: str,
    cluster_domain: str = "cluster.local",
) -> BrokerPlan:
    """The plan for a Broker that is not being deleted."""
    image = spec.image or default_image
    live = plan_live_config(spec, observed)
    if spec.is_paused:
        live = replace(live, remembered=observed.remembered.live_config)
    current = observed.stateful_set.replicas if observed.stateful_set is not None else 0
    returning = observed.remembered.in_flight
    # One that does not come back, and is to go for good, keeps nobody here.
    is_rolling = returning is not None and returning.node_id < spec.replicas
    scale = plan_scale(spec, observed, is_rolling=is_rolling)
    expected = range(min(current, scale.replicas))
    flying, _ = restart_in_flight(spec, observed, expected)
    storage = plan_storage(spec, observed, expected=expected, is_rolling=flying is not None)
    # What pods are made with from now on: volumes that cannot go yet are among them.
    given = replace(spec, volumes=storage.volumes)
    reasons = restart_reasons(given, observed, image=image, live=live)
    announced = announced_plan(spec, observed, reasons, image=image, expected=expected)
    roll = plan_roll(
        spec,
        observed,
        reasons,
        expected=expected,
        plan_hash=announced.hash,
        now=now,
        closed=closed_windows(spec.windows, now),
    )
    if live.unknown and roll.restarts:
        # They would not start with them; what runs is left running.
        unknown = f"settings that brokers do not know: {', '.join(live.unknown)}"
        roll = replace(_held(roll, unknown), stalled=unknown)
    elif scale.replicas < current or any(node_id >= current for node_id in observed.pods):
        roll = _held(roll, "a broker that leaves")
    elif storage.recreated_set is not None:
        roll = _held(roll, "the StatefulSet, which is made again")
    return BrokerPlan(
        rendering=Rendering(
            image=image,
            replicas=scale.replicas,
            max_unavailable=max_unavailable(observed),
            volumes=storage.volumes,
            racks=known_racks(spec, observed, scale.replicas),
            kept_files=_mounted_files(observed),
            cluster_domain=cluster_domain,
        ),
        announced=announced,
        roll=roll,
        scale=scale,
        storage=storage,
        claims=plan_claims(spec, observed, scale, storage),
        live=live,
        ungated=tuple(_ungated(spec, observed)),
        relabelled=tuple(_relabelled(spec, observed)),
        problems=tuple(_problems(storage, scale, live)),
        warnings=tuple(_warnings(observed)),
        unknown_ids=tuple(sorted(_unknown_ids(spec, observed))),
    )


def closed_windows(windows: Sequence[MaintenanceWindow], now: datetime) -> str:
    """The opening that is waited for; empty while a window is open, or there are none."""
    if not windows or any(one.next_opening(now - one.duration) <= now for one in windows):
        return ""
    opening = min(one.next_opening(now) for one in windows)
    return f"the next maintenance window, {opening:%Y-%m-%dT%H:%MZ}"


def forgotten_drains(observed: Observed, now: datetime) -> tuple[ForgetDrain, ...]:
    """The notes of evictions that are over and that did not take the pod away."""
    return tuple(
        ForgetDrain(node_id=pod.node_id, pod_uid=pod.uid)
        for pod in observed.pods.values()
        if pod.drain_request is not None
        and pod.drain_request.is_over(now)
        and not pod.is_terminating
    )


def restart_reasons(
    spec: BrokerSpec, observed: Observed, *, image: str, live: LiveConfigPlan
) -> dict[int, list[str]]:
    """Why each broker has to be restarted, by id; those that have to not are absent."""
    wanted = revision_of(spec, image)
    reasons: dict[int, list[str]] = {}
    for node_id, pod in observed.pods.items():
        found = changes(pod.revision, wanted)
        if _knows_settings(observed) or pod.stuck or not (pod.is_ready or pod.is_started):
            found += setting_changes(pod.config, spec.config, live.live)
        found += _rack_reasons(spec, observed, pod)
        found += _factor_reasons(spec, observed, node_id)
        if pod.restart_asked:
            found.append(f"{ASKED_FOR} on its pod ({pod.restart_asked})")
        secrets = {str(one.get("name")) for one in spec.pod_template.image_pull_secrets}
        # Pods may have others besides, which a webhook or their ServiceAccount has put there.
        if not secrets.issubset(pod.pull_secrets):
            found.append("imagePullSecrets changed")
        if node_id in spec.parked and not pod.is_gated:
            found.append(PARKED)
        if found:
            reasons[node_id] = found
    return reasons


def max_unavailable(observed: Observed) -> int:
    """How many pods Kubernetes may evict at once, by how many replicas are in sync."""
    cluster = observed.cluster
    if cluster is None:
        return 1
    is_at_limit = any(one.is_at_limit for one in cluster.partitions) or any(
        members_hindrance(cluster, node_id) for node_id in cluster.live_ids
    )
    return 0 if is_at_limit else 1


def known_racks(spec: BrokerSpec, observed: Observed, replicas: int) -> dict[int, str | None]:
    """The rack of each ordinal that may be written into its file."""
    if spec.topology_key is None:
        return {}
    kept = _mounted_files(observed) | set(range(replicas))
    racks = {node_id: rack for node_id, rack in observed.racks.items() if node_id in kept}
    # Of a broker that is gone nobody reads the file; it only has to be there.
    racks.update(dict.fromkeys(kept - set(range(replicas)) - racks.keys(), None))
    homeless = []
    for node_id in range(replicas):
        pod = observed.pods.get(node_id)
        if pod is not None and pod.node:
            racks[node_id] = pod.rack
        elif node_id not in racks:
            homeless.append(pod)
    if homeless and all(pod is not None and _finds_no_node(pod) for pod in homeless):
        # They would hold up the others for as long as they find none.
        racks.update({pod.node_id: None for pod in homeless if pod is not None})
    return racks


def _mounted_files(observed: Observed) -> frozenset[int]:
    """The brokers whose files some pod mounts by name."""
    return frozenset(node_id for pod in observed.pods.values() for node_id in pod.own_files)


def _finds_no_node(pod: PodView) -> bool:
    return pod.is_unschedulable or pod.is_gated


def _knows_settings(observed: Observed) -> bool:
    return observed.cluster is not None and observed.cluster.settings is not None


def _rack_reasons(spec: BrokerSpec, observed: Observed, pod: PodView) -> list[str]:
    if spec.topology_key is None or observed.cluster is None or not pod.is_ready or not pod.node:
        return []
    registered = observed.cluster.brokers.get(pod.node_id)
    if registered is None or (registered.rack or "") == (pod.rack or ""):
        return []
    return [f"its rack is {pod.rack or 'unknown'}, it started with {registered.rack or 'none'}"]


def _factor_reasons(spec: BrokerSpec, observed: Observed, node_id: int) -> list[str]:
    """The defaults by size that a broker started with and that are not those of today's size.

    Once there are as many brokers as are declared: until then somebody may think better of it.
    """
    cluster, there = observed.cluster, observed.stateful_set
    if there is None or there.replicas != spec.replicas or node_id >= spec.replicas:
        return []
    if cluster is None or node_id not in cluster.live_ids:
        return []
    wanted, own = size_defaults(spec.replicas), cluster.brokers[node_id].factors
    return [
        f"{key} is {own[key]}, of {spec.replicas} brokers it is {wanted[key]}"
        for key in SIZE_FACTORS
        if key in own and key not in spec.config and own[key] != wanted[key]
    ]


def _ungated(spec: BrokerSpec, observed: Observed) -> list[Ungate]:
    return [
        Ungate(node_id=node_id, pod_uid=pod.uid)
        for node_id, pod in observed.pods.items()
        if pod.is_gated and node_id not in spec.parked and not pod.is_terminating
    ]


def _relabelled(spec: BrokerSpec, observed: Observed) -> Iterator[Relabel]:
    """What is declared no more stays on a pod until it is made again."""
    template, own = spec.pod_template, broker_labels(spec.name)
    for node_id, pod in observed.pods.items():
        labels = _lacking(template.labels, pod.labels, own)
        annotations = _lacking(template.annotations, pod.annotations, _OWN_ANNOTATIONS)
        if (labels or annotations) and not pod.is_terminating:
            yield Relabel(node_id=node_id, pod_uid=pod.uid, labels=labels, annotations=annotations)


def _lacking(
    wanted: Mapping[str, str], there: Mapping[str, str], own: Collection[str]
) -> dict[str, str]:
    return {
        key: value for key, value in wanted.items() if key not in own and there.get(key) != value
    }


def _held(roll: RollPlan, why: str) -> RollPlan:
    """The roll without the restart of a broker that serves."""
    if not roll.restarts or any(restart.is_stuck for restart in roll.restarts):
        return roll
    return replace(roll, restarts=(), in_flight=None, waiting_on=why)


def _problems(storage: StoragePlan, scale: ScalePlan, live: LiveConfigPlan) -> list[str]:
    problems = list(storage.problems)
    if scale.emptying is not None and scale.emptying.blocked:
        problems.append(scale.emptying.blocked)
    problems += [f"brokers do not know the setting {key}" for key in live.unknown]
    return problems


def _warnings(observed: Observed) -> list[str]:
    return [*_warnings_of_claims(observed), *_warnings_of_replicas(observed)]


def _warnings_of_claims(observed: Observed) -> list[str]:
    going = [claim for node_id in observed.pods for claim in going_claims(observed, node_id)]
    if not going:
        return []
    return [
        f"{', '.join(going)} deleted by somebody: what is there goes when the pod is restarted, or"
        " its node goes; the operator restarts no broker that alone has something there"
    ]


def _warnings_of_replicas(observed: Observed) -> list[str]:
    if observed.cluster is None or len(observed.pods) < 2:
        return []
    alone = unguarded(observed.cluster)
    text = (
        f"{named(alone)} cannot spare a replica at any time, because there are not more of them"
        " than min.insync.replicas; restarts do not wait for that"
    )
    of_members = members_warning(observed.cluster)
    return ([text] if alone else []) + ([of_members] if of_members else [])


def _unknown_ids(spec: BrokerSpec, observed: Observed) -> frozenset[int]:
    """Ids in `maintenance` that mean nobody; none while all brokers are stopped.

    The schema refuses new ones. Others were there when the resource was made, or their brokers went
    by a scale-in, after which the spec must still be one that can be changed.
    """
    if spec.replicas == 0:
        return frozenset()
    named_ids = spec.parked | spec.decommissioned
    return frozenset(one for one in named_ids if one >= spec.replicas) - observed.pods.keys()


def lost_or_waiting(observed: Observed) -> Mapping[int, str]:
    """Brokers that need a hand with their node or disk, and what happened."""
    found: dict[int, str] = {}
    for volume in observed.volumes:
        if volume.lost_node:
            found[volume.node_id] = f"its disk was on node {volume.lost_node}, which is gone"
    for node_id, pod in observed.pods.items():
        if pod.is_terminating and pod.is_node_lost:
            found[node_id] = (
                f"its pod stops on node {pod.node}, which does not answer; when that node is surely"
                " off, taint it with node.kubernetes.io/out-of-service or delete the pod by force"
            )
    return found
