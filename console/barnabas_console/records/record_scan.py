"""A scan: seeks records that pass a filter, as far as its bounds let it, and says how far that was.

The partitions whose next records are the youngest (forwards: the oldest) are read first, so that
what is found comes roughly by time; of each partition it comes exactly in order.

Source: CON-136. Invariants: a scan ends by 100,000 records, 64 MiB or 20 s, gone on from the place
that its end names; only a scan that read everything says so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from barnabas_client.env import Clock
from barnabas_console.records.filters import FieldKind, RecordFilter
from barnabas_console.records.frontier import Direction, Frontier
from barnabas_console.records.places import cursor
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.record_view import RecordView
from barnabas_console.records.topic_reading import (
    Reader,
    ReadingChoices,
    TopicReading,
    topic_reading,
)

SCAN_RECORDS_MAX: Final = 100_000
SCAN_BYTES_MAX: Final = 64 * 1024 * 1024
SCAN_MS_MAX: Final = 20_000
SCAN_MATCHES_MAX: Final = 500
_TOGETHER: Final = 4
_FIRST_WINDOW: Final = 256
_ROUND_RECORDS: Final = 5_000
# A round that was so little work could have been twice as large.
_SMALL_ROUND_BYTES: Final = 256 * 1024


class ScanEnd(Enum):
    """Why a scan ended."""

    ALL_READ = "all read"
    MATCHES = "matches"
    RECORDS = "records"
    BYTES = "bytes"
    TIME = "time"
    PROBLEMS = "problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    """When a scan ends at the latest."""

    records: int = SCAN_RECORDS_MAX
    size_bytes: int = SCAN_BYTES_MAX
    time_ms: int = SCAN_MS_MAX
    matches: int = SCAN_MATCHES_MAX


DEFAULT_LIMITS: Final = ScanLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanProgress:
    """How far a scan is, after a round; `end` says why it is the last one."""

    found: list[RecordView]
    found_count: int
    record_count: int
    bytes_read: int
    reached_ms: int | None
    #: Values that were too large for a term on JSON to look into.
    too_large_count: int
    end: ScanEnd | None = None
    #: Where to go on; None where nothing is left.
    go_on: str | None = None
    ranges: list[dict[str, Any]] | None = None
    problems: dict[int, str] | None = None
    damaged: list[dict[str, Any]] | None = None


async def scan(
    viewer: Reader,
    choices: ReadingChoices,
    record_filter: RecordFilter,
    budget: ReadingBudget,
    clock: Clock,
    limits: ScanLimits = DEFAULT_LIMITS,
) -> AsyncGenerator[ScanProgress, None]:
    """Yield what is found, round by round; the last one has an end. Raises: as `topic_reading`."""
    async with topic_reading(
        viewer, choices, budget, clock, window_offsets=lambda _: _FIRST_WINDOW
    ) as reading:
        async for progress in _Scan(reading, record_filter, clock, limits).rounds():
            yield progress


class _Scan:
    """One scan while it goes on."""

    def __init__(
        self, reading: TopicReading, record_filter: RecordFilter, clock: Clock, limits: ScanLimits
    ) -> None:
        self._reading = reading
        self._filter = record_filter
        self._clock = clock
        self._limits = limits
        self._until_ms = clock.monotonic_ms() + limits.time_ms
        self._found_count = 0
        self._too_large_count = 0
        looks_into_json = any(term.field is FieldKind.JSON for term in record_filter.terms)
        self._counts_large = looks_into_json
        can_skip = reading.choices.decoding.shows_stored_text and not reading.choices.mask
        self._needles = record_filter.needles() if can_skip else ()
        numbers = [one.partition for one in reading.frontiers]
        wanted = set(record_filter.partitions(numbers))
        self._wanted = [one for one in reading.frontiers if one.partition in wanted]

    async def rounds(self) -> AsyncIterator[ScanProgress]:
        """Yield a progress a round."""
        while True:
            open_ones = [one for one in self._wanted if one.is_hungry]
            end = self._end(open_ones)
            if end is not None:
                yield self._progress([], end)
                return
            yield self._progress(await self._round(self._next(open_ones)), None)

    async def _round(self, chosen: list[Frontier[RecordView]]) -> list[RecordView]:
        reader = self._reading.reader
        before_bytes, before_count = reader.bytes_read, reader.record_count
        left = self._limits.matches - self._found_count
        await self._reading.fill(
            chosen,
            until_ms=self._until_ms,
            keep=left,
            passes=self._passes,
            terms=len(self._filter.terms),
            needles=self._needles,
        )
        found = self._taken(chosen, left)
        is_small = (
            reader.bytes_read - before_bytes < _SMALL_ROUND_BYTES
            and reader.record_count - before_count < _ROUND_RECORDS
        )
        if is_small:
            for one in chosen:
                one.grow()
        return found

    def _taken(self, chosen: list[Frontier[RecordView]], left: int) -> list[RecordView]:
        """The rows of a round by time, as many as are wanted; others stay for going on."""
        sign = -1 if self._reading.choices.direction is Direction.BACKWARDS else 1
        found: list[RecordView] = []
        for one in chosen:
            count = min(left - len(found), len(one.rows))
            found += [one.rows.popleft() for _ in range(count)]
        found.sort(key=lambda row: sign * row.timestamp_ms)
        self._found_count += len(found)
        return found

    def _passes(self, view: RecordView) -> bool:
        if self._counts_large and view.is_too_large_for_json:
            self._too_large_count += 1
        return self._filter.matches(view)

    def _next(self, open_ones: list[Frontier[RecordView]]) -> list[Frontier[RecordView]]:
        """Those to read next: those of which nothing is known, then by the time reached."""
        sign = -1 if self._reading.choices.direction is Direction.BACKWARDS else 1

        def order(one: Frontier[RecordView]) -> tuple[int, int]:
            return (0, 0) if one.reached_ms is None else (1, sign * one.reached_ms)

        return sorted(open_ones, key=order)[:_TOGETHER]

    def _end(self, open_ones: list[Frontier[RecordView]]) -> ScanEnd | None:
        reader = self._reading.reader
        if self._found_count >= self._limits.matches:
            return ScanEnd.MATCHES
        if not open_ones:
            return ScanEnd.PROBLEMS if self._reading.problems else ScanEnd.ALL_READ
        if reader.record_count >= self._limits.records:
            return ScanEnd.RECORDS
        if reader.bytes_read >= self._limits.size_bytes:
            return ScanEnd.BYTES
        if self._clock.monotonic_ms() >= self._until_ms:
            return ScanEnd.TIME
        return None

    def _progress(self, found: list[RecordView], end: ScanEnd | None) -> ScanProgress:
        reading, reader = self._reading, self._reading.reader
        reached = [one.reached_ms for one in self._wanted if one.reached_ms is not None]
        is_backwards = reading.choices.direction is Direction.BACKWARDS
        progress = ScanProgress(
            found=found,
            found_count=self._found_count,
            record_count=reader.record_count,
            bytes_read=reader.bytes_read,
            reached_ms=(max(reached) if is_backwards else min(reached)) if reached else None,
            too_large_count=self._too_large_count,
        )
        if end is None:
            return progress
        is_left = any(one.rows or not one.is_read for one in self._wanted)
        offsets = [one.resume for one in reading.frontiers]
        return ScanProgress(
            found=found,
            found_count=progress.found_count,
            record_count=progress.record_count,
            bytes_read=progress.bytes_read,
            reached_ms=progress.reached_ms,
            too_large_count=progress.too_large_count,
            end=end,
            go_on=cursor(reading.choices.direction, offsets) if is_left else None,
            ranges=reading.ranges(),
            problems=reading.problems,
            damaged=reading.damaged(),
        )
