"""What one reading of a topic is made of: its partitions and their ends, a consumer, how to decode.

Not here: pages (`record_page.py`), scans (`record_scan.py`).

Source: CON-136. Invariant: the consumer is closed however the reading ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError
from barnabas_client.facts.topic_facts import describe_topics
from barnabas_console.records.decoding import TopicDecoding
from barnabas_console.records.frontier import Direction, Frontier, Window
from barnabas_console.records.masking import TopicMask
from barnabas_console.records.places import PARTITIONS_MAX, Place, PlaceKind, offsets_of
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.record_view import RecordView, worked_on
from barnabas_console.records.window_reader import CONSUMER_SETTINGS, WindowReader
from barnabas_protocol.ids import TopicPartition

WINDOW_BYTES_MAX: Final = 4 * 1024 * 1024
"""A window that holds more is read in parts, unless it has few offsets."""
WINDOW_OFFSETS_MIN: Final = 8


class Reader(Protocol):
    """Whose connection reads: a viewer."""

    @property
    def admin(self) -> Admin:
        """The started administrative client."""

    async def consumer(self, **settings: Any) -> Consumer:
        """A started consumer, for the caller to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingChoices:
    """What somebody chose: which partitions (None: all), from where, how decoded."""

    topic: str
    partitions: frozenset[int] | None
    place: Place
    direction: Direction
    is_committed_only: bool
    decoding: TopicDecoding
    mask: TopicMask


class TopicReading:
    """One reading: `frontiers` are the partitions, `unread` those without a leader or an answer."""

    def __init__(
        self,
        choices: ReadingChoices,
        frontiers: list[Frontier[RecordView]],
        unread: dict[int, str],
        reader: WindowReader,
    ) -> None:
        self.choices = choices
        self.frontiers = frontiers
        self.unread = unread
        self.reader = reader

    async def fill(
        self,
        frontiers: Sequence[Frontier[RecordView]],
        *,
        until_ms: int,
        keep: int,
        passes: Callable[[RecordView], bool] | None = None,
        terms: int = 1,
        needles: Sequence[bytes] = (),
    ) -> None:
        """Read the next window of each; what could not be read whole stays where it was.

        `terms` is how often `passes` looks at a record.
        """
        windows = {one.partition: one.window for one in frontiers}
        limits = {one.partition: WINDOW_BYTES_MAX for one in frontiers if not one.is_window_small}
        rows: dict[int, list[RecordView]] = {number: [] for number in windows}
        reached: dict[int, int] = {}
        decoding, mask = self.choices.decoding, self.choices.mask
        is_backwards = self.choices.direction is Direction.BACKWARDS
        slices = self.reader.slices
        async for batch, records in self.reader.portions(
            windows, until_ms=until_ms, bytes_max=limits, needles=needles
        ):
            number = records[0].partition
            if not is_backwards or number not in reached:
                at = records[0] if is_backwards else records[-1]
                reached[number] = at.timestamp_ms
            kept = rows[number]
            for record in records:
                view = RecordView(record, batch, decoding, mask)
                if passes is None or await worked_on(view, passes, times=terms):
                    kept.append(view)
                if passes is not None:
                    await slices.pause_if_due()
            if is_backwards and len(kept) > 2 * keep:
                # Only the newest are wanted, and what is dropped is read again later.
                del kept[: len(kept) - keep - 1]
            elif len(kept) > keep + 1 and not is_backwards:
                del kept[keep + 1 :]
        self._take_over(frontiers, windows, rows, reached, keep)

    def _take_over(
        self,
        frontiers: Sequence[Frontier[RecordView]],
        windows: Mapping[int, Window],
        rows: Mapping[int, list[RecordView]],
        reached: Mapping[int, int],
        keep: int,
    ) -> None:
        for one in frontiers:
            number = one.partition
            if number in self.reader.whole:
                one.add(
                    windows[number],
                    rows[number],
                    self.reader.seen[number],
                    reached.get(number),
                    keep,
                )
            elif number in self.reader.too_large:
                one.shrink()
            elif number in self.reader.problems:
                one.problem = self.reader.problems[number]

    @property
    def problems(self) -> dict[int, str]:
        """What is not read, and why, by partition."""
        found = {one.partition: one.problem for one in self.frontiers if one.problem is not None}
        return {**self.unread, **found}

    def ranges(self) -> list[dict[str, Any]]:
        """What was read of each partition; ends are exclusive."""
        return [
            {
                "partition": one.partition,
                "start": one.held.start,
                "end": one.held.end,
                "read_from": one.taken.start,
                "read_to": one.taken.end,
            }
            for one in self.frontiers
        ]

    def damaged(self) -> list[dict[str, Any]]:
        """Batches of which not all records could be shown."""
        return [one._asdict() for one in self.reader.damaged[:100]]


