"""Values in JSON with a JSON Schema: held against the one they were written with, read by another.

An object with properties is a struct, one without is a map or JSON as text; a choice of types is
JSON as text, too. Properties that the schema does not name are left out of the fields, and are in
the bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import referencing
import referencing.exceptions
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft7Validator, validator_for
from referencing.jsonschema import DRAFT7

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.registry.client import RegisteredSchema, SchemaType
from barnabas_pipelines.registry.reading import (
    VALUE,
    Decode,
    UnreadableError,
    as_struct,
    json_text,
    list_of,
)

_ROOT: Final = "urn:barnabas:value"
_SHOWN_LENGTH_MAX: Final = 100
#: Reads a value of the schema at a path. Raises: UnreadableError.
_Read = Callable[[Any, str], Any]


class JsonSchemaReader:
    """Reads JSON by one schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        """Parse it. Raises: OptionsError."""
        try:
            document, registry = _parsed(schema)
            kind, read = _Types(registry).of(
                document, registry.resolver(_ROOT), (_place(document),)
            )
        except (ValueError, SchemaError, referencing.exceptions.Unresolvable) as error:
            raise OptionsError(
                f"the schema {schema.schema_id} is no JSON Schema: {error}"
            ) from error
        self._is_object = pa.types.is_struct(kind)
        self.type = kind if self._is_object else as_struct([(VALUE, kind)])
        self._read = read

    def decoder(self, writer: RegisteredSchema) -> Decode:
        """See `ValueReader`."""
        if writer.type is not SchemaType.JSON:
            raise UnreadableError(f"it is {writer.type.shown} and no JSON")
        try:
            document, registry = _parsed(writer)
        except (ValueError, SchemaError) as error:
            raise UnreadableError(f"its schema {writer.schema_id} is no JSON Schema") from error
        validator = validator_for(document, default=Draft7Validator)(document, registry=registry)

        def decode(payload: bytes) -> Mapping[str, Any]:
            value = _json(payload)
            try:
                wrong = next(validator.iter_errors(value), None)
                found: Any = None if wrong is not None else self._read(value, "$")
            except referencing.exceptions.Unresolvable as error:
                raise UnreadableError(
                    f"its schema {writer.schema_id} refers to what the registry does not have"
                ) from error
            except re.error as error:
                raise UnreadableError(
                    f"its schema {writer.schema_id} has a pattern that is none in Python"
                ) from error
            except (RecursionError, OverflowError) as error:
                raise UnreadableError(
                    "it is nested too deeply, or has a number that is too large"
                ) from error
            if wrong is not None:
                limit = json.dumps(wrong.validator_value)
                if len(limit) > _SHOWN_LENGTH_MAX:
                    limit = "..."
                raise UnreadableError(
                    f"it breaks its schema {writer.schema_id}: {wrong.json_path} is to have "
                    f"{wrong.validator} {limit}"
                )
            return found if self._is_object else {VALUE: found}

        return decode


