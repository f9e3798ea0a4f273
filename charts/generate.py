# ruff: noqa: INP001 (a folder of charts, not a package)
"""Makes the files of the chart that repeat what other files say; a test keeps them current.

| of the chart | made from |
|---|---|
| files/crds/*.yaml | crds/*.yaml, unchanged |
| files/dashboards/*.json | dashboards/*.json, unchanged |
| files/rules/barnabas.yaml | dashboards/alerts.yaml, unchanged |
| values.schema.json | values.yaml, the Broker's CRD, the rules below |
| README.md | values.yaml, README.in.md |
| Chart.yaml | itself, with the version of pyproject.toml |

`python -m charts.generate` writes them.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from barnabas_operator.crd import definition, json_schema
from charts.job_schema import PIPELINE_JOBS, RESOURCES

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "charts" / "barnabas"
_COMMENT = "# -- "
_LINE_KEY = re.compile(r"(\s*)([A-Za-z][\w-]*):")
_TABLE_MARK = "{{values}}"

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_ANYTHING: Final = {"type": "object"}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
_NAME: Final = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", "maxLength": 40}
_LEVEL: Final = {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]}
_AS_ABOVE: Final = {"type": ["boolean", "null"]}
_DIGEST: Final = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
_POD_RESOURCES: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "requests": _ANYTHING,
        "limits": _ANYTHING,
        "claims": _OBJECTS,
    },
}
_DURATION: Final = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}


# What a value's default does not tell about it.
_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "operator.replicas": {"type": "integer", "minimum": 1, "maximum": 5},
    "operator.image.pullPolicy": _LEVEL,
    "operator.image.digest": _DIGEST,
    "brokerImage.digest": _DIGEST,
    "operator.watchNamespaces": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "operator.elsewhereNamespaces": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "operator.evictionWebhook.patienceSeconds": {
        "type": "integer",
        "minimum": 60,
        "maximum": 86400,
    },
    "operator.evictionWebhook.annotations": _TEXTS,
    "operator.resources": _POD_RESOURCES,
    "console.resources": _POD_RESOURCES,
    "operator.extraEnv": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "value": {"type": "string"},
                "valueFrom": _ANYTHING,
            },
        },
    },
    "operator.podLabels": _TEXTS,
    "operator.podAnnotations": _TEXTS,
    "operator.nodeSelector": _TEXTS,
    "operator.tolerations": _OBJECTS,
    "operator.affinity": _ANYTHING,
    "imagePullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": {"type": "string", "minLength": 1}},
        },
    },
    "serviceAccount.annotations": _TEXTS,
    "broker.name": _NAME,
    "broker.labels": _TEXTS,
    "broker.annotations": _TEXTS,
    "console.allowedHosts": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "console.login": {"type": "string", "enum": ["none", "sasl", "oidc"]},
    "console.oidc.scopes": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "console.oidc.token": {"type": "string", "enum": ["access", "id"]},
    "networkPolicy.clients": _OBJECTS,
    "networkPolicy.prometheus": _OBJECTS,
    "pipelines.image.pullPolicy": _LEVEL,
    "pipelines.image.digest": _DIGEST,
    "pipelines.resources": RESOURCES,
    "pipelines.jobs": PIPELINE_JOBS,
    "serviceMonitor.interval": _DURATION,
    "serviceMonitor.scrapeTimeout": _DURATION,
    "serviceMonitor.labels": _TEXTS,
    "prometheusRule.labels": _TEXTS,
    "prometheusRule.runbookUrl": {"type": "string", "pattern": r"^[^\s{}#$]*\{alert\}[^\s{}#$]*$"},
    "dashboards.label": {"type": "string", "minLength": 1},
    "dashboards.annotations": _TEXTS,
    "tls.enabled": _AS_ABOVE,
    "authentication.enabled": _AS_ABOVE,
    "rbac.userNamespaces": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "test.timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 3600},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of the chart that users may set."""

    path: str
    default: Any
    text: str


