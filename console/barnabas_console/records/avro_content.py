"""Avro by a schema file, with the library fastavro.

Two things a value could do to a reader are kept from it: an array whose items take no bytes has as
many of them as it likes, so a schema with such is refused; and the compiled reader ends the process
when a schema that contains itself is nested too deep, so such schemas have the plain Python one,
which raises.

Source: the Avro specification, "Binary encoding".
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas_console.records.content import (
    TREE_BYTES_MAX,
    Content,
    Decode,
    Format,
    UnreadableError,
    as_tree,
)

_NAMED: Final = ("record", "error", "enum", "fixed")


def avro_decoder(schema_text: str) -> Decode:
    """What reads values of the schema. Raises: ValueError for a schema that cannot be used."""
    try:
        import fastavro
    except ImportError:
        raise ValueError("Avro needs the extra: pip install 'barnabas[schemas]'") from None
    try:
        schema = fastavro.parse_schema(json.loads(schema_text))
    except Exception as error:  # the library has a dozen kinds for what is no schema
        raise ValueError(f"no Avro schema: {error or type(error).__name__}") from None
    walk = _Walk()
    walk.check(schema)
    read: Callable[..., Any] = fastavro.schemaless_reader
    if walk.is_recursive:
        read = importlib.import_module("fastavro._read_py").schemaless_reader

    def decode(data: bytes) -> Content:
        if len(data) > TREE_BYTES_MAX:
            raise UnreadableError(f"more than {TREE_BYTES_MAX // 1024} KiB are not taken apart")
        stream = io.BytesIO(data)
        try:
            value = read(stream, schema, None)
        except Exception as error:  # whatever bytes make it raise: they are not of the schema
            raise UnreadableError(
                f"not of the Avro schema: {str(error) or type(error).__name__}"
            ) from None
        if stream.tell() != len(data):
            raise UnreadableError(f"{len(data) - stream.tell()} bytes behind the Avro value")
        return as_tree(value, Format.AVRO, len(data))

    return decode


class _Walk:
    """Goes over a schema once. Names are full: the library has resolved them."""

    def __init__(self) -> None:
        self.is_recursive = False
        self._open: set[str] = set()
        # Named types, and whether a value of theirs takes at least a byte.
        self._takes_bytes: dict[str, bool] = {}

    def check(self, schema: Any) -> bool:
        """Return whether each value takes at least a byte. Raises: ValueError."""
        match schema:
            case str():
                if schema in self._open:
                    # It ends by a choice or an array in it, which take a byte.
                    self.is_recursive = True
                    return True
                return self._takes_bytes.get(schema, schema != "null")
            case list():
                for branch in schema:
                    self.check(branch)
                return True  # the number of the branch
            case Mapping():
                return self._check_type(schema)
        raise ValueError(f"no Avro schema: {schema!r}")

    def _check_type(self, schema: Mapping[str, Any]) -> bool:
        kind = schema["type"]
        match kind:
            case "array":
                if not self.check(schema["items"]):
                    raise ValueError("an Avro array of items without bytes could be endless")
                return True
            case "map":
                self.check(schema["values"])
                return True
            case "fixed":
                takes_bytes = int(schema["size"]) > 0
            case "record" | "error":
                name = schema["name"]
                self._open.add(name)
                # All of them are looked at, not only up to the first that takes a byte.
                checked = [self.check(field["type"]) for field in schema["fields"]]
                takes_bytes = any(checked)
                self._open.discard(name)
            case "enum":
                takes_bytes = True
            case _:
                return self.check(kind)
        if kind in _NAMED:
            self._takes_bytes[schema["name"]] = takes_bytes
        return takes_bytes
