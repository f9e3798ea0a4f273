"""`kubectl explain` is complete: every field of our resources says what it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CRDS = sorted((Path(__file__).resolve().parents[2] / "crds").glob("*.yaml"))
BY_THE_API_SERVER = {"apiVersion", "kind", "metadata"}
"""What it describes itself, at the root of every resource."""


def silent_fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    """The fields below a schema that nothing is said of."""
    for name, field in (schema.get("properties") or {}).items():
        below = f"{path}.{name}"
        if not field.get("description", "").strip():
            yield below
        yield from silent_fields(field, below)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from silent_fields(schema[key], path + mark)


@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_every_field_has_a_description(path: Path) -> None:
    definition = yaml.safe_load(path.read_text(encoding="utf-8"))
    kind = definition["spec"]["names"]["kind"]
    for version in definition["spec"]["versions"]:
        silent = set(silent_fields(version["schema"]["openAPIV3Schema"], kind))
        assert silent <= {f"{kind}.{name}" for name in BY_THE_API_SERVER}
