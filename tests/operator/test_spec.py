"""What a Topic manifest asks for."""

from typing import Any

import pytest

from barnabas_operator.crd import problems
from barnabas_operator.spec import DeletionPolicy, DriftPolicy, SpecError, TopicSpec


def manifest(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "orders", **metadata}, "spec": spec}


def test_what_is_left_out_is_left_to_the_broker_and_nothing_is_deleted() -> None:
    """operator.md 2: Retain by default; a missing number is not managed."""
    spec = TopicSpec.from_manifest(manifest({}))
    assert spec == TopicSpec(
        resource="orders", topic="orders", age=("", 0, "orders"), is_adopted=True
    )
    assert (spec.partitions, spec.replicas) == (None, None)
    assert spec.deletion_policy is DeletionPolicy.RETAIN
    assert spec.drift_policy is DriftPolicy.WARN


def test_settings_become_the_text_that_a_broker_takes() -> None:
    """Manifests may write numbers and booleans without quotes; null hands a setting over."""
    spec = TopicSpec.from_manifest(
        manifest(
            {
                "config": {
                    "retention.ms": 86400000,
                    "min.cleanable.dirty.ratio": 0.2,
                    "preallocate": False,
                    "cleanup.policy": ["compact", "delete"],
                    "segment.bytes": 1e9,
                    "compression.type": "zstd",
                    "max.message.bytes": None,
                }
            }
        )
    )
    assert dict(spec.config) == {
        "retention.ms": "86400000",
        "min.cleanable.dirty.ratio": "0.2",
        "preallocate": "false",
        "cleanup.policy": "compact,delete",
        "segment.bytes": "1000000000",
        "compression.type": "zstd",
        "max.message.bytes": None,
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"config": {"retention.ms": {"days": 3}}}, "spec.config.retention.ms: must be"),
        ({"topicName": ".."}, "spec.topicName: a topic cannot be named"),
    ],
)
def test_what_the_schema_cannot_refuse_is_refused_here(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words.replace(".", r"\.")):
        TopicSpec.from_manifest(manifest(spec))


def test_resources_are_ordered_by_when_they_were_made() -> None:
    """operator.md 2: the oldest of two resources wins; files are as old as their place."""
    old = TopicSpec.from_manifest(manifest({}, creationTimestamp="2026-01-01T00:00:00Z"), 7)
    new = TopicSpec.from_manifest(manifest({}, creationTimestamp="2026-01-02T00:00:00Z"), 1)
    assert old.age < new.age
    assert (
        TopicSpec.from_manifest(manifest({}), 1).age < TopicSpec.from_manifest(manifest({}), 2).age
    )


def test_a_namespace_is_part_of_the_resource_and_the_broker_s_default() -> None:
    spec = TopicSpec.from_manifest(manifest({"brokerRef": {"name": "main"}}, namespace="shop"))
    assert (spec.resource, spec.broker, spec.broker_namespace) == ("shop/orders", "main", "shop")


def test_settings_are_handed_over_by_a_list_that_client_side_apply_keeps() -> None:
    """Row 14 of the findings: `config: {key: null}` is stored as `{}` by `kubectl apply`."""
    asked = {"unmanagedConfig": ["retention.ms", "segment.ms"], "config": {"segment.ms": 1}}
    declared = {"apiVersion": "barnabas.dev/v1alpha1", "kind": "Topic", **manifest(asked)}
    assert problems(declared) == []
    spec = TopicSpec.from_manifest(manifest(asked))
    assert dict(spec.config) == {"retention.ms": None, "segment.ms": "1"}
