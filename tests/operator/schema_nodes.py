"""The nodes of a schema."""

from collections.abc import Iterator
from typing import Any


def nodes(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield part
    for child in part.get("properties", {}).values():
        yield from nodes(child)
    for name in ("items", "additionalProperties"):
        if isinstance(part.get(name), dict):
            yield from nodes(part[name])
