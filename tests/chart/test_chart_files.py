"""The chart's files without Helm: what is made is current, the schema refuses mistakes."""

import dataclasses
import json
import re
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from barnabas_operator.crd import definition
from barnabas_operator.settings import OperatorSettings
from charts import generate

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "barnabas"
TEMPLATES = sorted(path for path in (CHART / "templates").rglob("*") if path.is_file())


def defaults() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return loaded


def with_value(path: str, value: object) -> dict[str, Any]:
    values = defaults()
    *parents, name = path.split(".")
    place = values
    for parent in parents:
        place = place[parent]
    place[name] = value
    return values


def refusals(values: dict[str, Any]) -> list[str]:
    validator = Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
    return [error.message for error in validator.iter_errors(values)]


def test_generated_files_are_current() -> None:
    """CRDs, dashboards, rules, schema and README repeat what others say; nobody may forget one."""
    assert generate.stale() == [], "run: python -m charts.generate"


def test_the_chart_installs_the_very_resource_definitions() -> None:
    """The operator checks resources by these; another copy must not drift."""
    copies = {path.name: path.read_text() for path in (CHART / "files" / "crds").glob("*.yaml")}
    assert copies == {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    for text in copies.values():
        # The template puts the annotation by which Helm keeps them after this one line.
        assert len(re.findall(r"(?m)^metadata:$", text)) == 1
        assert "annotations:\n" not in text.split("\nspec:\n")[0]


def test_the_schema_takes_the_defaults() -> None:
    Draft7Validator.check_schema(json.loads((CHART / "values.schema.json").read_text()))
    assert refusals(defaults()) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 3),
        ("operator.replica", 2),
        ("operator.replicas", 0),
        ("operator.replicas", "2"),
        ("operator.image.pullPolicy", "always"),
        ("broker.spec.replica", 3),
        ("broker.spec.storage.sise", "1Gi"),
        ("broker.spec.storage.size", "lots"),
        ("broker.name", "Demo"),
        ("networkPolicy.enable", True),
        ("serviceMonitor.interval", "often"),
        ("imagePullSecrets", ["mine"]),
        ("tls.enabled", "yes"),
        ("authentication.enabled", 1),
        ("broker.spec.security", {"enable": True}),
    ],
)
def test_the_schema_refuses_a_mistake(path: str, value: object) -> None:
    """A value that nobody reads would be a wish that is silently not granted."""
    assert refusals(with_value(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("operator.podLabels", {"team": "data"}),
        ("broker.spec.config", {"min.insync.replicas": 2}),
        ("broker.spec.resources", {"limits": {"memory": "1Gi", "cpu": 2}}),
        ("broker.spec.podTemplate", {"tolerations": [{"operator": "Exists"}]}),
        ("operator.extraEnv", [{"name": "A", "value": "b"}]),
        ("imagePullSecrets", [{"name": "mine"}]),
        ("global", {"anything": 1}),
    ],
)
def test_the_schema_takes_what_kubernetes_takes(path: str, value: object) -> None:
    assert refusals(with_value(path, value)) == []


def test_every_value_is_used_by_a_template() -> None:
    text = "\n".join(path.read_text() for path in TEMPLATES)
    used = set(re.findall(r"Values((?:\.\w+)+)", text))
    # By their names: `index $.Values $part`.
    reserved = {"tls.enabled", "authentication.enabled"}
    for value in generate.values():
        if value.path not in reserved:
            assert any(
                f".{value.path}" == name or name.startswith(f".{value.path}.") for name in used
            ), value.path
    known = {f".{value.path}" for value in generate.values()}
    for name in used:
        parts = name.split(".")
        assert any(".".join(parts[:length]) in known for length in range(2, len(parts) + 1)), name


def test_the_operator_is_started_with_variables_that_it_reads() -> None:
    """A misspelt variable would be ignored, and its setting with it."""
    text = (CHART / "templates" / "operator-deployment.yaml").read_text()
    set_here = set(re.findall(r"name: (BARNABAS_\w+)", text))
    known = {field.metadata["row"].name for field in dataclasses.fields(OperatorSettings)}
    assert set_here and set_here <= known


def test_the_chart_has_the_version_of_the_package() -> None:
    version = re.search(r'(?m)^version = "(.+)"$', (ROOT / "pyproject.toml").read_text())
    assert version is not None
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == version[1]


def test_every_value_is_told_in_one_sentence_or_more() -> None:
    for value in generate.values():
        assert value.text[0] in string.ascii_uppercase, value.path
        assert value.text.endswith((".", "`.")), value.path


def test_the_broker_s_spec_is_checked_by_its_own_definition() -> None:
    """Helm's message about `broker.spec` and the API server's must not contradict one another."""
    (version,) = definition("Broker")["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(generate.broker_spec_schema()["properties"]) == set(fields)
