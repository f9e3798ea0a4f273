"""Checks resources against the very CRD that Kubernetes would check them against.

Not here: reading files (`barnabas apply` does that), rules that compare with an older version of
the resource (the planner refuses those changes by looking at the topic itself).

Source: Kubernetes' structural schemas, turned into JSON Schema: unknown fields are refused (as
`kubectl` does with strict validation), `nullable` and free-form values are expressed in its terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from barnabas_operator.spec import API_VERSION
from barnabas_protocol.settings.suggestions import nearest

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

_FILES = {
    "Topic": "topic.yaml",
    "Broker": "broker.yaml",
    "ConsumerGroup": "group.yaml",
    "User": "user.yaml",
}
KINDS = tuple(_FILES)
# What the API server itself defines for every resource, so far as manifests write it.
_METADATA_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "maxLength": 253,
            "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        },
        "namespace": {"type": "string", "maxLength": 63},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array"},
        "ownerReferences": {"type": "array"},
        "managedFields": {"type": "array"},
        "creationTimestamp": {},
        "deletionTimestamp": {},
        "deletionGracePeriodSeconds": {},
        "generation": {},
        "generateName": {"type": "string"},
        "resourceVersion": {},
        "selfLink": {},
        "uid": {"type": "string"},
    },
    "additionalProperties": False,
}
_KEPT = (
    "type",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "enum",
    "minItems",
    "maxItems",
    "maxProperties",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong; `path` leads to the field, through names and list positions."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        """Return the field and what is wrong with it, on one line."""
        return f"{'.'.join(map(str, self.path))}: {self.message}" if self.path else self.message


def definition(kind: str) -> Mapping[str, Any]:
    """The CustomResourceDefinition of one of KINDS, as it is installed with the operator."""
    import yaml

    text = (files("barnabas_operator") / "crds" / _FILES[kind]).read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def problems(manifest: Mapping[str, Any]) -> list[Problem]:
    """All that is wrong with a resource of one of KINDS, in the order of its fields."""
    kind = manifest.get("kind")
    if kind not in KINDS:
        return [Problem(path=("kind",), message=f"{kind!r} is none of {', '.join(KINDS)}")]
    found = [
        problem
        for error in _validator(str(kind)).iter_errors(manifest)
        for problem in _problems_of(error)
    ]
    return sorted(found, key=lambda problem: tuple(map(str, problem.path)))


@lru_cache
def _validator(kind: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    versions = {version["name"]: version for version in definition(kind)["spec"]["versions"]}
    schema = json_schema(versions[API_VERSION.partition("/")[2]]["schema"]["openAPIV3Schema"])
    schema["properties"] |= {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": kind},
        "metadata": _METADATA_SCHEMA,
    }
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return Draft202012Validator(schema)


def json_schema(structural: Mapping[str, Any], *, has_descriptions: bool = False) -> dict[str, Any]:
    """The rules of a structural schema in JSON Schema's words."""
    takes_anything = structural.get("x-kubernetes-preserve-unknown-fields")
    if takes_anything and "properties" not in structural:
        return {}
    kept = ("description", *_KEPT) if has_descriptions else _KEPT
    schema: dict[str, Any] = {key: structural[key] for key in kept if key in structural}

    def converted(field: Mapping[str, Any]) -> dict[str, Any]:
        return json_schema(field, has_descriptions=has_descriptions)

    if structural.get("x-kubernetes-int-or-string"):
        schema["type"] = ["integer", "string"]
    if structural.get("nullable"):
        schema["type"] = [schema["type"], "null"]
    if "items" in structural:
        schema["items"] = converted(structural["items"])
    if "properties" in structural:
        schema["properties"] = {
            name: converted(field) for name, field in structural["properties"].items()
        }
        schema["additionalProperties"] = bool(takes_anything)
    elif "additionalProperties" in structural:
        schema["additionalProperties"] = converted(structural["additionalProperties"])
    return schema


def _problems_of(error: ValidationError) -> Iterator[Problem]:
    path = tuple(error.absolute_path)
    # jsonschema leaves these unset only in errors that are not from validating.
    wanted: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "additionalProperties":
            schema: Any = error.schema
            known = schema["properties"]
            for name in instance:
                if name not in known:
                    yield Problem(path=(*path, name), message=_unknown(str(name), list(known)))
        case "required":
            yield Problem(
                path=path, message=error.message.replace("is a required property", "is missing")
            )
        case "enum" | "const":
            choices = [wanted] if error.validator == "const" else wanted
            yield Problem(path=path, message=_not_one_of(instance, choices))
        case "type":
            words = wanted if isinstance(wanted, str) else " or ".join(wanted)
            yield Problem(path=path, message=f"must be of type {words}, not {instance!r}")
        case "minimum":
            yield Problem(path=path, message=f"must be at least {wanted}")
        case "maximum":
            yield Problem(path=path, message=f"must be at most {wanted}")
        case "pattern":
            yield Problem(path=path, message=_not_of_form(path, instance, str(wanted)))
        case _:
            yield Problem(path=path, message=error.message)


def _not_of_form(path: tuple[str | int, ...], instance: object, pattern: str) -> str:
    if path and str(path[-1]).lower().endswith("name"):
        return f"{instance!r} has characters that a name cannot have"
    return f"{instance!r} does not have the form {pattern}"


def _unknown(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f"unknown field{f', did you mean {near!r}?' if near is not None else ''}"


def _not_one_of(value: object, choices: list[str]) -> str:
    near = nearest(str(value), map(str, choices)) if len(choices) > 1 else None
    hint = f", did you mean {near!r}?" if near is not None else ""
    return f"{value!r} is not {' or '.join(map(repr, choices))}{hint}"