def files() -> dict[Path, str]:
    """Every generated file of the chart and what belongs into it."""
    made = {
        CHART / "files" / "crds" / path.name: path.read_text(encoding="utf-8")
        for path in (ROOT / "crds").glob("*.yaml")
    }
    made |= {
        CHART / "files" / "dashboards" / path.name: path.read_text(encoding="utf-8")
        for path in (ROOT / "dashboards").glob("*.json")
    }
    alerts = ROOT / "dashboards" / "alerts.yaml"
    made[CHART / "files" / "rules" / "barnabas.yaml"] = alerts.read_text(encoding="utf-8")
    made[CHART / "values.schema.json"] = json.dumps(schema(), indent=2) + "\n"
    made[CHART / "README.md"] = readme()
    made[CHART / "Chart.yaml"] = chart_file()
    return made


def stale() -> list[Path]:
    """Generated files that differ from what they should be, and those that should not be."""
    made = files()
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    kept = [path for path in (CHART / "files").glob("*/*") if path.is_file()]
    return wrong + [path for path in kept if path not in made]


def values() -> list[Value]:
    """The values in the order of values.yaml.

    Raises: ValueError for one without a comment.
    """
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    comments = dict(_comments(text))
    found = list(_leaves(yaml.safe_load(text), (), comments))
    return found


def _comments(text: str) -> Iterator[tuple[str, str]]:
    """The path of each value with a comment, and the comment."""
    path: list[tuple[int, str]] = []
    pending: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(_COMMENT):
            pending = [stripped.removeprefix(_COMMENT)]
        elif stripped.startswith("# ") and pending:
            pending.append(stripped.removeprefix("# "))
        elif found := _LINE_KEY.match(line):
            indent = len(found[1])
            path = [entry for entry in path if entry[0] < indent] + [(indent, found[2])]
            if pending:
                yield ".".join(name for _, name in path), " ".join(pending)
            pending = []


def _leaves(
    part: Mapping[str, Any], path: tuple[str, ...], comments: Mapping[str, str]
) -> Iterator[Value]:
    for name, default in part.items():
        here = (*path, name)
        dotted = ".".join(here)
        if dotted in comments:
            yield Value(path=dotted, default=default, text=comments[dotted])
        elif isinstance(default, dict) and default:
            yield from _leaves(default, here, comments)
        else:
            raise ValueError(f"values.yaml: {dotted} has no comment")


def schema() -> dict[str, Any]:
    """The JSON schema of the values: every name that is not in values.yaml is refused."""
    root: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart barnabas",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "global": {"description": "Helm's own, for charts in charts.", "type": "object"}
        },
    }
    for value in values():
        *parents, name = value.path.split(".")
        place = root
        for parent in parents:
            place = place["properties"].setdefault(
                parent, {"type": "object", "additionalProperties": False, "properties": {}}
            )
        place["properties"][name] = {"description": value.text, **_value_schema(value)}
    return root


def _value_schema(value: Value) -> Mapping[str, Any]:
    if value.path == "broker.spec":
        return broker_spec_schema()
    if value.path in _RULES:
        return _RULES[value.path]
    match value.default:
        case bool():
            return {"type": "boolean"}
        case str():
            return {"type": "string"}
    raise ValueError(f"values.yaml: say in _RULES what {value.path} may be")


def broker_spec_schema() -> dict[str, Any]:
    """The spec of a Broker as its CRD has it, in JSON Schema's words."""
    (version,) = definition("Broker")["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return json_schema(spec, has_descriptions=True)


def readme() -> str:
    """README.in.md with the table of values."""
    rows = ["| value | default | what it does |", "|---|---|---|"]
    for value in values():
        default = json.dumps(value.default)
        rows.append(f"| `{value.path}` | `{default}` | {value.text.replace('|', chr(92) + '|')} |")
    template = (ROOT / "charts" / "README.in.md").read_text(encoding="utf-8")
    return template.replace(_TABLE_MARK, "\n".join(rows))


def chart_file() -> str:
    """Chart.yaml with the version that chart and images share with the packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^version: .*$", f"version: {project['version']}", text, flags=re.MULTILINE)
    return re.sub(
        r"^appVersion: .*$", f'appVersion: "{project["version"]}"', text, flags=re.MULTILINE
    )


def main() -> None:
    """Write all generated files, and remove what is none any more."""
    made = files()
    for path in stale():
        if path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()


if __name__ == "__main__":
    main()
