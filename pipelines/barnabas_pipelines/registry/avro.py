"""Values in Avro, read by one schema whichever they were written with: Avro's schema resolution.

Types are those of Spark's `from_avro`: a union of several types is a struct of `member0`, `member1`
and so on, one of which is there; times of a day are numbers. A value that is no record has one
field, `value`. Decoding is fastavro's.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.types import AvroMessage, Schema

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.registry.client import RegisteredSchema, SchemaType
from barnabas_pipelines.registry.reading import (
    TIMESTAMP,
    VALUE,
    Convert,
    Decode,
    UnreadableError,
    as_struct,
    convert_each,
    convert_fields,
    convert_map,
    converted,
    json_text,
    list_of,
)

_DECIMAL_DIGITS_MAX: Final = 38
_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_BYTES: Final = ("bytes", "fixed")
#: By logical type, for the types that may carry it.
_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_NUMBERS: Final = (({"int", "long"}, pa.int64()), ({"float", "double"}, pa.float64()))
#: What fastavro makes of each type that a union knows by its kind alone.
_PYTHON_TYPES: Final[Mapping[str, type]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
    "array": list,
    "map": dict,
}
_LOGICAL_PYTHON_TYPES: Final[Mapping[Any, type]] = {
    "date": datetime.date,
    "time-millis": datetime.time,
    "time-micros": datetime.time,
    "timestamp-millis": datetime.datetime,
    "timestamp-micros": datetime.datetime,
    "local-timestamp-millis": datetime.datetime,
    "local-timestamp-micros": datetime.datetime,
    "decimal": decimal.Decimal,
    "uuid": uuid.UUID,
}


class AvroReader:
    """Reads Avro by one schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        """Parse it. Raises: OptionsError."""
        try:
            self._schema, named = _parsed(schema)
        except (fastavro.schema.SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise OptionsError(f"the schema {schema.schema_id} is no Avro: {error}") from error
        self._shown = schema.shown
        types = _Types(named, names_branches=False)
        kind, convert = types.of(self._schema)
        if types.has_choices:
            kind, convert = _Types(named, names_branches=True).of(self._schema)
        self._is_record = pa.types.is_struct(kind) and not isinstance(self._schema, list)
        self.type = kind if self._is_record else as_struct([(VALUE, kind)])
        self._convert = convert
        self._names_branches = types.has_choices

    def decoder(self, writer: RegisteredSchema) -> Decode:
        """See `ValueReader`."""
        if writer.type is not SchemaType.AVRO:
            raise UnreadableError(f"it is {writer.type.shown} and no Avro")
        try:
            written_with, _ = _parsed(writer)
        except (fastavro.schema.SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise UnreadableError(f"its schema {writer.schema_id} is no Avro: {error}") from error

        def decode(payload: bytes) -> Mapping[str, Any]:
            return self._decode(payload, written_with, writer.schema_id)

        return decode

    def _decode(self, payload: bytes, written_with: Schema, schema_id: int) -> Mapping[str, Any]:
        source = io.BytesIO(payload)
        try:
            found: AvroMessage = fastavro.schemaless_reader(
                source,
                written_with,
                self._schema,
                return_record_name=self._names_branches,
                return_named_type=self._names_branches,
            )
            value = converted(self._convert, found)
        except fastavro.read.SchemaResolutionError as error:
            raise UnreadableError(
                f"its schema {schema_id} cannot be read as {self._shown}"
            ) from error
        except Exception as error:  # whatever fastavro meets in bytes that are no Avro
            raise UnreadableError(f"it is no Avro of its schema {schema_id}") from error
        if source.tell() != len(payload):
            raise UnreadableError(f"it has more bytes than its schema {schema_id} says")
        return value if self._is_record else {VALUE: value}


def _parsed(schema: RegisteredSchema) -> tuple[Schema, dict[str, Any]]:
    """The schema with the types that it names."""
    named: dict[str, Any] = {}
    for _, text in schema.references:
        fastavro.parse_schema(json.loads(text), named_schemas=named)
    return fastavro.parse_schema(json.loads(schema.text), named_schemas=named), named


class _Types:
    """Finds types in Spark, and how what fastavro has decoded becomes one.

    With `names_branches` fastavro names the types of values in unions.
    """

    def __init__(self, named: Mapping[str, Any], *, names_branches: bool) -> None:
        self._named = named
        self._names_branches = names_branches
        self._above: list[str] = []
        self.has_choices = False

    def of(self, schema: Any) -> tuple[pa.DataType, Convert]:
        """The type and the conversion; notes unions of several types in `has_choices`."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _BYTES:
                return _SIMPLE[schema], _bytes
            return (_SIMPLE[schema], None) if schema in _SIMPLE else self.of(self._named[schema])
        kind = schema["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self.of(kind)
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "array":
                element, convert = self.of(schema["items"])
                return list_of(element), convert_each(convert)
            case "map":
                item, convert = self.of(schema["values"])
                return pa.map_(pa.string(), item), convert_map(convert)
            case _:
                return _simple(schema, kind)

    def _record(self, schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert]:
        name = schema["name"]
        if name in self._above or not schema["fields"]:
            return pa.string(), _nameless_json
        self._above.append(name)
        found = {field["name"]: self.of(field["type"]) for field in schema["fields"]}
        self._above.pop()
        kind = as_struct((field, one) for field, (one, _) in found.items())
        return kind, convert_fields({field: convert for field, (_, convert) in found.items()})

    def _union(self, branches: Sequence[Any]) -> tuple[pa.DataType, Convert]:
        kinds = [branch for branch in branches if branch != "null"]
        names = {_name(branch) for branch in kinds}
        if not kinds:
            return pa.string(), None
        for together, kind in _NUMBERS:
            if len(kinds) > 1 and names <= together:
                return kind, None
        if len(kinds) == 1:
            kind, convert = self.of(kinds[0])
            is_named = _key(kinds[0]) not in _PYTHON_TYPES.values()
            return kind, _nameless(convert) if is_named and self._names_branches else convert
        self.has_choices = True
        members = [self.of(branch) for branch in kinds]
        places = {_key(branch): place for place, branch in enumerate(kinds)}

        def choose(value: Any) -> dict[str, Any]:
            name, plain = value if isinstance(value, tuple) else (type(value), value)
            place = places[name]
            return {f"member{place}": converted(members[place][1], plain)}

        return as_struct((f"member{place}", one) for place, (one, _) in enumerate(members)), choose


def _simple(schema: Mapping[str, Any], kind: str) -> tuple[pa.DataType, Convert]:
    logical = schema.get("logicalType")
    if logical == "decimal" and schema.get("precision", 0) <= _DECIMAL_DIGITS_MAX:
        scale = schema.get("scale", 0)
        return pa.decimal128(schema["precision"], scale), lambda value: _decimal(value, scale)
    if logical == "decimal":
        return pa.string(), lambda value: str(_decimal(value, schema.get("scale", 0)))
    if logical == "uuid":
        return pa.string(), str
    if (kind, logical) in (("long", "timestamp-millis"), ("long", "local-timestamp-millis")):
        return _LOGICAL[kind, str(logical)], _millis
    if kind in _BYTES:
        return _SIMPLE[kind], _bytes
    if (kind, logical) == ("int", "time-millis"):
        return pa.int32(), _day_millis
    if (kind, logical) == ("long", "time-micros"):
        return pa.int64(), _micros
    return _LOGICAL.get((kind, str(logical)), _SIMPLE[kind]), None


def _name(branch: Any) -> str:
    return branch if isinstance(branch, str) else str(branch["type"])


def _key(branch: Any) -> Any:
    """How fastavro names the branches of a union: the name of a type, or a type of Python."""
    if isinstance(branch, str):
        return _PYTHON_TYPES.get(branch, branch)
    if "name" in branch:
        return branch["name"]
    plain = _PYTHON_TYPES[branch["type"]]
    return _LOGICAL_PYTHON_TYPES.get(branch.get("logicalType"), plain)


def _nameless(convert: Convert) -> Convert:
    """The same for a value that comes with the name of its type."""
    return lambda value: converted(convert, value[1] if isinstance(value, tuple) else value)


def _nameless_json(value: Any) -> str:
    """JSON of a value, within which others may come with the names of their types."""

    def plain(one: Any) -> Any:
        match one:
            case (_, inner) if isinstance(one, tuple):
                return plain(inner)
            case list():
                return [plain(element) for element in one]
            case dict():
                return {name: plain(inner) for name, inner in one.items()}
            case _:
                return one

    return json_text(plain(value))


def _day_millis(time: datetime.time | int) -> int:
    return time if isinstance(time, int) else _micros(time) // 1000


# A default stands in for what was not written, and fastavro hands it out as JSON has it.


def _bytes(value: bytes | str) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value


def _decimal(value: decimal.Decimal | bytes | str, scale: int) -> decimal.Decimal:
    if isinstance(value, decimal.Decimal):
        return value
    return decimal.Decimal(int.from_bytes(_bytes(value), "big", signed=True)).scaleb(-scale)


def _millis(value: datetime.datetime | int) -> datetime.datetime | int:
    return value * 1000 if isinstance(value, int) else value


def _micros(time: datetime.time | int) -> int:
    if isinstance(time, int):
        return time
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1_000_000 + time.microsecond
