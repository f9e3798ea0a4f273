"""What the three kinds of schemas have in common when values are read by them. Pure.

A reader is made of the schema by which a topic is to be read. It says what type its values have in
Spark, and makes a decoder for each schema that values were written with.

What has no type in Spark (a structure that contains itself, a choice of types without a name) is
JSON as text: nothing of a value is left out, and no schema is refused.

Confluent's wire format says which schema a key or value was written with:

    value            = magic schema-id payload
    magic            = %x00                      ; 1 byte
    schema-id        = 4 bytes, big-endian
    payload          = avro | json | message-indexes protobuf
    message-indexes  = %x00 | count 1*index      ; zigzag varints; 0 alone stands for [0]

The indexes are the way to the message in its `.proto` file: a place among the messages of the file,
then among those nested in it, and so on.

Source: "Wire format" in the documentation of Confluent's Schema Registry.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from barnabas_pipelines.registry.client import RegisteredSchema

#: From the bytes behind the schema id to the fields. Raises: UnreadableError.
Decode = Callable[[bytes], Mapping[str, Any]]
#: From what a library has decoded to what Arrow takes; None where these are the same.
Convert = Callable[[Any], Any] | None

VALUE: Final = "value"
"""The one field of values that are no records."""
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class ValueReader(Protocol):
    """Reads values of one topic, whichever schemas they were written with."""

    #: The fields that every value has.
    type: pa.StructType

    def decoder(self, writer: RegisteredSchema) -> Decode:
        """What decodes values of this schema. Raises: UnreadableError if none can be read."""


def ddl(kind: pa.DataType) -> str:
    """The type as Spark writes it."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{fields_ddl(kind, ': ')}>"
    if pa.types.is_map(kind):
        return f"MAP<{ddl(kind.key_type)}, {ddl(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{ddl(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SIMPLE_DDL[kind]


def fields_ddl(kind: pa.StructType, between: str = " ") -> str:
    """The fields of a struct as Spark writes a schema."""
    return ", ".join(
        "`{}`{}{}".format(field.name.replace("`", "``"), between, ddl(field.type))
        for field in (kind.field(index) for index in range(kind.num_fields))
    )


_SIMPLE_DDL: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}


def list_of(kind: pa.DataType) -> pa.DataType:
    """An array as Spark names its elements."""
    return pa.list_(pa.field("element", kind))


def converted(convert: Convert, value: Any) -> Any:
    """The value as Arrow takes it; None stays None."""
    return value if value is None or convert is None else convert(value)


def convert_each(convert: Convert) -> Convert:
    """The conversion of a list of such."""
    if convert is None:
        return None
    return lambda values: [converted(convert, one) for one in values]


def convert_map(convert: Convert) -> Convert:
    """The conversion of a mapping to such: Arrow takes pairs."""
    return lambda found: [(str(key), converted(convert, one)) for key, one in found.items()]


def convert_fields(converts: Mapping[str, Convert]) -> Convert:
    """The conversion of a record with these fields."""
    needed = {name: one for name, one in converts.items() if one is not None}
    if not needed:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        changed = {name: converted(one, record[name]) for name, one in needed.items()}
        return record | changed

    return convert


def json_text(value: Any) -> str:
    """The value as JSON; what JSON does not have, as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def as_struct(fields: Iterable[tuple[str, pa.DataType]]) -> pa.StructType:
    """A struct of fields that may all be null."""
    return pa.struct([pa.field(name, kind) for name, kind in fields])


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case _:
            return repr(value)


MAGIC: Final = 0
_HEADER_LENGTH: Final = 5
#: Ids are signed in registries, which respond to a larger one as to a wrong path.
_SCHEMA_ID_MAX: Final = 2**31 - 1
_DEPTH_MAX: Final = 100
_VARINT_LENGTH_MAX: Final = 5


class UnreadableError(ValueError):
    """A key or value cannot be decoded; the text is the reason, and repeats none of its bytes."""


def split(value: bytes) -> tuple[int, bytes]:
    """The schema id and the payload. Raises: UnreadableError."""
    if not value:
        raise UnreadableError("it is empty, so it names no schema")
    if value[0] != MAGIC:
        raise UnreadableError(
            f"it begins with the byte {value[0]} in place of the magic byte 0: it names no schema"
        )
    if len(value) < _HEADER_LENGTH:
        raise UnreadableError("it is cut off before the end of its schema id")
    schema_id = int.from_bytes(value[1:_HEADER_LENGTH], "big")
    if schema_id > _SCHEMA_ID_MAX:
        raise UnreadableError(f"it names the schema {schema_id}, an id that no registry gives")
    return schema_id, value[_HEADER_LENGTH:]


def split_message_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The way to the Protobuf message in its file, and its bytes. Raises: UnreadableError."""
    count, position = _zigzag(payload, 0)
    if count == 0:
        return (0,), payload[position:]
    if not 0 < count <= _DEPTH_MAX:
        raise UnreadableError(f"it names a message at depth {count}")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(payload, position)
        indexes.append(index)
    return tuple(indexes), payload[position:]


def _zigzag(payload: bytes, position: int) -> tuple[int, int]:
    """A signed varint, and the position behind it."""
    number = 0
    for length in range(_VARINT_LENGTH_MAX):
        if position + length >= len(payload):
            raise UnreadableError("it is cut off in its message indexes")
        byte = payload[position + length]
        number |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + length + 1
    raise UnreadableError("its message indexes are no varints")
