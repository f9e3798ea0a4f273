"""The Topic CRD: what it refuses, and that it is a structural schema that Kubernetes takes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas_operator.crd import definition, problems
from barnabas_operator.spec import DeletionPolicy, DriftPolicy
from tests.operator.schema_nodes import nodes

ROOT = Path(__file__).resolve().parents[2]


def topic(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "orders"},
        "spec": spec,
    }


def schema() -> dict[str, Any]:
    (version,) = definition("Topic")["spec"]["versions"]
    loaded: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return loaded


def test_a_complete_manifest_is_accepted() -> None:
    manifest = topic(
        brokerRef={"name": "main", "namespace": "kafka"},
        topicName="Orders_1",
        partitions=12,
        replicas=3,
        config={"retention.ms": 1, "cleanup.policy": "compact", "x": None, "y": 0.5, "z": True},
        deletionPolicy="Delete",
        driftPolicy="Revert",
        paused=False,
    )
    assert problems(manifest) == []


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (topic(partition=3), "spec.partition: unknown field, did you mean 'partitions'?"),
        (topic(partitions=0), "spec.partitions: must be at least 1"),
        (topic(partitions="3"), "spec.partitions: must be of type integer, not '3'"),
        (topic(replicas=32768), "spec.replicas: must be at most 32767"),
        (
            topic(driftPolicy="warn"),
            "spec.driftPolicy: 'warn' is not 'Revert' or 'Warn' or 'Adopt', did you mean 'Warn'?",
        ),
        (topic(topicName="a b"), "spec.topicName: 'a b' has characters that a name cannot have"),
        (topic(brokerRef={}), "spec.brokerRef: 'name' is missing"),
        ({"kind": "Topc"}, "kind: 'Topc' is none of Topic"),
        (
            topic() | {"metadata": {"name": "a", "label": {}}},
            "metadata.label: unknown field, did you mean 'labels'?",
        ),
        (topic() | {"apiVersion": "barnabas.dev/v1"}, "apiVersion: 'barnabas.dev/v1' is not"),
        (topic() | {"metadata": {"name": "Orders"}}, "metadata.name: 'Orders' has characters"),
    ],
)
def test_each_mistake_is_told_with_its_field_and_the_nearest_name(
    manifest: dict[str, Any], expected: str
) -> None:
    """Issue 4: manifests are checked by the schema that Kubernetes would check them by."""
    (problem,) = problems(manifest)
    assert str(problem).startswith(expected)


def test_all_mistakes_are_told_at_once() -> None:
    found = problems({"kind": "Topic", "metadata": {}, "spec": {"paused": 1, "x": 1}})
    assert [str(problem) for problem in found] == [
        "'apiVersion' is missing",
        "metadata: 'name' is missing",
        "spec.paused: must be of type boolean, not 1",
        "spec.x: unknown field",
    ]


def test_the_crd_names_what_the_reference_asks_for() -> None:
    """operator.md 1: group, version, short name, category, status, columns of the live truth."""
    crd = definition("Topic")
    assert crd["metadata"]["name"] == "topics.barnabas.dev"
    assert crd["spec"]["names"]["shortNames"] == ["bt"]
    assert crd["spec"]["names"]["categories"] == ["barnabas"]
    (version,) = crd["spec"]["versions"]
    assert version["name"] == "v1alpha1"
    assert version["subresources"] == {"status": {}}
    columns = " ".join(column["name"].upper() for column in version["additionalPrinterColumns"])
    assert columns == "BROKER PARTITIONS REPLICAS LEADERS URP SIZE MSG/S DRIFT READY AGE"


def test_defaults_and_choices_are_those_of_the_spec() -> None:
    """The API server's defaults and ours must mean the same (style.md 7: CRDs against spec.py)."""
    fields = schema()["properties"]["spec"]["properties"]
    assert fields["deletionPolicy"]["enum"] == list(DeletionPolicy)
    assert fields["deletionPolicy"]["default"] == DeletionPolicy.RETAIN
    assert fields["driftPolicy"]["enum"] == list(DriftPolicy)
    assert fields["driftPolicy"]["default"] == DriftPolicy.WARN


def test_changes_that_cannot_be_made_are_refused_by_rules() -> None:
    """operator.md 2: immutable topicName, no partition decrease."""
    rules = [rule["rule"] for rule in schema()["properties"]["spec"]["x-kubernetes-validations"]]
    assert any("self.topicName == oldSelf.topicName" in rule for rule in rules)
    assert any("self.partitions >= oldSelf.partitions" in rule for rule in rules)


def test_the_schema_is_structural() -> None:
    """Kubernetes refuses a field without a type, and both properties and additionalProperties."""
    for part in nodes(schema()):
        assert "type" in part or part.get("x-kubernetes-preserve-unknown-fields"), part
        assert not ("properties" in part and "additionalProperties" in part)


def test_the_crd_folder_and_the_package_hold_the_same_files() -> None:
    """`kubectl apply -f crds/` and an installed wheel must not differ."""
    for path in (ROOT / "crds").glob("*.yaml"):
        kind = yaml.safe_load(path.read_text())["spec"]["names"]["kind"]
        assert definition(kind) == yaml.safe_load(path.read_text())
