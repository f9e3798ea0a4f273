"""Kinds of values: what a setting takes, in words, and how what was given becomes the value. Pure.

`read` takes text, as a file or a command line has it, or the value itself. It raises ValueError,
with a text that completes the sentence "NAME='given': ", or without one: then the words say what is
wanted. Kinds that only one part knows (offsets, files, classes) are made there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas_protocol.settings.durations import parse_duration_ms
from barnabas_protocol.settings.sizes import parse_size

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of values; `name` is the reference's word, `words` completes "it must be"."""

    name: str
    words: str
    read: Callable[[Any], Any]


def as_text(value: Any) -> str:
    """The text of a value that YAML or JSON has read: as somebody would have written it.

    Raises: ValueError where it is not one value.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case int() | float():
            return str(value)
    raise ValueError("it must be one value: a text, a number, true or false")


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list; an empty text is an empty list."""
    return tuple(item.strip() for item in text.split(",")) if text else ()


def read_integer(value: Any) -> int:
    """A whole number, of text or as it is. Raises: ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        written = value.strip()
        digits = written[1:] if written[:1] in ("-", "+") else written
        if digits.isascii() and digits.isdigit():
            return int(written)
    raise ValueError


def read_number(value: Any) -> float:
    """A number, of text or as it is. Raises: ValueError."""
    if isinstance(value, bool):
        raise ValueError
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError from None


def read_boolean(value: Any) -> bool:
    """A truth, of text or as it is. Raises: ValueError."""
    if isinstance(value, bool):
        return value
    known = _TRUTHS.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        raise ValueError
    return known


def read_text(value: Any) -> str:
    """The text as it is: a password may end in a space. Raises: ValueError."""
    if not isinstance(value, str):
        raise ValueError
    return value


def _read_filled_text(value: Any) -> str:
    text = read_text(value)
    if not text.strip():
        raise ValueError("it is blank")
    return text


def _read_list(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(item for item in split_list(value) if item)
    if not isinstance(value, Sequence):
        raise ValueError
    return tuple(value)


def _read_names(value: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name for name in split_list(read_text(value)) if name))
    if not found:
        raise ValueError
    return found


def _read_pairs(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): as_text(one) for name, one in value.items()}
    if not isinstance(value, str):
        raise ValueError("it must be a mapping of names to values")
    name, equals, text = value.partition("=")
    if not equals or not name.strip():
        raise ValueError
    return {name.strip(): text}


def _read_duration_ms(value: Any) -> int:
    """Bare numbers are milliseconds."""
    text = str(value).strip()
    try:
        return int(text) if text.isdecimal() else parse_duration_ms(text)
    except ValueError:
        raise ValueError from None  # the words say as much


def _read_size(value: Any) -> int:
    return parse_size(str(value))


def _bounded(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = read_integer(value)
        if not least <= number <= most:
            raise ValueError
        return number

    return read


TEXT: Final = Kind("text", "text", read_text)
FILLED_TEXT: Final = Kind("text", "text", _read_filled_text)
BOOLEAN: Final = Kind("bool", "true or false", read_boolean)
INTEGER: Final = Kind("int", "a whole number", read_integer)
SHORT: Final = Kind("short", "a whole number of 16 bits", _bounded(-SHORT_MAX - 1, SHORT_MAX))
INT: Final = Kind("int", "a whole number of 32 bits", _bounded(-INT_MAX - 1, INT_MAX))
LONG: Final = Kind("long", "a whole number of 64 bits", _bounded(-LONG_MAX - 1, LONG_MAX))
NUMBER: Final = Kind("number", "a number", read_number)
LIST: Final = Kind("list", "a list, or text with commas", _read_list)
NAMES: Final = Kind("names", "one name, or several with commas", _read_names)
PAIRS: Final = Kind("pairs", "NAME=VALUE, or a mapping of names to values", _read_pairs)
DURATION: Final = Kind(
    "duration", "a duration such as 500ms, 10s, 15m, 2h or 1d", _read_duration_ms
)
SIZE: Final = Kind("bytes", "a size such as 1048576, 64 MiB or 1 GiB", _read_size)
OBJECT: Final = Kind("object", "an object", lambda value: value)


def any_of(*kinds: Kind) -> Kind:
    """The first of several kinds that takes a value."""
    if len(kinds) == 1:
        return kinds[0]

    def read(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.read(value)
            except ValueError:
                continue
        raise ValueError

    return Kind(
        " or ".join(kind.name for kind in kinds), " or ".join(kind.words for kind in kinds), read
    )
