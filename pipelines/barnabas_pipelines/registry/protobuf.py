"""Values in Protobuf, read as one message by its field numbers, which is how Protobuf evolves.

Which message a value has is known by the way to it in the schema that it was written with; it must
be the one that is read. A field without presence that is not there has its default, as Protobuf
says; one with presence is null. Unsigned numbers have the type that holds them, enums are the names
of their values, `google.protobuf.Timestamp` is a timestamp, and `Struct`, `Value` and messages that
contain themselves are JSON.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.registry.client import RegisteredSchema, SchemaType
from barnabas_pipelines.registry.reading import (
    TIMESTAMP,
    Convert,
    Decode,
    UnreadableError,
    as_struct,
    convert_each,
    converted,
    list_of,
    split_message_indexes,
)

_DEFAULT_NAME: Final = "barnabas.value.proto"
_SIMPLE: Final[Mapping[int, pa.DataType]] = {
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_FIXED64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.decimal128(20, 0),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_JSON: Final = frozenset(
    {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
)
_Get = Callable[[Message], Any]


class ProtobufReader:
    """Reads one message of a schema: the first, or the one of this name."""

    def __init__(self, schema: RegisteredSchema, message: str | None = None) -> None:
        """Parse it. Raises: OptionsError."""
        try:
            pool, file = _parsed(schema)
        except UnreadableError as error:
            raise OptionsError(f"the schema {schema.schema_id}: {error}") from error
        names = [f"{file.package}.{one.name}".lstrip(".") for one in file.message_type]
        if message is None and not names:
            raise OptionsError(f"the schema {schema.schema_id} has no message")
        self._name = message or names[0]
        try:
            descriptor = pool.FindMessageTypeByName(self._name)
        except KeyError:
            known = ", ".join(names)
            raise OptionsError(
                f"the schema {schema.schema_id} has no message {message}; it has {known}"
            ) from None
        self._pool = pool
        self._class = message_factory.GetMessageClass(descriptor)
        self.type, self._fields = _struct(descriptor, ())

    def decoder(self, writer: RegisteredSchema) -> Decode:
        """See `ValueReader`."""
        if writer.type is not SchemaType.PROTOBUF:
            raise UnreadableError(f"it is {writer.type.shown} and no Protobuf")
        _, file = _parsed(writer)
        names: dict[tuple[int, ...], str] = {}

        def decode(payload: bytes) -> Mapping[str, Any]:
            indexes, body = split_message_indexes(payload)
            name = names.get(indexes) or _message_name(file, indexes)
            names[indexes] = name
            if name != self._name:
                raise UnreadableError(f"it is a message {name} and no {self._name}")
            try:
                message = self._class.FromString(body)
                return self._fields(message)
            except Exception as error:  # whatever Protobuf meets in bytes, and in making JSON
                raise UnreadableError(f"it is no message {name}") from error

        return decode


def _parsed(
    schema: RegisteredSchema,
) -> tuple[DescriptorPool, descriptor_pb2.FileDescriptorProto]:
    """The messages of the schema and of all that it refers to, and its own file."""
    from confluent_kafka.schema_registry.common.protobuf import _init_pool

    pool = DescriptorPool()
    # What Google and Confluent define: registries do not keep it.
    _init_pool(pool)
    try:
        for name, text in schema.references:
            pool.Add(_file(name, text))
        file = _file(_DEFAULT_NAME, schema.text)
        pool.Add(file)
        pool.FindFileByName(file.name)
    except (binascii.Error, DecodeError, TypeError, KeyError) as error:
        raise UnreadableError(
            f"its schema {schema.schema_id} cannot be used, as a file descriptor in Base64 with "
            "all that it refers to"
        ) from error
    return pool, file


def _file(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    file.ParseFromString(base64.b64decode(text, validate=True))
    # Others refer to it by this name, whatever it was called where it was made.
    file.name = name
    return file


def _message_name(file: descriptor_pb2.FileDescriptorProto, indexes: tuple[int, ...]) -> str:
    """The full name of the message at the end of the way. Raises: UnreadableError."""
    path = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise UnreadableError(f"its schema has no message at {list(indexes)}")
        path.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(path)


def _struct(descriptor: Descriptor, above: tuple[str, ...]) -> tuple[pa.StructType, Any]:
    """The type of a message's fields, and what makes them of it."""
    inside = (*above, descriptor.full_name)
    types: list[tuple[str, pa.DataType]] = []
    getters: list[tuple[str, _Get]] = []
    for field in descriptor.fields:
        kind, get = _field(field, inside)
        types.append((field.name, kind))
        getters.append((field.name, get))

    def fields(message: Message) -> dict[str, Any]:
        return {name: get(message) for name, get in getters}

    return as_struct(types), fields


def _field(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, _Get]:
    name = field.name
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, _ = _one(inner.fields_by_name["key"], above)
        item, convert = _one(inner.fields_by_name["value"], above)

        def pairs(message: Message) -> list[tuple[Any, Any]]:
            return [(key, converted(convert, one)) for key, one in getattr(message, name).items()]

        return pa.map_(key, item), pairs
    kind, convert = _one(field, above)
    if field.is_repeated:
        each = convert_each(convert) or list
        return list_of(kind), lambda message: each(getattr(message, name))
    if field.has_presence:
        return (
            kind,
            lambda message: (
                converted(convert, getattr(message, name)) if message.HasField(name) else None
            ),
        )
    if convert is None:
        return kind, lambda message: getattr(message, name)
    return kind, lambda message: convert(getattr(message, name))


def _one(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    """The type of one value of the field, and its conversion."""
    if field.enum_type is not None:
        return pa.string(), _enum(field.enum_type)
    message = field.message_type
    if message is None:
        return _SIMPLE[field.type], None
    if message.full_name == _TIMESTAMP:
        return TIMESTAMP, lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if message.full_name in _JSON or message.full_name in above or not message.fields:
        return pa.string(), lambda value: json_format.MessageToJson(value, indent=None)
    return _struct(message, above)


def _enum(kind: EnumDescriptor) -> Convert:
    names = {value.number: value.name for value in kind.values}
    # Open enums have values that this schema does not know yet.
    return lambda number: names.get(number) or str(number)
