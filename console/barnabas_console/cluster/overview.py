"""The cluster in a few words: health in a sentence, brokers, troubles by cause (CON-110). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from barnabas_console.cluster.cluster_watch import ClusterFacts, rows_of_brokers
from barnabas_console.cluster.reading import Cause, CausedTroubles
from barnabas_console.cluster.safety import safety_of

# How bad a cause is, the worst first.
_STATES: Final = {"offline": "critical", "read-only": "critical", "under-replicated": "warning"}
_ORDER: Final = ("critical", "warning", "working")


def brokers(
    facts: ClusterFacts, operator_says: Mapping[int, bool] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """All brokers: what the command line shows, and whether they may be stopped.

    `operator_says` is its word on those brokers that it tells of.
    """
    known = {broker.node_id: broker for broker in facts.described.brokers}
    rows = []
    for row in rows_of_brokers(facts):
        node_id = row["broker"]
        safety = safety_of(facts, node_id, operator_says.get(node_id))
        disk = facts.disks.get(node_id)
        status = facts.statuses.get(node_id)
        broker = known.get(node_id)
        rows.append(
            {
                **row,
                "id": node_id,
                "host": None if broker is None else broker.host,
                "port": None if broker is None else broker.port,
                "safe": safety.safe,
                "reason": safety.reason,
                "under_replicated": row["out_of_sync"],
                "disk_used_bytes": None if disk is None else disk.used_bytes,
                "disk_total_bytes": None if disk is None else disk.total_bytes,
                "loop_lag_ms": None if status is None else status.loop_lag_ms,
                "drain": None if status is None else status.drain,
                "is_controller": row["controller"],
                "is_fenced": row["state"] == "fenced",
            }
        )
    return rows


def troubles(facts: ClusterFacts) -> list[dict[str, Any]]:
    """Partitions in trouble by their cause, the worst first."""
    states = {row["broker"]: row["state"] for row in rows_of_brokers(facts)}
    rows = [_trouble(cause, found, states) for cause, found in facts.reading.causes.items()]
    rows.sort(key=lambda row: (_ORDER.index(row["state"]), -row["count"]))
    return rows


def health(facts: ClusterFacts, broker_rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """State and sentence: `Degraded: 2 of 1,236 partitions ...; broker 1 must stay`."""
    tally = facts.reading.tally
    worst = [_STATES[cause.kind] for cause in facts.reading.causes if not cause.is_moving]
    away = [row for row in broker_rows if row["state"] != "ready"]
    # Who is fenced is told as being away.
    must_stay = [row["id"] for row in broker_rows if row["safe"] == "no" and not row["is_fenced"]]
    words: list[str] = []
    if tally.offline_count:
        words.append(_share(tally.offline_count, tally.partition_count, "offline"))
    if tally.under_replicated_count:
        words.append(
            _share(tally.under_replicated_count, tally.partition_count, "under-replicated")
        )
    if facts.described.controller_id is None:
        words.append("there is no controller")
    words += [f"broker {row['id']} is {row['state']}" for row in away]
    if must_stay:
        words.append(f"{_named_brokers(must_stay)} must stay")
    if "critical" in worst or tally.offline_count:
        return {"state": "critical", "sentence": f"Unhealthy: {'; '.join(words)}"}
    if words:
        return {"state": "warning", "sentence": f"Degraded: {'; '.join(words)}"}
    if facts.outdated:
        return {"state": "unknown", "sentence": f"Not known: {facts.outdated}"}
    return {
        "state": "fine",
        "sentence": f"All is well: {_counted(len(broker_rows), 'broker')},"
        f" {_counted(tally.topic_count, 'topic')},"
        f" {_counted(tally.partition_count, 'partition')}, all in sync",
    }


def _trouble(cause: Cause, found: CausedTroubles, states: Mapping[int, str]) -> dict[str, Any]:
    state = "working" if cause.is_moving and cause.kind != "offline" else _STATES[cause.kind]
    return {
        "cause": _words(cause, found.count, states),
        "kind": cause.kind,
        "brokers": list(cause.missing),
        "count": found.count,
        "partitions": [
            {"topic": place.topic, "partition": place.partition} for place in found.examples
        ],
        "state": state,
        "command": "barnabas cluster status",
    }


def _words(cause: Cause, count: int, states: Mapping[int, str]) -> str:
    what = {
        "offline": "offline",
        "read-only": "read-only, with fewer in sync than min.insync.replicas",
        "under-replicated": "under-replicated",
    }[cause.kind]
    by_state: dict[str, list[int]] = {}
    for node_id in cause.missing:
        by_state.setdefault(states.get(node_id, "gone"), []).append(node_id)
    reasons = []
    for state, node_ids in by_state.items():
        several = len(node_ids) > 1
        match state:
            case "ready" if cause.is_moving:
                reasons.append(f"{_named_brokers(node_ids)} {'get' if several else 'gets'} a copy")
            case "ready":
                reasons.append(f"{_named_brokers(node_ids)} {'catch' if several else 'catches'} up")
            case _:
                reasons.append(f"{_named_brokers(node_ids)} {'are' if several else 'is'} {state}")
    return f"{_counted(count, 'partition')} {what}: {', '.join(reasons) or 'no leader'}"


def _named_brokers(node_ids: Sequence[int]) -> str:
    names = ", ".join(map(str, sorted(node_ids)))
    return f"broker{'s' if len(node_ids) > 1 else ''} {names}"


def _share(count: int, total: int, what: str) -> str:
    return f"{count:,} of {_counted(total, 'partition')} {what}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else noun + 's'}"
