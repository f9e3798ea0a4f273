"""Whether the pod of a broker may be evicted now: the same gate as that of a restart. Pure.

An eviction ends like a restart: the pod stops in good order, giving its leaderships away first, and
another one is made, on another node. So it waits for what a restart waits for: brokers that are
down, a restart in flight, partitions and a metadata log that cannot spare the broker.

It is not held up where that would protect nothing or is not wanted: a Broker that is paused or
going, a pod that serves nobody, a node that does not answer; nor for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.drain_request import DrainRequest
from barnabas_operator.reconcile.broker.isr_gate import hindrance
from barnabas_operator.reconcile.broker.observed import Observed, PodView
from barnabas_operator.reconcile.broker.roll_plan import restart_in_flight, takes_part, unready
from barnabas_operator.reconcile.broker.storage_plan import claim_hindrance


class Ruling(StrEnum):
    """What is said to an eviction, and why; the values appear in metrics."""

    NOT_OURS = "not-ours"
    LEFT_ALONE = "left-alone"
    SERVES_NOBODY = "serves-nobody"
    NODE_LOST = "node-lost"
    SAFE = "safe"
    OUT_OF_PATIENCE = "out-of-patience"
    NOT_JUDGED = "not-judged"
    DENIED = "denied"

    @property
    def lets_go(self) -> bool:
        """Whether the eviction goes on."""
        return self is not Ruling.DENIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A ruling on one eviction; `waiting_on` is what it waits for, or would have."""

    ruling: Ruling
    waiting_on: str = ""


def judge(
    spec: BrokerSpec,
    observed: Observed,
    node_id: int,
    *,
    request: DrainRequest,
    now: datetime,
    patience_seconds: float,
) -> Verdict:
    """What to say to the eviction of a broker of this Broker, which is not being deleted.

    `request` is the row of evictions of which it is a part.
    """
    pod = observed.pods.get(node_id)
    if spec.is_paused or spec.is_elsewhere:
        return Verdict(ruling=Ruling.LEFT_ALONE)
    if pod is None or pod.is_terminating or _serves_nobody(observed, pod):
        return Verdict(ruling=Ruling.SERVES_NOBODY)
    if pod.is_node_lost:
        return Verdict(ruling=Ruling.NODE_LOST)
    waiting_on = eviction_hindrance(spec, observed, node_id)
    if not waiting_on:
        return Verdict(ruling=Ruling.SAFE)
    if now - request.since >= timedelta(seconds=patience_seconds):
        return Verdict(ruling=Ruling.OUT_OF_PATIENCE, waiting_on=waiting_on)
    return Verdict(ruling=Ruling.DENIED, waiting_on=waiting_on)


def eviction_hindrance(spec: BrokerSpec, observed: Observed, node_id: int) -> str:
    """What the broker has to be kept for, empty if it may go now."""
    expected = range(0 if observed.stateful_set is None else observed.stateful_set.replicas)
    for other, text in unready(spec, observed, expected):
        return f"broker {other}: {text}"
    _, arriving = restart_in_flight(spec, observed, expected)
    if arriving:
        return arriving
    if observed.cluster is None:
        return "the brokers do not answer"
    if observed.cluster.controller_id is None:
        return "no broker leads the control plane"
    text = hindrance(observed.cluster, node_id) or claim_hindrance(observed, node_id)
    return f"broker {node_id}: {text}" if text else ""


def _serves_nobody(observed: Observed, pod: PodView) -> bool:
    """Whether it waits for a node or cannot start; one that starts may be recovering its logs.

    A broker may serve beside a container that cannot start.
    """
    if pod.is_gated or not pod.node:
        return True
    return bool(pod.stuck) and not pod.is_ready and not takes_part(observed, pod)
