"""What a manifest adds to a pod is merged as `kubectl patch` would merge it."""

from typing import Any

import pytest

from barnabas_operator.reconcile.broker.strategic_merge import merged

BASE = {
    "securityContext": {"runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{"name": "broker", "image": "a", "env": [{"name": "X", "value": "1"}]}],
    "command": ["a", "b"],
}


@pytest.mark.parametrize(
    ("patch", "field", "expected"),
    [
        ({}, "command", ["a", "b"]),
        ({"command": ["c"]}, "command", ["c"]),
        ({"command": None}, "command", None),
        ({"hostAliases": [{"ip": "10.0.0.1"}]}, "hostAliases", [{"ip": "10.0.0.1"}]),
        (
            {"securityContext": {"runAsUser": None, "fsGroup": 5}},
            "securityContext",
            {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 5},
        ),
        (
            {"containers": [{"name": "proxy", "image": "p"}]},
            "containers",
            [BASE["containers"][0], {"name": "proxy", "image": "p"}],  # type: ignore[index]
        ),
        (
            {"containers": [{"name": "broker", "env": [{"name": "Y", "value": "2"}]}]},
            "containers",
            [
                {
                    "name": "broker",
                    "image": "a",
                    "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                }
            ],
        ),
    ],
)
def test_each_field_is_merged_by_its_rule(patch: dict[str, Any], field: str, expected: Any) -> None:
    """Issue 17: users know the rules from their PodTemplateSpecs."""
    before = repr(BASE)
    assert merged(BASE, patch).get(field) == expected
    assert repr(BASE) == before
