"""AdmissionReviews of evictions, as the API server sends them and wants them answered. Pure.

Source: `admission.k8s.io/v1`; an eviction is the creation of the subresource `pods/eviction`. A
refusal has the code 429, upon which `kubectl drain` and others ask again later; any other one ends
their work. A dry run may be asked for by the request or, as `kubectl drain` does, by the options of
the deletion in the eviction itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

API_VERSION = "admission.k8s.io/v1"
_TOO_MANY_REQUESTS = 429


class ReviewError(ValueError):
    """What came is no AdmissionReview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionReview:
    """One eviction; `grace_period_seconds` is None where the pod's own one holds."""

    uid: str
    namespace: str
    pod: str
    is_dry_run: bool = False
    grace_period_seconds: int | None = None


def read_review(document: Any) -> EvictionReview | None:
    """The eviction that is asked about, None if something else is. Raises: ReviewError."""
    try:
        request = document["request"]
        uid = str(request["uid"])
        resource, sub = request["resource"]["resource"], request.get("subResource")
        if (resource, sub, request["operation"]) != ("pods", "eviction", "CREATE"):
            return None
        options: Mapping[str, Any] = (request.get("object") or {}).get("deleteOptions") or {}
        grace = options.get("gracePeriodSeconds")
        return EvictionReview(
            uid=uid,
            namespace=str(request["namespace"]),
            pod=str(request["name"]),
            is_dry_run=bool(request.get("dryRun")) or "All" in (options.get("dryRun") or ()),
            grace_period_seconds=None if grace is None else int(grace),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ReviewError(f"no AdmissionReview: {error!r}") from error


def uid_of_request(document: Any) -> str:
    """By which the API server knows its request again, empty where there is none."""
    try:
        return str(document["request"]["uid"])
    except (KeyError, TypeError):
        return ""


def let_through(uid: str, *warnings: str) -> dict[str, Any]:
    """The answer that lets an eviction go on; who asked is shown the warnings."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    return _answer(response)


def refused(uid: str, message: str) -> dict[str, Any]:
    """The answer that makes who evicts ask again later."""
    status = {
        "status": "Failure",
        "reason": "TooManyRequests",
        "code": _TOO_MANY_REQUESTS,
        "message": message,
    }
    return _answer({"uid": uid, "allowed": False, "status": status})


def _answer(response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
