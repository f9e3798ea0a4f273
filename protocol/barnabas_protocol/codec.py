"""Reads and writes whole messages of any version, and the headers around them.

The functions for one version of one message are compiled on its first use and kept; an idle
broker compiles nothing. Whatever is malformed in bytes from outside raises `ParseError`, also a
version that the schema table lacks. What lies behind a message is the caller's affair: `decode`
returns the end position. Used by both roles; requests and responses differ only in headers.
"""

import importlib
import struct
from typing import Any, Final, NamedTuple, TypeVar

from barnabas_protocol.api import (
    ApiKey,
    first_flexible_version,
    request_header_version,
    response_header_version,
)
from barnabas_protocol.errors import ParseError
from barnabas_protocol.primitives import Buffer, read_unsigned_varint, skip_tagged_fields
from barnabas_protocol.readers import Reader, compile_reader
from barnabas_protocol.schema import Message, MessageType
from barnabas_protocol.writers import Writer, compile_writer

MessageT = TypeVar("MessageT", bound=Message)

# What compiled readers raise besides ParseError when the input is cut short or malformed.
_MALFORMED: Final = (IndexError, struct.error, UnicodeDecodeError, OverflowError)

_request_classes: dict[int, MessageType] = {}
_response_classes: dict[int, MessageType] = {}
_keys_by_class: dict[type[Any], ApiKey] = {}

_new_tuple: Final = tuple.__new__
_REQUEST_HEADER: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = struct.Struct(">ix")


class RequestHeader(NamedTuple):
    """The API, version and sender of a request, and where in the frame its body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    position: int


def _check_version(kind: MessageType, version: int) -> None:
    versions = kind.__versions__
    if versions is None:
        raise TypeError(f"{kind.__name__} is a part of messages, not a message")
    if not versions[0] <= version <= versions[1]:
        raise ParseError(f"{kind.__name__} has no version {version}")


def _reader(kind: MessageType, version: int) -> Reader:
    _check_version(kind, version)
    reader = kind.__readers__[version] = compile_reader(kind, version)
    return reader


def _writer(kind: MessageType, version: int) -> Writer:
    _check_version(kind, version)
    writer = kind.__writers__[version] = compile_writer(kind, version)
    return writer


def decode(
    kind: type[MessageT], buffer: Buffer, version: int, position: int = 0
) -> tuple[MessageT, int]:
    """Read a message; return it and the position after it.

    Fields of bytes and record batches are slices of the buffer, not copies.
    Raises: ParseError if the bytes are malformed or the version is unknown.
    """
    read = kind.__readers__.get(version) or _reader(kind, version)
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        message, end = read(view, position)
    except _MALFORMED as error:
        raise ParseError(f"{kind.__name__} {version} is malformed: {error}", position) from error
    if end > len(view):
        raise ParseError(f"{kind.__name__} {version} is cut short", len(view))
    return message, end


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append a message to the bytes already there."""
    kind = type(message)
    write = kind.__writers__.get(version) or _writer(kind, version)
    write(message, out, None)


def encode(message: Message, version: int) -> bytes:
    """Return the bytes of a message."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def _class_name(key: int) -> tuple[str, str]:
    """Return the module and the prefix of the two classes of an API."""
    module = ApiKey(key).name.lower()
    return module, "".join(word.capitalize() for word in module.split("_"))


def _load(key: int, suffix: str) -> MessageType:
    module, prefix = _class_name(key)
    loaded = importlib.import_module(f"barnabas_protocol.messages.{module}")
    kind = getattr(loaded, prefix + suffix)
    assert isinstance(kind, MessageType)
    return kind


def request_class(key: int) -> Any:
    """Return the request class of an API, importing its module on first use.

    Raises: ValueError if there is no such key.
    """
    kind = _request_classes.get(key)
    if kind is None:
        kind = _request_classes[key] = _load(key, "Request")
    return kind


def response_class(key: int) -> Any:
    """Return the response class of an API, importing its module on first use.

    Raises: ValueError if there is no such key.
    """
    kind = _response_classes.get(key)
    if kind is None:
        kind = _response_classes[key] = _load(key, "Response")
    return kind


def api_key_of(kind: type[Any]) -> ApiKey:
    """Return the API that a request or response class belongs to: by its module's name.

    Raises: KeyError if it is a message of none, such as a record.
    """
    key = _keys_by_class.get(kind)
    if key is None:
        key = _keys_by_class[kind] = ApiKey[kind.__module__.rpartition(".")[2].upper()]
    return key


def read_request_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request.

    The header of an unknown key is read without tagged fields: its body cannot be read anyway.
    Raises: ParseError if the bytes are malformed.
    """
    try:
        key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        position = _REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            end = position + length
            client_id = str(frame[position:end], "utf-8")
            position = end
        elif length != -1:
            raise ParseError("the client id has a negative length", position)
        if version >= first_flexible_version(key):
            count, position = read_unsigned_varint(frame, position)
            if count:
                position = skip_tagged_fields(frame, position, count)
    except _MALFORMED as error:
        raise ParseError(f"the request header is malformed: {error}") from error
    if position > len(frame):
        raise ParseError("the request header is cut short", len(frame))
    # Half the cost of calling the class, once per request.
    return _new_tuple(RequestHeader, (key, version, correlation_id, client_id, position))


def encode_request(
    message: Message, key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return a request with its header, without the size in front."""
    text = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(text)
    out = bytearray(_REQUEST_HEADER.pack(key, version, correlation_id, length))
    out += text
    if request_header_version(key, version) > 1:
        out.append(0)
    encode_into(message, version, out)
    return bytes(out)


def _response_header(key: int, version: int, correlation_id: int) -> bytes:
    if response_header_version(key, version):
        return _CORRELATION_ID_AND_NO_TAGS.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def encode_response(message: Message, key: int, version: int, correlation_id: int) -> bytes:
    """Return a response with its header, without the size in front."""
    out = bytearray(_response_header(key, version, correlation_id))
    encode_into(message, version, out)
    return bytes(out)


def encode_response_parts(
    message: Message, key: int, version: int, correlation_id: int
) -> list[Buffer]:
    """Return a response as buffers to be written one after the other, without the size in front.

    Record batches are among them as they were given (a buffer, or a list of buffers), not copied.
    """
    return encode_parts(message, version, bytearray(_response_header(key, version, correlation_id)))


def encode_parts(message: Message, version: int, head: bytearray) -> list[Buffer]:
    """Append a message to the bytes in `head`; return buffers to be written one after the other.

    Record batches are among them as they were given (a buffer, or a list of buffers), not copied.
    The first of the buffers is `head` itself.
    """
    kind = type(message)
    write = kind.__writers__.get(version) or _writer(kind, version)
    parts: list[Buffer] = []
    parts.append(write(message, head, parts))
    return parts


def decode_response(buffer: Buffer, key: int, version: int) -> tuple[int, Any]:
    """Read a response without its size; return the correlation id and the message.

    Raises: ParseError if the bytes are malformed or something follows the message.
    """
    if len(buffer) < _CORRELATION_ID.size:
        raise ParseError("the response header is cut short", len(buffer))
    (correlation_id,) = _CORRELATION_ID.unpack_from(buffer)
    position = _CORRELATION_ID.size
    if response_header_version(key, version):
        count, position = read_unsigned_varint(buffer, position)
        position = skip_tagged_fields(buffer, position, count)
    message, end = decode(response_class(key), buffer, version, position)
    if end != len(buffer):
        raise ParseError("bytes follow the response", end)
    return correlation_id, message
