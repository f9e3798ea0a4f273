"""All that is read of Kubernetes at once: our resources, the brokers' pods, events about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas_console.kubernetes.api_reader import CORE, GROUP, ApiReader, Objects
from barnabas_console.kubernetes.resource_rows import (
    broker_row,
    event_rows,
    group_row,
    pod_row,
    topic_row,
    user_row,
)

_BROKER_PODS: Final = {
    "labelSelector": "app.kubernetes.io/name=barnabas,app.kubernetes.io/component=broker"
}
_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "brokers": broker_row,
    "topics": topic_row,
    "consumergroups": group_row,
    "users": user_row,
}


async def read_objects(reader: ApiReader) -> dict[str, Any]:
    """The rows of a page; events about others' objects are left out. Raises: KubernetesError."""
    where = reader.scope
    *ours, pods, events = await asyncio.gather(
        *(reader.list(f"{GROUP}{where}/{kind}") for kind in _KINDS),
        reader.list(f"{CORE}{where}/pods", _BROKER_PODS),
        reader.list(f"{CORE}{where}/events"),
    )
    rows = {
        kind: _rows(objects, row_of)
        for (kind, row_of), objects in zip(_KINDS.items(), ours, strict=True)
    }
    names = _names(rows, pods)
    about = [one for one in events.items if _is_about(one, names)]
    return {
        "namespace": reader.namespace,
        **rows,
        "pods": _rows(pods, pod_row),
        "events": event_rows(about),
    }


def _rows(
    objects: Objects, row_of: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    return {"rows": [row_of(one) for one in objects.items], "is_whole": objects.is_whole}


def _names(rows: Mapping[str, Any], pods: Objects) -> set[tuple[object, object]]:
    """Namespace and name of everything that events may be about."""
    found = {(row["namespace"], row["name"]) for kind in rows.values() for row in kind["rows"]}
    for pod in pods.items:
        metadata = pod.get("metadata") or {}
        found.add((metadata.get("namespace"), metadata.get("name")))
    return found


def _is_about(event: Mapping[str, Any], names: set[tuple[object, object]]) -> bool:
    about = event.get("involvedObject") or {}
    return (about.get("namespace"), about.get("name")) in names
