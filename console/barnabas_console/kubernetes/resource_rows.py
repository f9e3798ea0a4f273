"""What the page shows of Kubernetes' objects: states, plans, what is waited for. Pure.

Invariant: whatever an object holds, it is a row; what is not told is unknown, never fine.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from barnabas_operator.spec import APPROVE_ANNOTATION

EVENTS_MAX: Final = 200

Row = dict[str, Any]
Object = Mapping[str, Any]


def broker_row(broker: Object) -> Row:
    """A Broker: its plan, what it waits for, each of its brokers."""
    metadata, status = _part(broker, "metadata"), _part(broker, "status")
    plan, security = _part(status, "plan"), _part(status, "security")
    return {
        **_resource_row(broker),
        "ready_brokers": status.get("ready"),
        "controller": status.get("controller"),
        "cluster_id": status.get("clusterId"),
        "under_replicated": status.get("underReplicatedPartitions"),
        "offline": status.get("offlinePartitions"),
        "plan": None
        if not plan
        else {
            "summary": plan.get("summary"),
            "waiting_on": plan.get("waitingOn"),
            "restarts": [
                {"broker": one.get("broker"), "reasons": list(one.get("reasons") or ())}
                for one in _items(plan, "restarts")
            ],
        },
        "approve_command": _approve_command(metadata, broker, plan),
        "restarting": _restarting(status),
        "decommission": _decommission(status),
        "security": None
        if not security
        else {
            "phase": security.get("phase"),
            "target": security.get("target"),
            "waiting_on": security.get("waitingOn"),
            "certificates_expire": security.get("certificatesExpire"),
        },
        "brokers": [_member_row(one) for one in _items(status, "brokers")],
    }


def topic_row(topic: Object) -> Row:
    """A Topic."""
    spec, status = _part(topic, "spec"), _part(topic, "status")
    return {
        **_resource_row(topic),
        "topic": status.get("topicName") or spec.get("topicName") or _name(topic),
        "drift_policy": spec.get("driftPolicy") or "Warn",
        "drift": status.get("drift"),
        "reassignment": status.get("reassignment"),
    }


def group_row(group: Object) -> Row:
    """A ConsumerGroup."""
    spec, status = _part(group, "spec"), _part(group, "status")
    return {
        **_resource_row(group),
        "group": status.get("groupId") or spec.get("groupId") or _name(group),
        "group_state": status.get("state"),
        "lag": status.get("lag"),
        "lag_seconds": status.get("lagSeconds"),
        "stuck": status.get("stuck"),
    }


def user_row(user: Object) -> Row:
    """A User."""
    status = _part(user, "status")
    return {
        **_resource_row(user),
        "principal": status.get("principal"),
        "drift": status.get("drift"),
        "expires": status.get("expires"),
    }


def pod_row(pod: Object) -> Row:
    """A pod of a broker."""
    metadata, status = _part(pod, "metadata"), _part(pod, "status")
    containers = _items(status, "containerStatuses")
    waiting = [_part(_part(one, "state"), "waiting").get("reason") for one in containers]
    return {
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "phase": "Terminating" if metadata.get("deletionTimestamp") else status.get("phase"),
        "reason": next((str(one) for one in waiting if one), None),
        "ready": bool(containers) and all(one.get("ready") is True for one in containers),
        "restarts": sum(_number(one.get("restartCount")) for one in containers),
        "node": _part(pod, "spec").get("nodeName"),
        "started_ms": milliseconds(status.get("startTime")),
    }


def event_rows(events: Sequence[Object]) -> list[Row]:
    """Events, the newest first; only the last `EVENTS_MAX`."""
    rows = []
    for event in events:
        about = _part(event, "involvedObject")
        time = event.get("lastTimestamp") or event.get("eventTime")
        time = time or _part(event, "metadata").get("creationTimestamp")
        rows.append(
            {
                "time_ms": milliseconds(time),
                "type": event.get("type"),
                "reason": event.get("reason"),
                "about": f"{about.get('kind', '')} {about.get('name', '')}".strip(),
                "namespace": about.get("namespace"),
                "message": event.get("message"),
                "count": _number(event.get("count")) or 1,
            }
        )
    rows.sort(key=lambda row: row["time_ms"] or 0, reverse=True)
    return rows[:EVENTS_MAX]


def milliseconds(text: object) -> int | None:
    """A time of Kubernetes as milliseconds since the epoch."""
    if not isinstance(text, str):
        return None
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _resource_row(resource: Object) -> Row:
    metadata, status = _part(resource, "metadata"), _part(resource, "status")
    conditions = {str(one.get("type")): one for one in _items(status, "conditions")}
    state, sentence = _state(conditions, _is_observed(metadata, status))
    return {
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "state": state,
        "sentence": sentence,
        "conditions": [
            {
                "type": name,
                "status": one.get("status"),
                "reason": one.get("reason"),
                "message": one.get("message"),
                "since_ms": milliseconds(one.get("lastTransitionTime")),
            }
            for name, one in conditions.items()
        ],
    }


def _is_observed(metadata: Object, status: Object) -> bool:
    """Whether the status is about the spec as it is now."""
    return _number(status.get("observedGeneration")) >= _number(metadata.get("generation"))


def _state(conditions: Mapping[str, Object], is_observed: bool) -> tuple[str, str]:
    """A state and why: the worst of what the conditions say."""

    def holds(name: str) -> bool:
        return conditions.get(name, {}).get("status") == "True"

    def why(name: str) -> str:
        one = conditions.get(name, {})
        return str(one.get("message") or one.get("reason") or "")

    if "Ready" not in conditions:
        return "unknown", "nothing is told of it yet"
    if holds("Degraded"):
        if holds("Ready"):
            return "warning", why("Degraded")
        # What served does not: that it is being worked on makes it no better.
        return "critical", "; ".join(dict.fromkeys(filter(None, map(why, ("Degraded", "Ready")))))
    if holds("Progressing") or not is_observed:
        return "working", why("Progressing") or "the last change is being looked at"
    if holds("Ready"):
        return "fine", why("Ready")
    return "critical", why("Ready")


def _member_row(one: Object) -> Row:
    return {
        "id": one.get("id"),
        "phase": one.get("phase"),
        "message": one.get("message"),
        "pod": one.get("pod"),
        "node": one.get("node"),
        "rack": one.get("rack"),
        "leaders": one.get("leaders"),
        "safe_to_drain": one.get("safeToDrain"),
        "drain": one.get("drain"),
        "drain_requested_ms": milliseconds(one.get("drainRequested")),
        "drain_deadline_ms": milliseconds(one.get("drainDeadline")),
        "waiting_on": one.get("waitingOn"),
        "last_restart_reason": one.get("lastRestartReason"),
    }


def _approve_command(metadata: Object, broker: Object, plan: Object) -> str | None:
    """The command that lets the planned restarts happen, where they wait for it."""
    plan_hash = plan.get("hash")
    annotations = _part(metadata, "annotations")
    waits = _part(broker, "spec").get("updatePolicy") == "OnApproval" and plan.get("restarts")
    if not waits or not plan_hash or annotations.get(APPROVE_ANNOTATION) == plan_hash:
        return None
    words = ["kubectl", "-n", str(metadata.get("namespace")), "annotate", "--overwrite"]
    words += ["brokers.barnabas.dev", str(metadata.get("name"))]
    return shlex.join([*words, f"{APPROVE_ANNOTATION}={plan_hash}"])


def _restarting(status: Object) -> Row | None:
    found = _part(status, "restarting")
    return {"broker": found.get("broker"), "reason": found.get("reason")} if found else None


def _decommission(status: Object) -> Row | None:
    found = _part(status, "decommission")
    if not found:
        return None
    return {
        "broker": found.get("broker"),
        "partitions_left": found.get("partitionsLeft"),
        "moving": found.get("moving"),
        "message": found.get("message"),
    }


def _name(resource: Object) -> str:
    return str(_part(resource, "metadata").get("name") or "")


def _part(of: Object, name: str) -> Object:
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}


def _items(of: Object, name: str) -> list[Object]:
    found = of.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
