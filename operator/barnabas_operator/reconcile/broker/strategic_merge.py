"""What a manifest adds to a pod, merged into what the operator renders. Pure.

By the rules of Kubernetes' strategic merge, as `kubectl patch` follows them: mappings merge field
by field, a field that is null goes; lists whose items have a key there merge by it, what is new
comes last; other lists, and values, are replaced. Directives (`$patch`) are not understood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# The lists of a PodSpec that merge, and the keys of their items.
_MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the patch over it; neither is changed."""
    result = dict(base)
    for field, value in patch.items():
        there = base.get(field)
        if value is None:
            result.pop(field, None)
        elif isinstance(value, Mapping):
            result[field] = merged(there if isinstance(there, Mapping) else {}, value)
        elif field in _MERGE_KEYS:
            result[field] = _merged_items(there or (), value, _MERGE_KEYS[field])
        else:
            result[field] = value
    return result


def _merged_items(
    base: Sequence[Mapping[str, Any]], patch: Sequence[Mapping[str, Any]], key: str
) -> list[dict[str, Any]]:
    items = {item[key]: dict(item) for item in base}
    for item in patch:
        items[item[key]] = merged(items.get(item[key], {}), item)
    return list(items.values())
