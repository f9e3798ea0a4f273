"""JSON whose numbers stay the text that was written. Pure.

A number as a double would lose digits of 64-bit integers (CON-114).

Invariants: what is read and written again has the same values, to the last digit; nothing deeper
than `DEPTH_MAX` is read or written, so no input can exhaust the stack; nor are more values than
`VALUES_MAX`, so that none holds the loop for long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final, TypeAlias

DEPTH_MAX: Final = 256
"""So deep may arrays and objects be nested."""
VALUES_MAX: Final = 10_000
"""So many values one may have in it: small ones take the most time for their size."""
CHARACTERS_MAX: Final = 64 * 1024 * 1024
"""So long may a text become."""

_TEXT: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class NumberText(str):
    """A number as it stands in the text."""

    __slots__ = ()


JsonValue: TypeAlias = (
    "bool | str | NumberText | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)


def parse_json(text: str) -> JsonValue:
    """Read a JSON text; of members with the same name the last one counts.

    Raises: ValueError for what is no JSON, NaN and infinities included, for too deep nesting and
    for too many values.
    """
    if has_many_values(text):
        raise ValueError(f"more than {VALUES_MAX:,} values")
    try:
        value: JsonValue = json.loads(
            text, parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse
        )
    except RecursionError:
        raise ValueError(f"nested more than {DEPTH_MAX} deep") from None
    # Each level takes a bracket: most texts need not be looked at again.
    if text.count("[") + text.count("{") > DEPTH_MAX:
        _check_depth(value)
    return value


def has_many_values(text: str) -> bool:
    """Whether a text has more than `VALUES_MAX` values, if it is JSON; takes little time."""
    if _marks(text, 0, len(text)) <= VALUES_MAX:
        return False
    # Commas and brackets may stand in texts, which are few then, or values themselves.
    count = at = 0
    for number, found in enumerate(_TEXT.finditer(text)):
        count += _marks(text, at, found.start())
        at = found.end()
        if number >= VALUES_MAX or count > VALUES_MAX:
            return True
    return count + _marks(text, at, len(text)) > VALUES_MAX


def _marks(text: str, start: int, end: int) -> int:
    """What begins a value that is not the first."""
    return text.count(",", start, end) + text.count("[", start, end) + text.count("{", start, end)


def write_json(value: Any) -> str:
    """Write a value as JSON, without a space between; integers and `NumberText` digit by digit.

    Takes what decoders give, too: bytes become hexadecimal digits; NaN, infinities and what JSON
    has no form for become text. Raises: ValueError for too deep nesting and too long a text.
    """
    writer = _Writer()
    writer.write(value, DEPTH_MAX)
    return "".join(writer.parts)


class _Writer:
    """Collects the parts of one text, and counts them: names may make it long."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._left = CHARACTERS_MAX
        self._values_left = VALUES_MAX

    def write(self, value: Any, levels_left: int) -> None:
        """Add a value. Raises: ValueError."""
        self._values_left -= 1
        if self._values_left < 0:
            raise ValueError(f"more than {VALUES_MAX:,} values")
        match value:
            case None:
                self._add("null")
            case bool():
                self._add("true" if value else "false")
            case NumberText():
                self._add(value)
            case str():
                self._add(_quoted(value))
            case int():
                self._add(int.__repr__(value))
            case float():
                is_finite = value - value == 0
                self._add(repr(value) if is_finite else _quoted(repr(value)))
            case bytes() | bytearray() | memoryview():
                self._add(f'"{bytes(value).hex()}"')
            case Mapping():
                self._members(value, _one_level_down(levels_left))
            case list() | tuple():
                self._items(value, _one_level_down(levels_left))
            case _:
                self._add(_quoted(str(value)))

    def _items(self, value: Sequence[Any], levels_left: int) -> None:
        self._add("[")
        for number, item in enumerate(value):
            if number:
                self._add(",")
            self.write(item, levels_left)
        self._add("]")

    def _members(self, value: Mapping[Any, Any], levels_left: int) -> None:
        self._add("{")
        for number, (name, item) in enumerate(value.items()):
            if number:
                self._add(",")
            name = name.hex() if isinstance(name, bytes) else str(name)
            self._add(f"{_quoted(name)}:")
            self.write(item, levels_left)
        self._add("}")

    def _add(self, part: str) -> None:
        self._left -= len(part)
        if self._left < 0:
            raise ValueError(f"it would become more than {CHARACTERS_MAX >> 20} MiB of text")
        self.parts.append(part)


def _quoted(text: str) -> str:
    quoted: str = encode_basestring(text)
    try:
        quoted.encode()
    except UnicodeEncodeError:
        # Half a pair has no UTF-8: it stays the escape that it was read from.
        return encode_basestring_ascii(text)
    return quoted


def _one_level_down(levels_left: int) -> int:
    if not levels_left:
        raise ValueError(f"nested more than {DEPTH_MAX} deep")
    return levels_left - 1


def _check_depth(value: JsonValue) -> None:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        below: list[JsonValue] = []
        for one in level:
            if isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                below += one.values()
        if not below:
            return
        level = below
    raise ValueError(f"nested more than {DEPTH_MAX} deep")


def _refuse(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")
