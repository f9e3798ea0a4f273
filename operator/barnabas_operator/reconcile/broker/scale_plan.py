"""How many brokers run, and which of them give their partitions away. Pure.

More brokers: the StatefulSet gets them at once, and nobody else is touched. Fewer: the broker with
the highest id gives its partitions to the others, a few at a time; when it holds none it leaves the
members of the metadata log, while it still runs, because its pod gone would leave them without the
majority that lets a member go; then its pod goes, then its registration, then the next one's turn
comes. `maintenance.decommission` empties a broker
in the same way and lets it run. None at all stops every broker and moves nothing. A broker whose
pod went before it was empty, as when somebody scales the StatefulSet by hand, comes back first.

Nothing is remembered: how far it is can be seen in the metadata. Brokers do not know a state in
which they take no new partitions, so what is created meanwhile is moved like the rest.

Invariants: one broker is emptied at a time; a pod is taken away only while its broker holds
nothing, is no member of the metadata log, and all that stay are well; the last broker stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.cluster_state import ClusterView, PartitionView
from barnabas_operator.reconcile.broker.observed import Observed, PodView
from barnabas_operator.reconcile.broker.roll_plan import unready
from barnabas_protocol.ids import TopicPartition

# Partitions that are on the move at the same time: they share the network with the clients.
MOVING_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """How far the broker is that gives its partitions away; `blocked` says why it cannot."""

    node_id: int
    left: int
    moving: int
    blocked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """`replicas` are those of the StatefulSet from now on.

    `leaving` are the brokers that are to be told to leave the metadata log, or that they may stay.
    """

    replicas: int
    moves: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    emptying: Emptying | None = None
    unregistered: tuple[int, ...] = ()
    leaving: Mapping[int, bool] = field(default_factory=dict)
    waiting_on: str = ""


def plan_scale(spec: BrokerSpec, observed: Observed, *, is_rolling: bool) -> ScalePlan:
    """What is to be done; no pod is taken away while another one is being restarted."""
    plan = _plan_count(spec, observed, is_rolling=is_rolling)
    if observed.cluster is None or spec.replicas == 0:
        return plan
    # Somebody has thought better of it.
    staying = {
        node_id: False
        for node_id, broker in sorted(observed.cluster.brokers.items())
        if broker.is_leaving and node_id < spec.replicas
    }
    return replace(plan, leaving={**plan.leaving, **staying})


def _plan_count(spec: BrokerSpec, observed: Observed, *, is_rolling: bool) -> ScalePlan:
    current = observed.stateful_set.replicas if observed.stateful_set is not None else 0
    if spec.replicas == 0:
        return ScalePlan(replicas=0)
    if current == 0:
        return ScalePlan(replicas=max(spec.replicas, _brokers_with_data(observed)))
    if spec.replicas > current:
        return ScalePlan(replicas=spec.replicas)
    cluster = observed.cluster
    leaving = _leaving(spec, current)
    if cluster is None:
        count = _brokers_with_data(observed)
        if count > current and not any(map(_serves, observed.pods.values())):
            # Who is left may not be able to start without those that somebody has taken away.
            return ScalePlan(replicas=count, waiting_on=f"broker {count - 1}, which has data")
        waiting = "the brokers do not answer" if leaving else ""
        return ScalePlan(replicas=current, waiting_on=waiting)
    if needed := _needed_to_lead(observed, cluster, current):
        waiting = f"broker {needed[-1]}, without which nobody leads the control plane"
        return ScalePlan(replicas=needed[-1] + 1, waiting_on=waiting)
    gone = _gone(observed, cluster, current)
    stopping = [node_id for node_id in observed.pods if node_id >= current]
    if gone or stopping:
        waiting = f"broker {max(stopping)} stops" if stopping else ""
        return ScalePlan(replicas=current, unregistered=gone, waiting_on=waiting)
    stranded = _stranded(observed, cluster, current)
    back = [node_id for node_id in stranded if _has_volume(observed, node_id)]
    if back:
        count = len(cluster.held_by(back[-1]))
        waiting = f"broker {back[-1]}, which has no pod and still holds {count} partitions"
        return ScalePlan(replicas=back[-1] + 1, waiting_on=waiting)
    if stranded:
        return _emptied(cluster, current, stranded[0], cluster.held_by(stranded[0]), leaving)
    for node_id in leaving:
        held = cluster.held_by(node_id)
        if held:
            return _emptied(cluster, current, node_id, held, leaving)
        if node_id >= spec.replicas:
            return _removed(spec, observed, cluster, node_id, is_rolling=is_rolling)
    return ScalePlan(replicas=current)


def _removed(
    spec: BrokerSpec, observed: Observed, cluster: ClusterView, node_id: int, *, is_rolling: bool
) -> ScalePlan:
    """Take the last broker away, which holds no partition, or the step before that."""
    current = node_id + 1
    if is_rolling:
        return ScalePlan(replicas=current, waiting_on="the restart of a broker")
    # Not for others that are to go: those may be what is to be got rid of.
    for other, why in unready(spec, observed, range(spec.replicas)):
        return ScalePlan(replicas=current, waiting_on=f"broker {other}: {why}")
    members = cluster.members
    if members is None:
        return ScalePlan(replicas=node_id)
    if not members.ids:
        return ScalePlan(replicas=current, waiting_on="nobody tells who has the metadata log")
    broker = cluster.brokers.get(node_id)
    if node_id in members.ids and (broker is None or broker.is_leaving is None):
        waiting = f"broker {node_id} is a member of the metadata log, and cannot be asked to leave"
        return ScalePlan(replicas=current, waiting_on=waiting)
    if broker is not None and broker.is_leaving is False:
        waiting = f"broker {node_id} is told to leave the metadata log"
        return ScalePlan(replicas=current, leaving={node_id: True}, waiting_on=waiting)
    if node_id in members.ids:
        waiting = f"broker {node_id} leaves the metadata log"
        return ScalePlan(replicas=current, waiting_on=waiting)
    if 2 * len(members.in_touch) <= len(members.ids):
        waiting = "the members of the metadata log that are left"
        return ScalePlan(replicas=current, waiting_on=waiting)
    return ScalePlan(replicas=node_id)


def _leaving(spec: BrokerSpec, current: int) -> list[int]:
    """The brokers that have to be empty, in the order in which they become so."""
    removed = range(current - 1, spec.replicas - 1, -1)
    return [*removed, *sorted(spec.decommissioned & set(range(spec.replicas)), reverse=True)]


def _brokers_with_data(observed: Observed) -> int:
    """How many brokers there were when all were stopped, or before the Broker was made again."""
    owners = [one.node_id for one in observed.volumes if not one.is_decommissioned]
    return max(owners, default=-1) + 1


def _gone(observed: Observed, cluster: ClusterView, current: int) -> tuple[int, ...]:
    """Brokers whose pod was taken away: the cluster may forget them."""
    return tuple(
        node_id
        for node_id, broker in sorted(cluster.brokers.items())
        if node_id >= current
        and broker.is_fenced
        and node_id not in observed.pods
        and not cluster.held_by(node_id)
    )


def _serves(pod: PodView) -> bool:
    return pod.is_ready or pod.is_broker_ready


def _needed_to_lead(observed: Observed, cluster: ClusterView, current: int) -> list[int]:
    """Brokers that went without leaving the metadata log, and left no majority, in rising order.

    Who its members are each broker tells as it knew them last, and nobody fences who has gone.
    Where none tells it is all brokers: those that were scaled away in good order are forgotten.
    """
    gone = {one for one in cluster.brokers if one >= current and one not in observed.pods}
    live = cluster.live_ids - gone
    told = [one.metadata_members for one in observed.processes.values() if one.metadata_members]
    electorates = told or [frozenset(cluster.brokers)]
    is_majority = all(2 * len(live & members) > len(members) for members in electorates)
    if cluster.controller_id is not None or is_majority:
        return []
    return [node_id for node_id in sorted(gone) if _has_volume(observed, node_id)]


def _stranded(observed: Observed, cluster: ClusterView, current: int) -> list[int]:
    """Brokers that went without giving their partitions away, in rising order.

    Somebody has scaled the StatefulSet by hand, or a topic was made at the last moment. Where their
    volumes are still there they come back, to be emptied in good order.
    """
    holders = {node_id for one in cluster.partitions for node_id in one.replicas}
    there = cluster.live_ids | observed.pods.keys()
    return sorted(one for one in holders if one >= current and one not in there)


def _has_volume(observed: Observed, node_id: int) -> bool:
    return any(
        one.node_id == node_id and one.is_bound and not one.is_going for one in observed.volumes
    )


def _emptied(
    cluster: ClusterView,
    current: int,
    node_id: int,
    held: list[PartitionView],
    leaving: Collection[int],
) -> ScalePlan:
    if cluster.controller_id is None:
        # A move that is not seen would be begun anew, from its new replicas, too.
        waiting = f"broker {node_id} has partitions, and nobody leads who knows what moves"
        emptying = Emptying(node_id=node_id, left=len(held), moving=0)
        return ScalePlan(replicas=current, emptying=emptying, waiting_on=waiting)
    takers = sorted(cluster.live_ids - set(leaving))
    moving = [one for one in held if node_id in one.leaving]
    standing = [one for one in held if node_id not in one.leaving]
    free = MOVING_MAX - sum(one.is_moving for one in cluster.partitions)
    moves, blocked = _moves(cluster, node_id, standing, takers, max(free, 0))
    return ScalePlan(
        replicas=current,
        moves=moves,
        emptying=Emptying(
            node_id=node_id, left=len(held), moving=len(moving) + len(moves), blocked=blocked
        ),
        waiting_on=blocked or f"broker {node_id} gives {len(held)} partitions to others",
    )


def _moves(
    cluster: ClusterView,
    node_id: int,
    standing: Collection[PartitionView],
    takers: Collection[int],
    count_max: int,
) -> tuple[dict[TopicPartition, tuple[int, ...]], str]:
    """New replicas: the leaver's place goes to another rack and to the broker with the fewest."""
    if not takers:
        return {}, f"broker {node_id} is the last one"
    load = Counter(replica for one in cluster.partitions for replica in one.replicas)
    moves: dict[TopicPartition, tuple[int, ...]] = {}
    blocked = ""
    for one in standing:
        staying = [replica for replica in one.replicas if replica not in one.leaving]
        free = [taker for taker in takers if taker not in staying]
        if not free:
            name = f"{one.topic_partition.topic}-{one.topic_partition.partition}"
            blocked = blocked or (
                f"{name} has {len(staying)} replicas, and without broker {node_id} there are"
                f" {len(takers)} brokers"
            )
            continue
        if one.is_moving or len(moves) >= count_max:
            continue
        others = [replica for replica in staying if replica != node_id]
        taker = min(
            free, key=lambda broker: (_shared_racks(cluster, broker, others), load[broker], broker)
        )
        load[taker] += 1
        moves[one.topic_partition] = tuple(
            taker if replica == node_id else replica for replica in staying
        )
    return moves, blocked


def _shared_racks(cluster: ClusterView, node_id: int, others: Collection[int]) -> int:
    """How many of the others are in the broker's rack; none where there are no racks."""
    racks = {broker.node_id: broker.rack for broker in cluster.brokers.values()}
    rack = racks.get(node_id)
    return 0 if rack is None else sum(racks.get(other) == rack for other in others)
