"""One page of records: the next ones of all partitions, merged by time, exact for each partition.

Source: CON-136. Invariants: of each partition a page has every record between where it began and
where it ends; "no records" is a page that says `is_end`, and none that was cut short does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from barnabas_client.env import Clock
from barnabas_console.records.frontier import Direction, next_by_time
from barnabas_console.records.places import cursor
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.record_view import RecordView, shown_size, worked_on
from barnabas_console.records.topic_reading import (
    Reader,
    ReadingChoices,
    TopicReading,
    topic_reading,
)

PAGE_RECORDS_MAX: Final = 500
PAGE_CHARACTERS_MAX: Final = 2 * 1024 * 1024
PAGE_MS_MAX: Final = 10_000
PAGE_BYTES_READ_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """The rows in reading order, and where to go on; `older` and `newer` are places."""

    rows: list[dict[str, Any]]
    older: str | None
    newer: str | None
    ranges: list[dict[str, Any]]
    problems: dict[int, str]
    damaged: list[dict[str, Any]]
    direction: Direction
    #: Whether there is nothing more that way.
    is_end: bool
    bytes_read: int
    record_count: int


async def read_page(
    viewer: Reader, choices: ReadingChoices, limit: int, budget: ReadingBudget, clock: Clock
) -> RecordPage:
    """Read a page. Raises: as `topic_reading`."""

    def first_window(partition_count: int) -> int:
        # A little more than an even share each, so that most pages take one round.
        return -(-limit * 5 // (4 * partition_count)) + 4

    async with topic_reading(
        viewer, choices, budget, clock, window_offsets=first_window
    ) as reading:
        rows = await _rows(reading, limit, clock)
        return _page(reading, rows)


async def _rows(reading: TopicReading, limit: int, clock: Clock) -> list[dict[str, Any]]:
    until_ms = clock.monotonic_ms() + PAGE_MS_MAX
    frontiers, direction = reading.frontiers, reading.choices.direction
    rows: list[dict[str, Any]] = []
    characters = 0
    while len(rows) < limit and characters < PAGE_CHARACTERS_MAX:
        hungry = [one for one in frontiers if one.is_hungry]
        if hungry:
            is_over = reading.reader.bytes_read >= PAGE_BYTES_READ_MAX
            if is_over or clock.monotonic_ms() >= until_ms:
                break
            await reading.fill(hungry, until_ms=until_ms, keep=limit)
            continue
        chosen = next_by_time(frontiers, direction)
        if chosen is None:
            break
        row = await worked_on(chosen.rows.popleft(), RecordView.row)
        characters += shown_size(row)
        rows.append(row)
        await reading.reader.slices.pause_if_due()
    return rows


def _page(reading: TopicReading, rows: list[dict[str, Any]]) -> RecordPage:
    frontiers, direction = reading.frontiers, reading.choices.direction
    lows = [one.taken.start for one in frontiers]
    highs = [one.taken.end for one in frontiers]
    has_older = any(one.taken.start > one.held.start for one in frontiers)
    has_newer = any(one.taken.end < one.held.end for one in frontiers)
    is_end = not (has_older if direction is Direction.BACKWARDS else has_newer)
    return RecordPage(
        rows=rows,
        older=cursor(Direction.BACKWARDS, lows) if has_older else None,
        # There is always a newer page: records may have come meanwhile.
        newer=cursor(Direction.FORWARDS, highs) if frontiers else None,
        ranges=reading.ranges(),
        problems=reading.problems,
        damaged=reading.damaged(),
        direction=direction,
        is_end=is_end and not reading.problems,
        bytes_read=reading.reader.bytes_read,
        record_count=reading.reader.record_count,
    )
