"""Which Broker a Topic or ConsumerGroup belongs to. Pure.

Source: `brokerRef` of the CRDs. It names a Broker, in the resource's own namespace unless it says
otherwise; left out, it means the only Broker of that namespace. Of several it means the one that
the status names, if that is among them: brokers have something of the resource that has to be
taken away some time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from barnabas_operator.kubernetes.objects import (
    annotations_of,
    generation_of,
    is_going,
    namespace_of,
    uid_of,
)

# Other namespaces whose resources a Broker takes, separated by commas; `*` means all of them.
ALLOWED_NAMESPACES_ANNOTATION = "barnabas.dev/allowed-namespaces"

NamespacedName = tuple[str, str]


def broker_of(manifest: Mapping[str, Any], brokers: Collection[NamespacedName]) -> NamespacedName:
    """Namespace and name of the Broker; the name is empty where there is none or no only one.

    A Broker that is named need not exist.
    """
    reference = (manifest.get("spec") or {}).get("brokerRef") or {}
    own = namespace_of(manifest)
    namespace = str(reference.get("namespace") or own)
    name = str(reference.get("name") or "")
    if not name:
        there = [broker for where, broker in brokers if where == namespace]
        name = there[0] if len(there) == 1 else _noted(manifest, there)
    return namespace, name


def _noted(manifest: Mapping[str, Any], there: Collection[str]) -> str:
    name = str((manifest.get("status") or {}).get("broker") or "")
    return name if name in there else ""


def admits(broker: Mapping[str, Any], namespace: str) -> bool:
    """Whether the Broker takes resources of this namespace; its own one always."""
    text = annotations_of(broker).get(ALLOWED_NAMESPACES_ANNOTATION, "")
    allowed = {name.strip() for name in text.split(",")}
    return namespace == namespace_of(broker) or "*" in allowed or namespace in allowed


def what_resources_see(broker: Mapping[str, Any]) -> tuple[Any, ...]:
    """All of a Broker that matters to what belongs to it, not its ever-changing status."""
    status = broker.get("status") or {}
    ready = [one.get("status") for one in status.get("conditions") or () if _is_readiness(one)]
    security = status.get("security") or {}
    # What clients are to trust changes with each step, and has to reach their pods in time.
    steps = [(one.get("name"), one.get("step")) for one in security.get("authorities") or ()]
    return (
        uid_of(broker),
        generation_of(broker),
        is_going(broker),
        dict(annotations_of(broker)),
        ready,
        security.get("phase"),
        steps,
    )


def _is_readiness(condition: Mapping[str, Any]) -> bool:
    return bool(condition.get("type") == "Ready")
