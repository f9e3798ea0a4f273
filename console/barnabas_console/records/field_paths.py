"""The path to a field inside of JSON, as filters and masks write it: `items.0.price`. Pure.

    path  = part *( "." part )
    part  = word | quoted | "*"      ; "*" is each member or element

A number is the element of an array, or the member of that name of an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from barnabas_console.records.json_text import JsonValue

PARTS_MAX: Final = 32
"""So many parts a path has at most."""
EACH: Final = "*"
"""The part that stands for each member or element."""


def values_at(value: JsonValue, path: tuple[str, ...]) -> Iterator[JsonValue]:
    """Yield what stands at the path: nothing, one value, or more of them where it has a `*`."""
    for number, part in enumerate(path):
        if part == EACH:
            children = _children(value)
            for child in children:
                yield from values_at(child, path[number + 1 :])
            return
        if isinstance(value, Mapping):
            if part not in value:
                return
            value = value[part]
        elif isinstance(value, list) and _is_index(part, len(value)):
            value = value[int(part)]
        else:
            return
    yield value


def replaced_at(value: JsonValue, path: tuple[str, ...], by: str) -> JsonValue:
    """Return the value with a text in place of whatever stands at the path.

    Rather too much than too little: also in place of a text or number where the path would go on,
    and in each element of an array that the path does not mention.
    """
    if not path:
        return by
    part, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        names = value.keys() if part == EACH else {part} & value.keys()
        if not names:
            return value
        return {
            name: replaced_at(item, rest, by) if name in names else item
            for name, item in value.items()
        }
    if isinstance(value, list):
        if part == EACH:
            return [replaced_at(item, rest, by) for item in value]
        if not part.isdecimal():
            return [replaced_at(item, path, by) for item in value]
        if _is_index(part, len(value)):
            at = int(part)
            return [*value[:at], replaced_at(value[at], rest, by), *value[at + 1 :]]
        return value
    return None if value is None else by


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _is_index(part: str, count: int) -> bool:
    # Longer ones are behind the end of any array, and cost time to read.
    return part.isascii() and part.isdigit() and len(part) <= 9 and int(part) < count
