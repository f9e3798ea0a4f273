"""Writes a status only when it differs, which is what keeps an idle operator from writing at all.

Invariant: `status` is the whole status. What it leaves out is removed; None counts as left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_operator.kubernetes.api import KubernetesApi, Object


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes `after` of `before`, empty when they say the same.

    Lists are replaced whole. Source: RFC 7386.
    """
    patch: dict[str, Any] = {key: None for key in before if after.get(key) is None}
    for key, value in after.items():
        if value is None or before.get(key) == value:
            continue
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = merge_patch(old, value)
            if inner:
                patch[key] = inner
        else:
            patch[key] = _without_nulls(value)
    return patch


async def write_status(
    api: KubernetesApi, manifest: Object, status: Mapping[str, Any]
) -> Object | None:
    """The object after its status was written, None when it already says so.

    Raises: ConflictError if the object has changed since `manifest` was read; KubernetesError.
    """
    patch = merge_patch(manifest.get("status") or {}, status)
    return await api.patch_status(manifest, patch) if patch else None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
