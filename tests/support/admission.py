"""What an API server does with a webhook: asks it about an eviction, and ignores its silence."""

import ssl
import uuid
from typing import Any

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=5)


def eviction_review(
    namespace: str, pod: str, eviction: dict[str, Any] | None = None, *, is_dry_run: bool = False
) -> dict[str, Any]:
    """The AdmissionReview of an eviction, as Kubernetes 1.33 sends it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "eviction",
            "name": pod,
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "tests"},
            "object": eviction or {},
            "oldObject": None,
            "dryRun": is_dry_run,
            "options": None,
        },
    }


async def asked_about_eviction(
    url: str, trust: ssl.SSLContext, namespace: str, pod: str, eviction: dict[str, Any]
) -> tuple[dict[str, Any] | None, list[str]]:
    """The Status of a refusal, None where the eviction goes on; and the warnings."""
    review = eviction_review(namespace, pod, eviction)
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.post(url, json=review, ssl=trust) as answer,
        ):
            answer.raise_for_status()
            response = (await answer.json())["response"]
    except (aiohttp.ClientError, TimeoutError):
        return None, []
    assert response["uid"] == review["request"]["uid"]
    status: dict[str, Any] | None = None if response["allowed"] else response["status"]
    return status, response.get("warnings") or []


def webhook_rules() -> dict[str, Any]:
    """What the chart has the API server ask about, and how; without where."""
    return {
        "name": "evictions.barnabas.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods/eviction"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "matchConditions": [
            {"name": "may-be-a-broker", "expression": "request.name.matches('-[0-9]+$')"}
        ],
    }
