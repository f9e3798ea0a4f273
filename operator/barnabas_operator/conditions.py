"""Conditions of a resource, as `kubectl wait`, Flux and Argo read them. Pure.

Ready says whether the resource is what it declares. Reconciling is True only while the operator is
bringing it there, Stalled only when it cannot get there unless something else changes; kstatus
takes either as the answer to "is it done?", so they are left out when they are not True.
Progressing says the same as Reconciling and Degraded whether something that served does not; both
are always there, for tools that wait for a status of theirs.

Invariant: a condition's transition time changes only with its status, so that computing the same
conditions again gives the same status and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

ConditionStatus = Literal["True", "False", "Unknown"]

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
PAUSED = "Paused"

_MESSAGE_CHARACTERS_MAX = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition; `last_transition_time` is RFC 3339 in UTC with seconds, empty until merged."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""

    def to_manifest(self) -> dict[str, Any]:
        """The condition as it stands in a status."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message[:_MESSAGE_CHARACTERS_MAX],
            "observedGeneration": self.observed_generation,
            "lastTransitionTime": self.last_transition_time,
        }


def from_manifest(found: Mapping[str, Any]) -> Condition:
    """A condition that was read from a status."""
    return Condition(
        type=str(found.get("type", "")),
        status=found.get("status", "Unknown"),
        reason=str(found.get("reason", "")),
        message=str(found.get("message", "")),
        observed_generation=int(found.get("observedGeneration", 0)),
        last_transition_time=str(found.get("lastTransitionTime", "")),
    )


def merged(
    old: Sequence[Condition], new: Iterable[Condition], now: datetime
) -> tuple[Condition, ...]:
    """The new conditions sorted by type; those whose status is as before keep their time."""
    times = {
        condition.type: condition.last_transition_time
        for condition in old
        if condition.last_transition_time
    }
    statuses = {condition.type: condition.status for condition in old}
    return tuple(
        replace(
            condition,
            last_transition_time=times[condition.type]
            if statuses.get(condition.type) == condition.status and condition.type in times
            else timestamp(now),
        )
        for condition in sorted(new, key=lambda condition: condition.type)
    )


def merged_manifests(
    old_status: Mapping[str, Any] | None, new: Iterable[Condition], now: datetime
) -> list[dict[str, Any]]:
    """The `conditions` of a status that follows `old_status`."""
    old = [from_manifest(found) for found in (old_status or {}).get("conditions") or ()]
    return [condition.to_manifest() for condition in merged(old, new, now)]


def ready(reason: str, message: str = "", *, generation: int = 0) -> tuple[Condition, ...]:
    """It is as declared."""
    return (_condition(READY, "True", reason, message, generation),)


def reconciling(reason: str, message: str = "", *, generation: int = 0) -> tuple[Condition, ...]:
    """It is on its way."""
    return (
        _condition(READY, "False", reason, message, generation),
        _condition(RECONCILING, "True", reason, message, generation),
    )


def stalled(reason: str, message: str = "", *, generation: int = 0) -> tuple[Condition, ...]:
    """It will not become ready by itself."""
    return (
        _condition(READY, "False", reason, message, generation),
        _condition(STALLED, "True", reason, message, generation),
    )


def with_progressing(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """The conditions, of which one is Ready, and Progressing."""
    (verdict,) = (one for one in conditions if one.type == READY)
    is_moving = any(one.type == RECONCILING and one.status == "True" for one in conditions)
    progressing = replace(verdict, type=PROGRESSING, status="True" if is_moving else "False")
    return (*conditions, progressing)


def holding(type_: str, reason: str, message: str, *, generation: int = 0) -> Condition:
    """Something that is so, and is not told while it is not."""
    return _condition(type_, "True", reason, message, generation)


def timestamp(moment: datetime) -> str:
    """The moment as Kubernetes writes times: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(
    type_: str, status: ConditionStatus, reason: str, message: str, generation: int
) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
    )
