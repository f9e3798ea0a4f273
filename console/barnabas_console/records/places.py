"""Where a reading begins: what somebody asks for, and the cursors of "go on". Pure.

    at      = "newest" | "oldest" | "offset:" N | "time:" moment | cursor
    cursor  = ("older:" | "newer:") offset *( "." offset )   ; base 36, one a partition, in order

A cursor is of the partitions that were read; "older" ones are exclusive ends, "newer" ones begins.
An offset below 0 counts from the end.

Source: CON-136.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas_client.facts.moments import parse_moment_ms
from barnabas_console.records.frontier import Direction

PARTITIONS_MAX: Final = 500
"""So many partitions are read at once."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_OFFSET_MAX: Final = (1 << 63) - 1


class PlaceKind(Enum):
    """What a place is given by."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OFFSET = "offset"
    TIME = "time"
    OLDER = "older"
    NEWER = "newer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to begin; `number` is an offset or a time, `offsets` are those of a cursor."""

    kind: PlaceKind
    number: int = 0
    offsets: tuple[int, ...] = ()

    @property
    def direction(self) -> Direction:
        """Which way it is read from there unless somebody says otherwise."""
        if self.kind in (PlaceKind.NEWEST, PlaceKind.OLDER):
            return Direction.BACKWARDS
        return Direction.FORWARDS


NEWEST: Final = Place(kind=PlaceKind.NEWEST)


def parse_place(text: str, now_ms: int) -> Place:
    """Read a place. Raises: ValueError saying how they are written."""
    name, _, rest = text.partition(":")
    match name:
        case "newest" | "oldest" if not rest:
            return Place(kind=PlaceKind(name))
        case "offset" if _is_offset(rest.removeprefix("-")):
            return Place(kind=PlaceKind.OFFSET, number=int(rest))
        case "time":
            return Place(kind=PlaceKind.TIME, number=max(parse_moment_ms(rest, now_ms), 0))
        case "older" | "newer":
            parts = rest.split(".")
            if len(parts) <= PARTITIONS_MAX and all(_is_base_36(part) for part in parts):
                offsets = tuple(min(int(part, 36), _OFFSET_MAX) for part in parts)
                return Place(kind=PlaceKind(name), offsets=offsets)
    raise ValueError(
        f"'{text[:100]}' is no place: newest, oldest, offset:1204, time:2026-11-21T10:30 or time:1h"
    )


def cursor(direction: Direction, offsets: Sequence[int]) -> str:
    """The place from which to go on."""
    kind = PlaceKind.OLDER if direction is Direction.BACKWARDS else PlaceKind.NEWER
    return f"{kind.value}:{'.'.join(map(_base_36, offsets))}"


def offsets_of(
    place: Place,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    times: Mapping[int, int | None],
) -> dict[int, int]:
    """The offset at which each partition begins; `times` are those of a place by time.

    Raises: ValueError for a cursor of other partitions.
    """
    numbers = sorted(starts)
    match place.kind:
        case PlaceKind.NEWEST:
            return dict(ends)
        case PlaceKind.OLDEST:
            return dict(starts)
        case PlaceKind.OFFSET if place.number >= 0:
            return dict.fromkeys(numbers, place.number)
        case PlaceKind.OFFSET:
            return {number: ends[number] + place.number for number in numbers}
        case PlaceKind.TIME:
            found = {number: times.get(number) for number in numbers}
            return {
                number: ends[number] if offset is None else offset
                for number, offset in found.items()
            }
    if len(place.offsets) != len(numbers):
        raise ValueError("the topic's partitions have changed: begin again")
    return dict(zip(numbers, place.offsets, strict=True))


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _is_base_36(text: str) -> bool:
    return 0 < len(text) <= 13 and all(digit in _DIGITS for digit in text)


def _base_36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
