"""When our finalizer is added to a Topic, and when it is removed. Pure.

A finalizer holds up the deletion of its resource, and with it that of a namespace, so it is there
for one purpose only: to delete the topic of a resource with deletionPolicy Delete. It is removed as
soon as that is done or has become pointless, and never waits for an operator that waits itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from barnabas_operator.kubernetes.objects import finalizers_of, is_going, resource_version_of
from barnabas_operator.spec import DeletionPolicy, TopicSpec

FINALIZER = "barnabas.dev/topic"


class FinalizerChange(Enum):
    """What to do about the finalizer."""

    NONE = auto()
    ADD = auto()
    REMOVE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizerRemoval:
    """That the finalizer may be removed; `reason` and `message` are for its event."""

    reason: str
    message: str


def finalizer_change(manifest: Mapping[str, Any], spec: TopicSpec) -> FinalizerChange:
    """For a resource that stays: the finalizer goes with the deletion policy."""
    has_it = FINALIZER in finalizers_of(manifest)
    wants_it = spec.deletion_policy is DeletionPolicy.DELETE
    if is_going(manifest) or has_it == wants_it:
        return FinalizerChange.NONE
    return FinalizerChange.ADD if wants_it else FinalizerChange.REMOVE


def removal_without_cluster(
    *,
    is_broker_gone: bool,
    is_namespace_going: bool,
    unreachable_seconds: float,
    patience_seconds: float,
    going_seconds: float = 0,
    error: str = "",
) -> FinalizerRemoval | None:
    """For a resource on its way out whose topic cannot be deleted now; None: it has to wait.

    `going_seconds` is how long ago it was deleted, `error` what the brokers said the last time.
    """
    if is_broker_gone:
        return FinalizerRemoval(
            reason="BrokerGone", message="there is no Broker that could have the topic"
        )
    if is_namespace_going:
        return FinalizerRemoval(
            reason="NamespaceTerminating",
            message="the namespace is being deleted and must not wait; the topic is left alone",
        )
    if unreachable_seconds > patience_seconds:
        return FinalizerRemoval(
            reason="BrokersUnreachable",
            message=f"no broker has answered for {patience_seconds:.0f} s; the topic is left alone",
        )
    if going_seconds > patience_seconds:
        return FinalizerRemoval(
            reason="TopicNotDeleted",
            message=f"the topic could not be deleted for {patience_seconds:.0f} s and is left"
            f" alone: {error or 'the brokers do not answer'}",
        )
    return None


def going_seconds(manifest: Mapping[str, Any], now: datetime) -> float:
    """How long ago a resource was deleted, 0 for one that stays."""
    deleted = (manifest.get("metadata") or {}).get("deletionTimestamp")
    return (now - datetime.fromisoformat(str(deleted))).total_seconds() if deleted else 0.0


def finalizer_patch(manifest: Mapping[str, Any], change: FinalizerChange) -> dict[str, Any]:
    """The merge patch that does it, on this very version: finalizers of others must not be lost."""
    others = [one for one in finalizers_of(manifest) if one != FINALIZER]
    wanted = [*others, FINALIZER] if change is FinalizerChange.ADD else others
    return {
        "metadata": {
            "resourceVersion": resource_version_of(manifest),
            "finalizers": wanted or None,
        }
    }
