"""A key or a value as people read it, and the formats that need no library. Pure.

Not here: formats with schemas (`avro_content.py`, `protobuf_content.py`), MessagePack, which format
is guessed (`decoding.py`).

Source: CON-114. Invariants: text is what was stored, to the last digit; what cannot be read is
shown in hexadecimal digits with the reason, and never stops a page.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from barnabas_console.records.json_text import CHARACTERS_MAX, JsonValue, parse_json, write_json

TREE_BYTES_MAX: Final = 256 * 1024
"""What is larger is not taken apart: a small part of the loop's time, and of memory that a value
made to explode would take."""
_SHORT_INTEGERS: Final = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}
_DOUBLES: Final = {4: ">f", 8: ">d"}
_HEX_BYTES_MAX: Final = CHARACTERS_MAX // 2


class Format(Enum):
    """How bytes are read."""

    NULL = "null"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"
    NUMBER = "number"
    DOUBLE = "double"
    MESSAGE_PACK = "msgpack"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    INTERNAL = "internal"
    MASKED = "masked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A key or value that was read; `problem` says why it is not what was asked for."""

    format: Format
    text: str | None
    size_bytes: int = 0
    schema_id: int | None = None
    problem: str | None = None
    #: The value that the text stands for, where it was worked out already.
    tree: tuple[JsonValue, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_text(self) -> bool:
        """Whether the text is content, and not merely how bytes are shown."""
        return self.format not in (Format.NULL, Format.HEX)

    @property
    def is_json(self) -> bool:
        """Whether the text is JSON."""
        return self.format in _JSON_FORMATS


_JSON_FORMATS: Final = frozenset(
    (Format.JSON, Format.MESSAGE_PACK, Format.AVRO, Format.PROTOBUF, Format.INTERNAL)
)


class UnreadableError(ValueError):
    """The bytes are not of this format; the message says why."""


Decode: TypeAlias = Callable[[bytes], Content]

NULL: Final = Content(format=Format.NULL, text=None)


def as_hex(data: bytes, problem: str | None = None) -> Content:
    """The bytes in hexadecimal digits, which never fails."""
    shown = data if len(data) <= _HEX_BYTES_MAX else data[:_HEX_BYTES_MAX]
    return Content(format=Format.HEX, text=shown.hex(), size_bytes=len(data), problem=problem)


def as_text(data: bytes) -> Content:
    """Bytes that are UTF-8. Raises: UnreadableError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"byte {error.start} is no UTF-8") from None
    return Content(format=Format.TEXT, text=text, size_bytes=len(data))


def as_json(data: bytes) -> Content:
    """Bytes that are a JSON text. Raises: UnreadableError."""
    content = as_text(data)
    if len(data) > TREE_BYTES_MAX:
        raise UnreadableError(f"more than {TREE_BYTES_MAX // 1024} KiB are shown as text")
    tree = json_tree(content.text or "")
    return Content(format=Format.JSON, text=content.text, size_bytes=len(data), tree=(tree,))


def as_number(data: bytes) -> Content:
    """A big-endian signed integer of 1, 2, 4 or 8 bytes. Raises: UnreadableError."""
    return _number(data, _SHORT_INTEGERS, Format.NUMBER)


def as_double(data: bytes) -> Content:
    """A big-endian floating-point number of 4 or 8 bytes. Raises: UnreadableError."""
    return _number(data, _DOUBLES, Format.DOUBLE)


def as_tree(value: Any, how: Format, size_bytes: int, schema_id: int | None = None) -> Content:
    """What a library has decoded, as JSON. Raises: UnreadableError."""
    try:
        text = write_json(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from None
    return Content(format=how, text=text, size_bytes=size_bytes, schema_id=schema_id)


def json_tree(text: str) -> JsonValue:
    """The value of a JSON text. Raises: UnreadableError."""
    try:
        return parse_json(text)
    except ValueError as error:
        raise UnreadableError(f"no JSON: {error}") from None


def _number(data: bytes, layouts: dict[int, str], how: Format) -> Content:
    layout = layouts.get(len(data))
    if layout is None:
        sizes = ", ".join(map(str, layouts))
        raise UnreadableError(f"a number has {sizes} bytes, not {len(data)}")
    (number,) = struct.unpack(layout, data)
    return Content(format=how, text=repr(number), size_bytes=len(data))
