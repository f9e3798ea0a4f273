"""Manifests of Users for tests."""

from typing import Any

COMPLETE: dict[str, Any] = {
    "apiVersion": "barnabas.dev/v1alpha1",
    "kind": "User",
    "metadata": {"name": "billing", "namespace": "kafka"},
    "spec": {
        "brokerRef": {"name": "demo", "namespace": "kafka"},
        "userName": "Billing_2",
        "authentication": {
            "type": "scram-sha-512",
            "rotation": {"every": "30d", "overlap": "12h"},
        },
        "authorization": {
            "acls": [
                {
                    "resource": {"type": "topic", "name": "orders.", "patternType": "prefix"},
                    "operations": ["Read", "Describe"],
                },
                {
                    "resource": {"type": "topic", "name": "orders.secret"},
                    "operations": ["Read"],
                    "permission": "Deny",
                    "host": "10.0.0.0/8",
                },
                {"resource": {"type": "cluster"}, "operations": ["IdempotentWrite"]},
            ]
        },
        "quotas": {
            "producerByteRate": 1048576,
            "consumerByteRate": 2097152,
            "requestPercentage": 50,
            "controllerMutationRate": 10,
        },
        "connectionSecret": {"name": "billing-kafka", "mountPath": "/kafka"},
        "driftPolicy": "Warn",
        "paused": True,
    },
}


def user(
    name: str = "alice",
    namespace: str = "kafka",
    *,
    auth: dict[str, Any] | str = "none",
    **spec: Any,
) -> dict[str, Any]:
    """A User of the Broker `demo` in `kafka`."""
    authentication = {"type": auth} if isinstance(auth, str) else auth
    return {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "User",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "brokerRef": {"name": "demo", "namespace": "kafka"},
            "authentication": authentication,
            **spec,
        },
    }


def rights(*prefixes: str, operation: str = "Read", **fields: Any) -> dict[str, Any]:
    """Rights on topics whose names begin so."""
    acls = [
        {
            "resource": {"type": "topic", "name": prefix, "patternType": "prefix"},
            "operations": [operation],
            **fields,
        }
        for prefix in prefixes
    ]
    return {"acls": acls}