@asynccontextmanager
async def topic_reading(
    viewer: Reader,
    choices: ReadingChoices,
    budget: ReadingBudget,
    clock: Clock,
    *,
    window_offsets: Callable[[int], int],
) -> AsyncIterator[TopicReading]:
    """Begin a reading; `window_offsets` is how much to read first, by the number of partitions.

    Raises: NotFoundError and its like for the topic, ValueError for partitions it has not.
    """
    topic = choices.topic
    numbers = await _partitions(viewer.admin, topic, choices.partitions)
    held, times, unread = await _held(viewer.admin, choices, numbers)
    offsets = offsets_of(
        choices.place,
        {number: one.start for number, one in held.items()},
        {number: one.end for number, one in held.items()},
        times,
    )
    first = max(window_offsets(max(len(held), 1)), WINDOW_OFFSETS_MIN)
    frontiers = [
        Frontier[RecordView](number, held[number], offsets[number], choices.direction, first)
        for number in sorted(held)
    ]
    isolation = "read_committed" if choices.is_committed_only else "read_uncommitted"
    consumer = await viewer.consumer(**{**CONSUMER_SETTINGS, "isolation_level": isolation})
    try:
        reader = WindowReader(consumer, topic, budget, clock, _problem_finder(viewer.admin, topic))
        yield TopicReading(choices, frontiers, unread, reader)
    finally:
        await consumer.close()


async def _partitions(admin: Admin, topic: str, wanted: Collection[int] | None) -> list[int]:
    described = await describe_topics(admin, [topic])
    known = sorted(described[topic].partitions)
    if wanted is None:
        chosen = known
    else:
        missing = sorted(set(wanted) - set(known))
        if missing:
            raise ValueError(f"{topic} has no partition {missing[0]}: it has {len(known)}")
        chosen = sorted(wanted)
    if len(chosen) > PARTITIONS_MAX:
        raise ValueError(f"choose at most {PARTITIONS_MAX} of the {len(chosen)} partitions")
    return chosen


async def _held(
    admin: Admin, choices: ReadingChoices, numbers: Iterable[int]
) -> tuple[dict[int, OffsetRange], dict[int, int | None], dict[int, str]]:
    """What the partitions hold, where the place's time is, and why some do not say.

    Raises: the error of all partitions, if none says.
    """
    places = [TopicPartition(choices.topic, number) for number in numbers]

    async def look(spec: OffsetSpec | int) -> dict[int, int | None]:
        found = await admin.partitions.list_offsets(
            dict.fromkeys(places, spec), read_committed=choices.is_committed_only
        )
        for place, error in found.errors.items():
            problems[place.partition] = error
        return {place.partition: one.offset for place, one in found.successes.items()}

    problems: dict[int, BarnabasError] = {}
    wanted: list[OffsetSpec | int] = [OffsetSpec.EARLIEST, OffsetSpec.LATEST]
    if choices.place.kind is PlaceKind.TIME:
        wanted.append(choices.place.number)
    starts, ends, *others = await asyncio.gather(*map(look, wanted))
    times = others[0] if others else {}
    held = {
        number: OffsetRange(starts[number] or 0, ends[number] or 0)
        for number in starts.keys() & ends.keys()
        if number not in problems
    }
    if problems and not held:
        raise next(iter(problems.values()))
    return held, times, {number: str(error) for number, error in problems.items()}


def _problem_finder(admin: Admin, topic: str) -> Callable[[], Awaitable[str]]:
    async def find() -> str:
        try:
            (await admin.topics.describe([topic], timeout_ms=2_000)).unwrap()
        except BarnabasError as error:
            return str(error)
        return "its leader sends nothing"

    return find
