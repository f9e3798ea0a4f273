"""Which claims are noted to hold nothing, and which go while their Broker stays. Pure.

A claim is noted (`barnabas.dev/decommissioned`) when its broker has given everything away and is
forgotten by the cluster, when its broker runs without the volume, and when its broker was scaled
away without ever having had it. The note is taken off when
the broker has the volume again.

Claims stay unless `deleteClaim` asks for more, and then those go that were noted in an earlier pass
and of which the same still holds. So nothing goes of a broker that is stopped, parked, restarted or
on its way up, nor of all of them at `replicas: 0`. Kubernetes' own retention policy of StatefulSets
knows none of these differences (decision 0024).

Not here: the end of the Broker itself (`deletion_plan.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.observed import Observed, VolumeView
from barnabas_operator.reconcile.broker.scale_plan import ScalePlan
from barnabas_operator.reconcile.broker.storage_plan import StoragePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkClaim:
    """Note on a claim that nothing is on its volume, or take the note off."""

    claim: str
    uid: str
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DropClaim:
    """Delete a claim with nothing on its volume; `why` is for the event."""

    claim: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """What is to be done about claims."""

    marks: tuple[MarkClaim, ...] = ()
    dropped: tuple[DropClaim, ...] = ()


def plan_claims(
    spec: BrokerSpec, observed: Observed, scale: ScalePlan, storage: StoragePlan
) -> ClaimPlan:
    """What is to be done now."""
    return ClaimPlan(
        marks=tuple(_marks(spec, observed, scale, storage)),
        dropped=tuple(_dropped(spec, observed, scale, storage)),
    )


def _marks(
    spec: BrokerSpec, observed: Observed, scale: ScalePlan, storage: StoragePlan
) -> Iterator[MarkClaim]:
    kept = {volume.name for volume in storage.volumes}
    for claim in observed.volumes:
        is_unused = not claim.is_bound and _is_scaled_away(spec, observed, scale, claim.node_id)
        is_empty = (
            claim.node_id in scale.unregistered or is_unused or _runs_without(observed, claim, kept)
        )
        is_back = claim.node_id < scale.replicas and claim.volume in kept
        if is_empty != claim.is_decommissioned and (is_empty or is_back):
            yield MarkClaim(claim=claim.claim, uid=claim.uid, is_empty=is_empty)


def _runs_without(observed: Observed, claim: VolumeView, kept: set[str]) -> bool:
    """Whether the claim's broker runs, neither it nor its next pod having the volume."""
    current = observed.stateful_set
    if current is None or current.is_going or claim.volume in kept:
        return False
    if claim.volume in {volume.name for volume in current.volumes}:
        return False
    pod, process = observed.pods.get(claim.node_id), observed.processes.get(claim.node_id)
    if pod is None or process is None or process.node_id != claim.node_id:
        return False
    return claim.volume not in pod.volumes and not pod.is_terminating


def _dropped(
    spec: BrokerSpec, observed: Observed, scale: ScalePlan, storage: StoragePlan
) -> Iterator[DropClaim]:
    if not spec.delete_claim.is_when_scaled:
        return
    kept = {volume.name for volume in storage.volumes}
    for claim in observed.volumes:
        if not claim.is_decommissioned or claim.is_going:
            continue
        if _is_scaled_away(spec, observed, scale, claim.node_id):
            why = f"broker {claim.node_id} was scaled away"
        elif _runs_without(observed, claim, kept) and _has_all(observed, claim.node_id):
            why = f"broker {claim.node_id} runs without the volume {claim.volume}"
        else:
            continue
        yield DropClaim(claim=claim.claim, uid=claim.uid, why=why)


def _has_all(observed: Observed, node_id: int) -> bool:
    """Whether a broker has all of its replicas in sync, so none can be on a volume it has not."""
    cluster = observed.cluster
    if cluster is None or node_id not in cluster.live_ids:
        return False
    return all(
        one.leader is not None and node_id in one.in_sync for one in cluster.held_by(node_id)
    )


def _is_scaled_away(spec: BrokerSpec, observed: Observed, scale: ScalePlan, node_id: int) -> bool:
    """Whether a broker is gone for good, and the cluster, which answers, knows nothing of it.

    Nor has the metadata log it as a member: somebody may have taken its pod away before it left.
    """
    current, cluster = observed.stateful_set, observed.cluster
    if current is None or current.is_going or cluster is None or spec.replicas == 0:
        return False
    if node_id < max(current.replicas, scale.replicas, spec.replicas):
        return False
    members = cluster.members
    if members is not None and (not members.ids or node_id in members.ids):
        return False
    is_forgotten = node_id not in cluster.brokers and not cluster.held_by(node_id)
    return is_forgotten and node_id not in observed.pods
