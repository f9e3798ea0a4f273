"""Whether a broker may be stopped now, and why not (CON-110). Pure.

The operator's gates decide, of brokers that serve: a fenced one is away already, and comes back
only if it is let. Unknown, which is never safe: the metadata were read before a broker came or
went, cannot be read anew, or may hide topics from who looks, or nobody tells who has the metadata
log.

Where an operator runs the cluster and the console reads its word, there is one answer for all
pages: no where either of them says so, and the operator's yes where topics may be hidden from who
looks, since it sees all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas_console.cluster.cluster_watch import ClusterFacts
from barnabas_operator.reconcile.broker.cluster_state import ClusterView, RegisteredBroker
from barnabas_operator.reconcile.broker.members_gate import members_hindrance

_FENCED: Final = "it is fenced"
_HIDDEN: Final = "topics may be hidden from you: it takes rights to the whole cluster to tell"
_NOBODY: Final = "nobody tells who has the metadata log"
_HELD: Final = "the operator says so"
_SILENT: Final = "brokers do not respond to this console"
_LET: Final = "the operator says so; topics may be hidden from you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """`yes`, `no` or `unknown`, and why; a yes of one's own has no reason."""

    safe: str
    reason: str | None = None


def safety_of(facts: ClusterFacts, node_id: int, operator_says: bool | None = None) -> Safety:
    """Whether the cluster can do without the broker for a while.

    `operator_says` is the operator's word on it, None where it gives none.
    """
    held = facts.reading.hindrance(node_id)
    if held:
        return Safety(safe="no", reason=held)
    if any(broker.node_id == node_id and broker.is_fenced for broker in facts.described.brokers):
        return Safety(safe="no", reason=_FENCED)
    if facts.members is not None and not facts.members.ids:
        return Safety(safe="unknown", reason=_NOBODY)
    brokers = {
        broker.node_id: RegisteredBroker(node_id=broker.node_id, is_fenced=broker.is_fenced)
        for broker in facts.described.brokers
    }
    cluster = ClusterView(brokers=brokers, members=facts.members)
    held = members_hindrance(cluster, node_id)
    if held:
        return Safety(safe="no", reason=held)
    if operator_says is False:
        return Safety(safe="no", reason=_HELD)
    if facts.outdated:
        return Safety(safe="unknown", reason=facts.outdated)
    if facts.sees_everything:
        return Safety(safe="yes")
    if operator_says:
        return Safety(safe="yes", reason=_LET)
    return Safety(safe="unknown", reason=_HIDDEN)


def safety_by_operator(operator_says: bool | None, *, of_another_cluster: bool) -> Safety:
    """Of a broker that the console does not look at by itself: the operator's word alone.

    `of_another_cluster`: the broker is of another cluster than the console's; else the console's
    brokers do not respond now, and a yes from before that is none.
    """
    if operator_says is False:
        return Safety(safe="no", reason=_HELD)
    if operator_says and of_another_cluster:
        return Safety(safe="yes", reason=_HELD)
    return Safety(safe="unknown", reason=None if of_another_cluster else _SILENT)
