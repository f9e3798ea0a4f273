"""Reads single records by their places, those near to one another together.

Source: CON-113, CON-116. Invariant: what is not found is not in the result; nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas_client.env import Clock
from barnabas_console.records.frontier import Window
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.record_view import RecordView
from barnabas_console.records.topic_reading import Reader, ReadingChoices, topic_reading

PLACES_MAX: Final = 500
_TOGETHER_OFFSETS: Final = 500
_READ_MS: Final = 15_000


async def read_exactly(
    viewer: Reader,
    choices: ReadingChoices,
    places: Iterable[tuple[int, int]],
    budget: ReadingBudget,
    clock: Clock,
) -> dict[tuple[int, int], RecordView]:
    """Return the records at the places, by partition and offset. Raises: as `topic_reading`."""
    wanted = set(places)
    assert len(wanted) <= PLACES_MAX
    found: dict[tuple[int, int], RecordView] = {}
    async with topic_reading(viewer, choices, budget, clock, window_offsets=lambda _: 1) as reading:
        held = {one.partition: one.held for one in reading.frontiers}
        inside = [
            (number, offset)
            for number, offset in sorted(wanted)
            if number in held and held[number].start <= offset < held[number].end
        ]
        until_ms = clock.monotonic_ms() + _READ_MS
        for windows in _rounds(inside):
            async for batch, records in reading.reader.portions(
                windows, until_ms=until_ms, bytes_max={}
            ):
                for record in records:
                    place = (record.partition, record.offset)
                    if place in wanted:
                        found[place] = RecordView(record, batch, choices.decoding, choices.mask)
    return found


def _rounds(places: list[tuple[int, int]]) -> list[dict[int, Window]]:
    """Windows over sorted places, at most one a partition in each round."""
    rounds: list[dict[int, Window]] = []
    begun: dict[int, int] = {}
    for number, offset in places:
        at = begun.get(number, -1)
        if at >= 0 and offset - rounds[at][number].start < _TOGETHER_OFFSETS:
            rounds[at][number] = Window(rounds[at][number].start, offset + 1)
            continue
        begun[number] = at + 1
        if at + 1 == len(rounds):
            rounds.append({})
        rounds[at + 1][number] = Window(offset, offset + 1)
    return rounds
