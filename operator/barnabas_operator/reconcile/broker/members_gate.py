"""Whether the metadata log can do without a broker for a while. Pure.

Records of the metadata are committed by a majority of the log's members: with fewer in touch no
leader is elected, no topic made and no restarted broker let in again. So a broker may go if the
members that stay in touch are a majority without it; also a broker that is no member, or has lost
touch, because it could not come back.

Two members have a majority only together. Where there are to be no more of them no wait would help,
so they are ignored, as partitions are that can spare no replica, and named in a warning.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_operator.reconcile.broker.cluster_state import ClusterView

# With so many one may be away.
_GUARDED_MIN = 3


def members_hindrance(cluster: ClusterView, node_id: int) -> str:
    """Why the metadata log cannot do without the broker now, empty if it can."""
    members = cluster.members
    if members is None or _wanted(cluster) < _GUARDED_MIN:
        return ""
    if not members.ids:
        return "nobody tells who has the metadata log"
    staying = members.in_touch & members.ids - {node_id}
    if len(staying) > len(members.ids) // 2:
        return ""
    return (
        f"of the metadata log's members {_named(members.ids)} only {_named(staying)} would be left"
        if staying
        else f"none of the metadata log's members {_named(members.ids)} would be left"
    )


def members_warning(cluster: ClusterView) -> str:
    """What to know of a metadata log that can spare no member at any time."""
    if cluster.members is None or not 1 < _wanted(cluster) < _GUARDED_MIN:
        return ""
    return (
        "the metadata log has two members: while one of them is away nothing of the metadata"
        " changes, which restarts do not wait for"
    )


def _wanted(cluster: ClusterView) -> int:
    """How many members there should be; a broker that is fenced may come back."""
    brokers = len(cluster.brokers)
    members = cluster.members
    if members is None:
        return 0
    return min(members.wanted or len(members.ids) or brokers, brokers)


def _named(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(node_ids)))
