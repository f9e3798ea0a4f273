"""What lists show of each topic, a column for each fact, in little memory (CON-112).

Pure, but that a page of them is made in slices of the loop. A tuple for each topic took three times
as much. Names are interned: all readings and the history have one copy of them.

Invariant: a topic has the same place in every column, the one in which it was added, which is the
order of names; no topic is added while a page is made.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from barnabas_client.admin.values.topics import TopicDescription
from barnabas_client.facts.topic_facts import summary, topic_id_text
from barnabas_console.loop_slices import LoopSlices
from barnabas_protocol.ids import UUID_BYTES

_COUNTS: Final = ("partitions", "replicas", "leaders", "under_replicated", "offline")
ROW_FIELDS: Final = ("topic", *_COUNTS, "internal", "topic_id", "size_bytes")
_UNKNOWN: Final = -1

ValueOf = Callable[[str], float | None]
"""A fact that somebody else has of a topic, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList:
    """Which topics are wanted, in which order; `sort` is one of `ROW_FIELDS`."""

    text: str = ""
    sort: str = "topic"
    is_descending: bool = False
    with_internal: bool = False
    offset: int = 0
    limit: int = 100


class TopicColumns:
    """The topics that were added."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}  # in order, and looked up
        self._counts = {field: array("i") for field in _COUNTS}
        self._internal = bytearray()
        self._ids = bytearray()
        self._sizes = array("q")

    @property
    def names(self) -> Set[str]:
        """All names."""
        return self._names.keys()

    def add(self, topic: TopicDescription, size_bytes: int | None) -> None:
        """One more topic, and what it takes on disks where that is known; a name counts once."""
        if topic.name in self._names:
            return
        self._names[sys.intern(topic.name)] = None
        facts = summary(topic)
        for field, column in self._counts.items():
            column.append(facts[field])
        self._internal.append(topic.is_internal)
        self._ids += topic.topic_id
        self._sizes.append(_UNKNOWN if size_bytes is None else size_bytes)

    async def page(
        self, wanted: TopicList, slices: LoopSlices, beside: Mapping[str, ValueOf] | None = None
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many topics fit, and those from `offset` on, as `topic list -o json` has them.

        `beside` are more fields, by a topic's name; `sort` may be one of them. What is unknown
        comes after everything else; equals are in order of their names.
        """
        more = beside or {}
        names = list(self._names)
        sought = wanted.text.casefold()
        places: list[int] = []
        async for piece in slices.pieces(range(len(names))):
            places += [
                place
                for place in piece
                if (wanted.with_internal or not self._internal[place])
                and sought in names[place].casefold()
            ]
        if wanted.sort != "topic":
            places = await self._sorted(places, names, wanted, slices, more.get(wanted.sort))
        elif wanted.is_descending:
            places.reverse()
        rows: list[dict[str, Any]] = []
        async for piece in slices.pieces(places[wanted.offset : wanted.offset + wanted.limit]):
            rows += [
                {
                    **self._row(place, names[place]),
                    **{field: value_of(names[place]) for field, value_of in more.items()},
                }
                for place in piece
            ]
        return len(places), rows

    async def _sorted(
        self,
        places: list[int],
        names: Sequence[str],
        wanted: TopicList,
        slices: LoopSlices,
        value_of: ValueOf | None,
    ) -> list[int]:
        """By a column, or by what is told of a topic's name; the unknown last."""
        column = self._column(wanted.sort) if value_of is None else None
        values: dict[int, Any] = {}
        unknown: list[int] = []
        async for piece in slices.pieces(places):
            for place in piece:
                if column is not None:
                    value = column(place)
                else:
                    assert value_of is not None
                    value = value_of(names[place])
                if value is None:
                    unknown.append(place)
                else:
                    values[place] = value
        await slices.pause()
        return sorted(values, key=values.__getitem__, reverse=wanted.is_descending) + unknown

    def _row(self, place: int, name: str) -> dict[str, Any]:
        return {"topic": name} | {field: self._column(field)(place) for field in ROW_FIELDS[1:]}

    def _column(self, field: str) -> Callable[[int], Any]:
        """The facts of one field, by the place of their topic."""
        match field:
            case "internal":
                return lambda place: bool(self._internal[place])
            case "topic_id":
                return self._topic_id
            case "size_bytes":
                return self._size
            case _:
                return self._counts[field].__getitem__

    def _topic_id(self, place: int) -> str | None:
        return topic_id_text(bytes(self._ids[place * UUID_BYTES : (place + 1) * UUID_BYTES]))

    def _size(self, place: int) -> int | None:
        size = self._sizes[place]
        return None if size == _UNKNOWN else size
