"""The fields of a protobuf message, one after the other, without descriptors and without copies.

It goes through one message at a time and never into another by itself: how deep bytes are nested is
up to who reads. Every field costs one of a number that the whole of a reading has, so the time
is bounded whatever the bytes are.

Source: protobuf's encoding guide. Groups, which are older than proto3, are refused.
Invariants: nothing is read beyond the end; every malformed input is a ParseError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas_protocol.errors import ParseError

_VARINT_BYTES_MAX: Final = 10
_UINT64_MAX: Final = 2**64 - 1
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")


# How a field is written: plain numbers, as there are thousands of fields.
VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5


class ProtobufField(NamedTuple):
    """A field; `start` and `end` are where its bytes are, of a varint `value` is the number."""

    number: int
    wire_type: int
    start: int
    end: int
    value: int


class ProtobufReader:
    """Reads fields of bytes that somebody else made."""

    __slots__ = ("_data", "_fields_left")

    def __init__(self, data: bytes, fields_max: int) -> None:
        self._data = data
        self._fields_left = fields_max

    def whole(self) -> ProtobufField:
        """All the bytes, as the field of a message."""
        return ProtobufField(0, LENGTH, 0, len(self._data), 0)

    def fields(self, message: ProtobufField) -> Iterator[ProtobufField]:
        """The fields of a message. Raises: ParseError where it is none, or there are too many."""
        if message.wire_type != LENGTH:
            raise ParseError(f"field {message.number} is no message", message.start)
        position, end = message.start, message.end
        while position < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise ParseError("too many fields", position)
            field = self._field(position, end)
            yield field
            position = field.end

    def text(self, field: ProtobufField) -> str:
        """The text of a field. Raises: ParseError."""
        if field.wire_type != LENGTH:
            raise ParseError(f"field {field.number} is no text", field.start)
        try:
            return self._data[field.start : field.end].decode()
        except UnicodeDecodeError:
            raise ParseError(f"field {field.number} is not UTF-8", field.start) from None

    def double(self, field: ProtobufField) -> float:
        """The double of a field. Raises: ParseError."""
        self._check_fixed64(field)
        value: float = _DOUBLE.unpack_from(self._data, field.start)[0]
        return value

    def sfixed64(self, field: ProtobufField) -> int:
        """The signed number of a field of fixed size. Raises: ParseError."""
        self._check_fixed64(field)
        value: int = _INT64.unpack_from(self._data, field.start)[0]
        return value

    def unsigned(self, field: ProtobufField) -> int:
        """The number of a varint. Raises: ParseError."""
        if field.wire_type != VARINT:
            raise ParseError(f"field {field.number} is no varint", field.start)
        return field.value

    def _check_fixed64(self, field: ProtobufField) -> None:
        if field.wire_type != FIXED64:
            raise ParseError(f"field {field.number} is not of 64 bits", field.start)

    def _field(self, position: int, end: int) -> ProtobufField:
        tag, start = self._varint(position, end)
        number, wire_type, value = tag >> 3, tag & 7, 0
        if not 0 < number < 2**29:
            raise ParseError(f"no field has the number {number}", position)
        if wire_type == LENGTH:
            length, start = self._varint(start, end)
            after = start + length
        elif wire_type == VARINT:
            value, after = self._varint(start, end)
        elif wire_type == FIXED64:
            after = start + 8
        elif wire_type == FIXED32:
            after = start + 4
        else:
            raise ParseError(f"unknown wire type {wire_type}", position)
        if after > end:
            raise ParseError(f"field {number} is cut off", position)
        return ProtobufField(number, wire_type, start, after, value)

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        data = self._data
        if position < end and data[position] < 0x80:  # nearly always
            return data[position], position + 1
        value = shift = 0
        for at in range(position, min(end, position + _VARINT_BYTES_MAX)):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _UINT64_MAX:
                    break
                return value, at + 1
            shift += 7
        raise ParseError("a varint is cut off or too long", position)
