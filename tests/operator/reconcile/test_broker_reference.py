"""Which Broker a resource belongs to."""

from typing import Any

import pytest

from barnabas_operator.reconcile.broker_reference import admits, broker_of

BROKERS = [("one", "only"), ("two", "first"), ("two", "second")]


def topic(own_namespace: str, **reference: str) -> dict[str, Any]:
    spec = {"brokerRef": reference} if reference else {}
    return {"metadata": {"namespace": own_namespace}, "spec": spec}


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        (topic("one"), ("one", "only")),
        (topic("two"), ("two", "")),
        (topic("none"), ("none", "")),
        (topic("one", name="other"), ("one", "other")),
        (topic("none", name="only", namespace="one"), ("one", "only")),
        # What the status names decides among several, not whether there is one.
        ({**topic("two"), "status": {"broker": "first"}}, ("two", "first")),
        ({**topic("two"), "status": {"broker": "gone"}}, ("two", "")),
        ({**topic("one"), "status": {"broker": "gone"}}, ("one", "only")),
    ],
)
def test_a_reference_means_one_broker_or_none(
    manifest: dict[str, Any], place: tuple[str, str]
) -> None:
    """operator.md 1: it may be left out where the namespace holds exactly one."""
    assert broker_of(manifest, BROKERS) == place


@pytest.mark.parametrize(
    ("allowed", "namespace", "expected"),
    [
        (None, "any", False),
        (None, "home", True),
        ("*", "any", True),
        ("a, b", "b", True),
        ("a, b", "c", False),
        ("", "c", False),
        ("", "home", True),
    ],
)
def test_a_broker_takes_resources_of_the_namespaces_that_it_names(
    allowed: str | None, namespace: str, expected: bool
) -> None:
    """Row 8 of the findings: by default any namespace could delete any topic of any cluster."""
    annotations = {} if allowed is None else {"barnabas.dev/allowed-namespaces": allowed}
    broker = {"metadata": {"namespace": "home", "name": "demo", "annotations": annotations}}
    assert admits(broker, namespace) is expected
