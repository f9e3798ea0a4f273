"""The manifests of examples/, by the definitions of those who read them.

KEDA's and Argo CD's are from github.com/kedacore/keda at 8b4f083ca8c8 and
github.com/argoproj/argo-cd at 37ee0097cf85 (both Apache-2.0): the schemas of their specs without
descriptions, and of Argo CD's without the kinds of sources that no example has.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from barnabas_operator.crd import problems
from charts import generate
from tests.support.kstatus import HEALTH_SCRIPT
from tests.support.lab_programs import lab_program

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
OURS = "barnabas.dev/v1alpha1"
FILES = [
    path
    for path in sorted(EXAMPLES.rglob("*.yaml"))
    if path.parent.name not in ("compose", "spark") and path.name != "kustomization.yaml"
]


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def closed(schema: Any) -> Any:
    """The schema, with fields that it does not have refused."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


def foreign(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(closed(schema))


def test_there_is_one_of_each_of_our_kinds() -> None:
    found = {one["kind"] for path in FILES for one in documents(path) if one["apiVersion"] == OURS}
    assert found == {"Broker", "Topic", "ConsumerGroup", "User"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_a_manifest_is_one_by_its_definition(path: Path) -> None:
    for document in documents(path):
        match document["apiVersion"], document["kind"]:
            case "barnabas.dev/v1alpha1", _:
                assert problems(document) == []
            case "keda.sh/v1alpha1", "ScaledObject":
                foreign("keda-scaledobject-spec").validate(document["spec"])
            case "argoproj.io/v1alpha1", "Application":
                foreign("argocd-application-spec").validate(document["spec"])
            case "v1", "ConfigMap":
                assert set(document) == {"apiVersion", "kind", "metadata", "data"}
            case other:
                raise AssertionError(f"nothing is known of {other}")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (
            "keda-scaledobject-spec",
            {"scaleTargetRef": {"name": "x"}, "triggers": [{"typ": "kafka"}]},
        ),
        (
            "argocd-application-spec",
            {"project": "default", "destination": {"server": "x"}, "sync": 1},
        ),
    ],
)
def test_what_is_mistyped_is_refused(name: str, wrong: dict[str, Any]) -> None:
    """The schemas do not take everything."""
    with pytest.raises(jsonschema.ValidationError):
        foreign(name).validate(wrong)


def test_values_for_argo_cd_are_values_of_the_chart() -> None:
    (application,) = documents(EXAMPLES / "argocd" / "application.yaml")
    source = application["spec"]["source"]
    assert (EXAMPLES.parent / source["path"] / "Chart.yaml").exists()
    values = source["helm"]["valuesObject"]
    jsonschema.Draft7Validator(generate.schema()).validate(values)


def test_argo_cd_gets_the_script_that_the_chart_has() -> None:
    """What decides there is what tests of the operator run."""
    (config,) = documents(EXAMPLES / "argocd" / "argocd-cm.yaml")
    customizations = yaml.safe_load(config["data"]["resource.customizations"])
    script = customizations["barnabas.dev/*"]["health.lua"]
    assert script == HEALTH_SCRIPT.read_text(encoding="utf-8")


def test_keda_watches_the_group_and_topic_of_the_other_examples() -> None:
    (scaled,) = documents(EXAMPLES / "keda" / "scaled-object.yaml")
    (trigger,) = scaled["spec"]["triggers"]
    (topic,) = documents(EXAMPLES / "manifests" / "topic.yaml")
    (group,) = documents(EXAMPLES / "manifests" / "group.yaml")
    (broker,) = documents(EXAMPLES / "manifests" / "broker.yaml")
    place = f"{broker['metadata']['name']}-bootstrap.{broker['metadata']['namespace']}"
    assert trigger["metadata"]["bootstrapServers"] == f"{place}.svc:9092"
    assert trigger["metadata"]["topic"] == topic["metadata"]["name"]
    assert trigger["metadata"]["consumerGroup"] == group["metadata"]["name"]
    assert scaled["spec"]["maxReplicaCount"] == topic["spec"]["partitions"]


def test_kustomize_makes_the_resources_of_the_environment() -> None:
    """With the patches of the environment, in its namespace, and fit for the definitions."""
    kubectl = shutil.which("kubectl") or lab_program("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is neither on the PATH nor in the cache")
    command = [str(kubectl), "kustomize", str(EXAMPLES / "gitops" / "production")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    resources = {one["kind"]: one for one in yaml.safe_load_all(made)}
    assert set(resources) == {"Topic", "ConsumerGroup"}
    for resource in resources.values():
        assert problems(resource) == []
        assert resource["metadata"]["namespace"] == "shop"
    assert resources["Topic"]["spec"]["partitions"] == 12
    assert resources["Topic"]["spec"]["driftPolicy"] == "Revert"
