"""Protobuf by a file of descriptors (`protoc --descriptor_set_out --include_imports`).

The library is Google's, and so is the JSON: 64-bit integers are texts in it, to the last digit. Its
parser stops at a depth of 100.

Source: the Protobuf language guide, "ProtoJSON format".
"""

from __future__ import annotations

from typing import Any

from barnabas_console.records.content import (
    TREE_BYTES_MAX,
    Content,
    Decode,
    Format,
    UnreadableError,
    as_tree,
)


def protobuf_decoder(descriptor_set: bytes, message_name: str | None) -> Decode:
    """What reads values of a message; without a name, of the only one there is.

    Raises: ValueError for a file or a name that cannot be used.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ValueError("Protobuf needs the extra: pip install 'barnabas[schemas]'") from None
    pool = descriptor_pool.DescriptorPool()
    names: list[str] = []
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
        for file in files.file:
            pool.Add(file)
            prefix = f"{file.package}." if file.package else ""
            names += [prefix + message.name for message in file.message_type]
        chosen = message_name or _only(names)
        message_class: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(chosen))
    except (DecodeError, TypeError, KeyError) as error:
        known = f"; it has {', '.join(names[:10])}" if names else ""
        raise ValueError(f"no such message in the descriptors: {error}{known}") from None

    def decode(data: bytes) -> Content:
        if len(data) > TREE_BYTES_MAX:
            raise UnreadableError(f"more than {TREE_BYTES_MAX // 1024} KiB are not taken apart")
        try:
            message = message_class.FromString(data)
            value = json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=pool
            )
        except (DecodeError, json_format.Error, ValueError, TypeError, RecursionError) as error:
            raise UnreadableError(f"no {chosen}: {str(error) or type(error).__name__}") from None
        return as_tree(value, Format.PROTOBUF, len(data))

    return decode


def behind_message_indexes(data: bytes) -> bytes:
    """The message behind the place of its type in the file, which a registry's frame has.

    A count and as many places, as zigzag varints; 0 alone stands for the first message.
    Raises: UnreadableError.
    """
    count, position = _varint(data, 0)
    if count > len(data):
        raise UnreadableError(f"{count} message indexes in {len(data)} bytes")
    for _ in range(count):
        _, position = _varint(data, position)
    return data[position:]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    from barnabas_protocol.errors import ParseError
    from barnabas_protocol.records.record import read_varint

    try:
        number, behind = read_varint(data, position)
    except (ParseError, IndexError):
        raise UnreadableError("message indexes cut off") from None
    if number < 0:
        raise UnreadableError(f"message index {number}")
    return number, behind


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise ValueError(f"name the message: one of {', '.join(names[:10])}")
    return names[0]
