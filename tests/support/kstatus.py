"""How tools read a resource's status: Flux, `kubectl wait` and Argo CD.

`kstatus` and `kubectl_waits` follow what those programs do, `argo_health` runs the script that the
chart has for Argo CD.

Sources: kubernetes-sigs/cli-utils, pkg/kstatus/status (checkGenericProperties);
kubectl/pkg/cmd/wait/condition.go; Argo CD's guide to custom health checks.
"""

from pathlib import Path
from typing import Any

import lupa.lua54

HEALTH_SCRIPT = Path(__file__).resolve().parents[2] / "charts/barnabas/files/argocd_health.lua"


def kstatus(resource: dict[str, Any]) -> str:
    """Terminating, InProgress, Failed or Current; what says nothing is Current."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata["generation"]:
        return "InProgress"
    told = _statuses(status)
    if told.get("Reconciling") == "True":
        return "InProgress"
    if told.get("Stalled") == "True":
        return "Failed"
    return "InProgress" if told.get("Ready", "True") != "True" else "Current"


def kubectl_waits(resource: dict[str, Any], condition: str = "Ready") -> bool:
    """Whether `kubectl wait --for=condition=...` goes on waiting."""
    for one in (resource.get("status") or {}).get("conditions") or ():
        if one["type"] == condition:
            is_old = one["observedGeneration"] < resource["metadata"]["generation"]
            return is_old or one["status"] != "True"
    return True


def argo_health(resource: dict[str, Any]) -> tuple[str, str]:
    """Argo CD's health status and message of a resource."""
    runtime = lupa.lua54.LuaRuntime(register_eval=False, attribute_filter=_nothing)
    runtime.globals().obj = runtime.table_from(resource, recursive=True)
    told = runtime.execute(HEALTH_SCRIPT.read_text(encoding="utf-8"))
    return str(told["status"]), str(told["message"])


def _statuses(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status.get("conditions") or ()}


def _nothing(owner: object, name: str, is_setting: bool) -> str:
    raise AttributeError(name)