def _json(payload: bytes) -> Any:
    """The value, strictly. Raises: UnreadableError."""
    try:
        return json.loads(payload.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableError("it is no JSON") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _parsed(schema: RegisteredSchema) -> tuple[Any, referencing.Registry[Any]]:
    """The schema and where all that it refers to is found. Raises: ValueError, SchemaError."""
    document = json.loads(schema.text)
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    registry: referencing.Registry[Any] = referencing.Registry()
    for name, text in ((_ROOT, schema.text), *schema.references):
        resource = referencing.Resource.from_contents(json.loads(text), DRAFT7)
        registry = registry.with_resource(name, resource)
    validator_for(document, default=Draft7Validator).check_schema(document)
    return document, registry.crawl()


class _Types:
    """Finds types in Spark, and what reads values of them."""

    def __init__(self, registry: referencing.Registry[Any]) -> None:
        self._registry = registry

    def of(self, schema: Any, resolver: Any, above: tuple[str, ...]) -> tuple[pa.DataType, _Read]:
        """The type and the reader of a schema."""
        if not isinstance(schema, dict):
            return _TEXT
        if isinstance(base := schema.get("$id"), str):
            resolver = resolver.in_subresource(DRAFT7.create_resource({"$id": base}))
        if isinstance(reference := schema.get("$ref"), str):
            found = resolver.lookup(reference)
            place = _place(found.contents)
            if place in above:
                return _TEXT
            return self.of(found.contents, found.resolver, (*above, place))
        for word in ("oneOf", "anyOf"):
            if word in schema and "properties" not in schema:
                choices = [one for one in schema[word] if not _is_null(one)]
                return self.of(choices[0], resolver, above) if len(choices) == 1 else _TEXT
        kinds = schema.get("type", ())
        given = {kinds} if isinstance(kinds, str) else set(kinds)
        given.discard("null")
        if not given:
            given = _implied(schema)
        if given == {"integer", "number"}:
            given = {"number"}
        if len(given) != 1:
            return _TEXT
        (kind,) = given
        match kind:
            case "object":
                return self._object(schema, resolver, above)
            case "array" if isinstance(schema.get("items"), dict):
                return self._array(schema["items"], resolver, above)
            case _:
                return _SCALARS.get(kind, _TEXT)

    def _object(
        self, schema: Mapping[str, Any], resolver: Any, above: tuple[str, ...]
    ) -> tuple[pa.DataType, _Read]:
        properties = schema.get("properties") or {}
        if properties:
            found = {name: self.of(one, resolver, above) for name, one in properties.items()}
            readers = [(name, read) for name, (_, read) in found.items()]
            return as_struct((name, kind) for name, (kind, _) in found.items()), _typed(
                "object",
                lambda value: isinstance(value, dict),
                lambda value, path: {
                    name: one(value.get(name), f"{path}.{name}") for name, one in readers
                },
            )
        items = schema.get("additionalProperties")
        if not isinstance(items, dict):
            return _TEXT
        kind, read = self.of(items, resolver, above)
        return pa.map_(pa.string(), kind), _typed(
            "object",
            lambda value: isinstance(value, dict),
            lambda value, path: [
                (name, read(one, f"{path}.{name}")) for name, one in value.items()
            ],
        )

    def _array(
        self, items: Any, resolver: Any, above: tuple[str, ...]
    ) -> tuple[pa.DataType, _Read]:
        kind, read = self.of(items, resolver, above)
        return list_of(kind), _typed(
            "array",
            lambda value: isinstance(value, list),
            lambda value, path: [read(one, f"{path}[{place}]") for place, one in enumerate(value)],
        )


def _typed(
    kind: str,
    is_one: Callable[[Any], bool],
    make: Callable[[Any, str], Any] = lambda value, _: value,
) -> _Read:
    """What reads values of a type of JSON; null is one of each."""

    def read(value: Any, path: str) -> Any:
        if value is None:
            return None
        if not is_one(value):
            raise UnreadableError(f"{path} is no {kind}, as the schema by which it is read says")
        return make(value, path)

    return read


def _implied(schema: Mapping[str, Any]) -> set[str]:
    """The type of a schema that does not name it."""
    if "properties" in schema:
        return {"object"}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return {"string"} if values and all(isinstance(one, str) for one in values) else set()


def _place(schema: Any) -> str:
    """The key by which a schema inside of itself is recognised."""
    return json.dumps(schema, sort_keys=True)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _is_integer(value: Any) -> bool:
    """Whether it is one to JSON Schema, as 1.0 is."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return is_int or (isinstance(value, float) and value.is_integer())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any, _: str) -> str | None:
    return None if value is None else json_text(value)


_TEXT: Final[tuple[pa.DataType, _Read]] = (pa.string(), _text)
_SCALARS: Final[Mapping[str, tuple[pa.DataType, _Read]]] = {
    "string": (pa.string(), _typed("string", lambda value: isinstance(value, str))),
    "boolean": (pa.bool_(), _typed("boolean", lambda value: isinstance(value, bool))),
    "integer": (pa.int64(), _typed("integer", _is_integer, lambda value, _: int(value))),
    "number": (pa.float64(), _typed("number", _is_number, lambda value, _: float(value))),
}
