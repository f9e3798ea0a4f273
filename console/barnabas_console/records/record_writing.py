"""Writes records by the viewer's own producer: new ones, and dead letters back to their topics.

Source: CON-116. Invariants: what was not acknowledged is told as not written, item by item; of a
topic with masks nothing is sent again (CON-144).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError
from barnabas_console.records.dead_letters import Origin, origin_of, own_headers
from barnabas_console.records.decoding import DecodingRules
from barnabas_console.records.exact_reading import read_exactly
from barnabas_console.records.frontier import Direction
from barnabas_console.records.masking import MaskRules
from barnabas_console.records.new_record import NewRecord
from barnabas_console.records.places import NEWEST
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.record_view import RecordView
from barnabas_console.records.topic_reading import Reader, ReadingChoices

if TYPE_CHECKING:
    from barnabas_client.producer.producer import Producer

WRITE_SECONDS_MAX: Final = 30


class Writer(Reader, Protocol):
    """Whose connection reads and writes: a viewer."""

    async def producer(self) -> Producer:
        """The started producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter and what is sent for it; `problem` says why nothing is."""

    partition: int
    offset: int
    to_topic: str | None = None
    record: NewRecord | None = None
    #: As it is shown in the preview.
    key: str | None = None
    value: str | None = None
    #: Whether key and value are those that the topic it came from still has.
    is_from_origin: bool = False
    problem: str | None = None

    def row(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "partition": self.partition,
            "offset": self.offset,
            "to_topic": self.to_topic,
            "key": None if self.key is None else self.key[:200],
            "value": None if self.value is None else self.value[:200],
            "headers": len(self.record.headers) if self.record is not None else 0,
            "is_from_origin": self.is_from_origin,
            "problem": self.problem,
        }


async def write_record(writer: Writer, topic: str, record: NewRecord) -> dict[str, Any]:
    """Write a record and return where it is. Raises: the client's errors."""
    producer = await writer.producer()
    async with asyncio.timeout(WRITE_SECONDS_MAX):
        metadata = await producer.send(
            topic,
            record.value,
            key=record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
        )
    return {
        "topic": topic,
        "partition": metadata.partition,
        "offset": metadata.offset,
        "timestamp_ms": metadata.timestamp_ms,
    }


class DeadLetterDesk:
    """Prepares dead letters of one topic, and sends them."""

    def __init__(
        self,
        writer: Writer,
        rules: DecodingRules,
        masks: MaskRules,
        budget: ReadingBudget,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._rules = rules
        self._masks = masks
        self._budget = budget
        self._clock = clock

    async def prepare(
        self, topic: str, places: Sequence[tuple[int, int]], to_topic: str | None
    ) -> list[Letter]:
        """Find out what is sent for each; `to_topic` is for all, by default their headers say.

        Raises: as `read_exactly`.
        """
        found = await self._read(topic, places)
        origins = {
            place: origin
            for place, view in found.items()
            if (origin := origin_of(view.source.headers)) is not None
        }
        sources = await self._sources(found, origins)
        return [
            self._letter(topic, place, found.get(place), origins.get(place), sources, to_topic)
            for place in dict.fromkeys(places)
        ]

    async def send(self, letters: Sequence[Letter]) -> list[dict[str, Any]]:
        """Send them; return what became of each, in their order."""
        producer = await self._writer.producer()
        deliveries: list[tuple[Letter, Any]] = []
        for letter in letters:
            deliveries.append((letter, self._begin(producer, letter)))
            await producer.drain()
        return [{**letter.row(), **await _outcome(delivery)} for letter, delivery in deliveries]

    def _begin(self, producer: Producer, letter: Letter) -> Any:
        if letter.record is None or letter.to_topic is None:
            return None
        record = letter.record
        try:
            return producer.send(
                letter.to_topic, record.value, key=record.key, headers=record.headers
            )
        except BarnabasError as error:
            return error

    async def _read(
        self, topic: str, places: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], RecordView]:
        choices = ReadingChoices(
            topic=topic,
            partitions=frozenset(partition for partition, _ in places),
            place=NEWEST,
            direction=Direction.BACKWARDS,
            is_committed_only=False,
            decoding=self._rules.for_topic(topic),
            mask=self._masks.for_topic(topic),
        )
        return await read_exactly(self._writer, choices, places, self._budget, self._clock)

    async def _sources(
        self,
        found: Mapping[tuple[int, int], RecordView],
        origins: Mapping[tuple[int, int], Origin],
    ) -> dict[Origin, RecordView]:
        """The records themselves, where their dead letters have neither key nor value."""
        wanted: dict[str, dict[tuple[int, int], Origin]] = {}
        for place, origin in origins.items():
            source = found[place].source
            is_known = origin.partition is not None and origin.offset is not None
            if source.key is None and source.value is None and is_known:
                at = (origin.partition or 0, origin.offset or 0)
                wanted.setdefault(origin.topic, {})[at] = origin
        sources: dict[Origin, RecordView] = {}
        for topic, places in wanted.items():
            try:
                read = await self._read(topic, list(places))
            except (BarnabasError, ValueError):
                continue  # told letter by letter
            sources.update({places[place]: view for place, view in read.items()})
        return sources

    def _letter(
        self,
        topic: str,
        place: tuple[int, int],
        view: RecordView | None,
        origin: Origin | None,
        sources: Mapping[Origin, RecordView],
        to_topic: str | None,
    ) -> Letter:
        partition, offset = place
        target = to_topic or (None if origin is None else origin.topic)
        problem = None
        if view is None:
            problem = "the record is not there any more"
        elif target is None:
            problem = "no header says where it came from: name a topic"
        elif target == topic:
            problem = "it would come back to the topic where it is"
        if view is None or problem is not None:
            return Letter(partition=partition, offset=offset, to_topic=target, problem=problem)
        is_empty = view.source.key is None and view.source.value is None
        body = sources.get(origin) if origin is not None and is_empty else None
        if is_empty and body is None and origin is not None:
            problem = (
                "it has neither key nor value, and the record it tells of is not there any more"
            )
        elif self._masks.for_topic(topic) or (body and self._masks.for_topic(origin_topic(origin))):
            problem = "fields of the topic are masked: a copy would show or lose them"
        if problem is not None:
            return Letter(partition=partition, offset=offset, to_topic=target, problem=problem)
        shown = body or view
        return Letter(
            partition=partition,
            offset=offset,
            to_topic=target,
            record=NewRecord(
                key=shown.source.key,
                value=shown.source.value,
                headers=tuple(own_headers(shown.source.headers)),
            ),
            key=shown.key.text,
            value=shown.value.text,
            is_from_origin=body is not None,
        )


def origin_topic(origin: Origin | None) -> str:
    """The topic that it names; empty without one."""
    return "" if origin is None else origin.topic


async def _outcome(delivery: Any) -> dict[str, Any]:
    if delivery is None:
        return {"written": None}
    try:
        if isinstance(delivery, BarnabasError):
            raise delivery
        async with asyncio.timeout(WRITE_SECONDS_MAX):
            metadata = await delivery
    except TimeoutError:
        return {"written": None, "problem": "not acknowledged in time: it may be written"}
    except BarnabasError as error:
        return {"written": None, "problem": str(error)}
    return {"written": {"partition": metadata.partition, "offset": metadata.offset}}
