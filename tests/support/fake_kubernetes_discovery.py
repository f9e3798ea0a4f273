"""What the fake API server says that it serves, and which objects a request means."""

from collections import defaultdict
from collections.abc import Callable

from aiohttp import web

from barnabas_operator.kubernetes.kinds import Kind
from tests.support.fake_kubernetes_store import SERVED, WITH_STATUS, Manifest, has_fields


def discovery(path: str) -> Manifest | None:
    """The document at a path of discovery, None for other paths."""
    groups: dict[str, set[str]] = defaultdict(set)
    for kind in SERVED:
        groups[kind.group].add(kind.version)
    if path == "/version":
        return {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "groups": [_group(group, versions) for group, versions in groups.items() if group],
        }
    kinds = [
        kind for kind in SERVED if path in (f"/api/{kind.api_version}", f"/apis/{kind.api_version}")
    ]
    if not kinds:
        return None
    return {
        "kind": "APIResourceList",
        "groupVersion": kinds[0].api_version,
        "resources": [
            resource
            for kind in kinds
            for resource in (
                _resource(kind, ""),
                *([_resource(kind, "/status")] if kind in WITH_STATUS else ()),
            )
        ],
    }


def _group(group: str, versions: set[str]) -> Manifest:
    served = [{"groupVersion": f"{group}/{one}", "version": one} for one in sorted(versions)]
    return {"name": group, "versions": served, "preferredVersion": served[0]}


def _resource(kind: Kind, sub: str) -> Manifest:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return {
        "name": kind.plural + sub,
        "singularName": kind.kind.lower(),
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"] if sub else verbs,
    }


def selector(request: web.Request) -> Callable[[Manifest], bool]:
    """What labelSelector (`a=b`, `a`) and fieldSelector (`metadata.name=x,type=y`) let through."""
    labels = [term for term in request.query.get("labelSelector", "").split(",") if term]
    fields = request.query.get("fieldSelector", "")

    def matches(one: Manifest) -> bool:
        found = one["metadata"].get("labels") or {}
        for term in labels:
            key, equals, value = term.partition("=")
            if key not in found or (equals and found[key] != value.lstrip("=")):
                return False
        return has_fields(one, fields)

    return matches
