"""When the finalizer of a User is removed. Pure.

Every User that was admitted has one: its deletion takes credential, rights and quotas away from the
brokers (SEC-84). Like that of Topics it never waits for brokers that are gone for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_operator.kubernetes.objects import finalizers_of, resource_version_of

FINALIZER = "barnabas.dev/user"


def has_finalizer(manifest: Mapping[str, Any]) -> bool:
    """Whether the User was admitted once, so that brokers may have something of it."""
    return FINALIZER in finalizers_of(manifest)


def finalizer_patch(manifest: Mapping[str, Any], *, is_wanted: bool) -> dict[str, Any]:
    """The merge patch, on this very version: finalizers of others must not be lost."""
    others = [one for one in finalizers_of(manifest) if one != FINALIZER]
    wanted = [*others, FINALIZER] if is_wanted else others
    return {
        "metadata": {
            "resourceVersion": resource_version_of(manifest),
            "finalizers": wanted or None,
        }
    }


def let_go_because(
    *, is_broker_gone: bool, unreachable_seconds: float, going_seconds: float, patience: float
) -> str:
    """Why a User goes although brokers may still have something of it; empty: it has to wait."""
    if is_broker_gone:
        return "there is no Broker that could know the user"
    if unreachable_seconds > patience:
        return f"no broker has answered for {patience:.0f} s; what they have of the user stays"
    if going_seconds > patience:
        return f"it could not be removed for {patience:.0f} s; what brokers have of it stays"
    return ""
