"""Live tails: who follows a topic by the same connection shares a consumer.

A follower sees up to `SHOWN_PER_SECOND` records a second, the newest of each moment; the others are
counted. So is what a slow browser misses. Without a filter only what is shown is decoded: of the
other batches the headers alone are read.

Source: CON-136, CON-173. Invariants: what a follower sees of a partition is in order and never
twice, also when a leader changes: the consumer goes on at its position; every record that came is
shown, or counted as one of skipped, filtered or missed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from barnabas_client.admin.admin import Admin
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import FetchedBatch
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, CorruptRecordError, RetriableError
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.records.batch_opening import open_batch
from barnabas_console.records.decoding import TopicDecoding
from barnabas_console.records.filters import RecordFilter
from barnabas_console.records.masking import TopicMask
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.record_view import RecordView, worked_on
from barnabas_console.records.topic_reading import Reader
from barnabas_console.records.window_reader import CONSUMER_SETTINGS
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import TopicPartition

SHOWN_PER_SECOND: Final = 200
TICK_MS: Final = 100
WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
"""So much waits for a follower; then the oldest is missed."""
_POLL_MS: Final = 500
_QUIET_MS: Final = 3_000
_FILTER_MS: Final = 60
"""So long of each tick a follower's filter looks at records."""
_PORTION: Final = 200


@dataclass(slots=True, kw_only=True)
class TailPart:
    """What came in one tick: records to show, as they came, and how many others there were."""

    rows: list[RecordView] = field(default_factory=list)
    came_count: int = 0
    #: Not shown, because more came than are shown in a second.
    skipped_count: int = 0
    #: Looked at by the filter, which they did not pass.
    filtered_count: int = 0
    #: Dropped, because the browser or the filter was too slow.
    missed_count: int = 0
    #: Why nothing more comes; None while something may.
    problem: str | None = None


class Follower:
    """One who follows; `parts` yields what there is, tick by tick."""

    def __init__(
        self,
        decoding: TopicDecoding,
        mask: TopicMask,
        record_filter: RecordFilter,
        clock: Clock,
        partitions: frozenset[int] | None,
    ) -> None:
        self._decoding = decoding
        self._mask = mask
        self._filter = record_filter
        self._clock = clock
        self._partitions = partitions
        self._slices = LoopSlices(clock)
        self._waiting: deque[FetchedBatch] = deque()
        self._waiting_bytes = 0
        self._part = TailPart()
        self._allowance = float(SHOWN_PER_SECOND)
        self._refilled_ms = clock.monotonic_ms()
        can_skip = decoding.shows_stored_text and not mask
        self._needles = record_filter.needles() if can_skip else ()
        self._has_news = asyncio.Event()

    def offer(self, batch: FetchedBatch) -> None:
        """Take over a batch; the oldest ones make room."""
        if self._partitions is not None and batch.partition not in self._partitions:
            return
        self._part.came_count += batch.header.record_count
        self._waiting.append(batch)
        self._waiting_bytes += len(batch.data)
        while self._waiting_bytes > WAITING_BYTES_MAX and len(self._waiting) > 1:
            dropped = self._waiting.popleft()
            self._waiting_bytes -= len(dropped.data)
            self._part.missed_count += dropped.header.record_count
        self._has_news.set()

    def end(self, problem: str) -> None:
        """Nothing more comes."""
        self._part.problem = problem
        self._has_news.set()

    async def parts(self) -> AsyncGenerator[TailPart, None]:
        """Yield parts until one has a problem; after a quiet time an empty one."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_QUIET_MS / 1000):
                    await self._has_news.wait()
            self._has_news.clear()
            began_ms = self._clock.monotonic_ms()
            await self._work()
            part, self._part = self._part, TailPart()
            yield part
            if part.problem is not None:
                return
            if self._waiting:
                self._has_news.set()
            left_ms = TICK_MS - (self._clock.monotonic_ms() - began_ms)
            if left_ms > 0:
                await asyncio.sleep(left_ms / 1000)

    async def _work(self) -> None:
        self._refill()
        if self._filter:
            await self._filter_waiting()
        else:
            await self._show_newest()

    def _refill(self) -> None:
        now_ms = self._clock.monotonic_ms()
        gained = (now_ms - self._refilled_ms) * SHOWN_PER_SECOND / 1000
        self._allowance = min(self._allowance + gained, float(SHOWN_PER_SECOND))
        self._refilled_ms = now_ms

    async def _show_newest(self) -> None:
        """The newest records that may be shown, in order; the others are skipped."""
        left = int(self._allowance)
        chosen: list[FetchedBatch] = []
        while self._waiting:
            batch = self._pop_newest()
            if left > 0:
                chosen.append(batch)
                left -= batch.header.record_count
            else:
                self._part.skipped_count += batch.header.record_count
        left = int(self._allowance)
        rows: list[RecordView] = []
        for batch in chosen:  # from the newest on
            views: deque[RecordView] = deque(maxlen=max(left - len(rows), 0))
            count = 0
            try:
                async for view in self._views(batch):
                    views.append(view)
                    count += 1
            except ParseError:
                self._part.missed_count += batch.header.record_count - count
            self._part.skipped_count += count - len(views)
            rows[:0] = views
        self._allowance -= len(rows)
        self._part.rows = rows

    async def _filter_waiting(self) -> None:
        """Look at what waits, from the oldest on, for a part of the tick."""
        until_ms = self._clock.monotonic_ms() + _FILTER_MS
        while self._waiting and self._clock.monotonic_ms() < until_ms:
            batch = self._waiting.popleft()
            self._waiting_bytes -= len(batch.data)
            count, passed_count = 0, 0
            try:
                async for view in self._views(batch, self._needles):
                    count += 1
                    if await worked_on(view, self._filter.matches, times=len(self._filter.terms)):
                        passed_count += 1
                        self._show_or_skip(view)
                count = batch.header.record_count  # also where a needle stands nowhere in it
            except ParseError:
                self._part.missed_count += batch.header.record_count - count
            self._part.filtered_count += count - passed_count

    def _show_or_skip(self, view: RecordView) -> None:
        if self._allowance >= 1:
            self._allowance -= 1
            self._part.rows.append(view)
        else:
            self._part.skipped_count += 1

    def _pop_newest(self) -> FetchedBatch:
        batch = self._waiting.pop()
        self._waiting_bytes -= len(batch.data)
        return batch

    async def _views(
        self, batch: FetchedBatch, needles: tuple[bytes, ...] = ()
    ) -> AsyncIterator[RecordView]:
        """Yield the records, none where a needle stands nowhere. Raises: ParseError."""
        reader = await open_batch(batch, needles)
        while reader is not None and (records := reader.read(_PORTION)):
            for record in records:
                yield RecordView(record, batch.header, self._decoding, self._mask)
                await self._slices.pause_if_due()


class TopicTails:
    """All tails of one console; of one identity, topic and isolation there is one consumer."""

    def __init__(self, budget: ReadingBudget, clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._tails: dict[tuple[str, str, bool], _Tail] = {}

    @property
    def consumer_count(self) -> int:
        """How many consumers follow something."""
        return len(self._tails)

    @asynccontextmanager
    async def follow(
        self,
        viewer: Reader,
        identity: str,
        topic: str,
        *,
        is_committed_only: bool,
        decoding: TopicDecoding,
        mask: TopicMask,
        record_filter: RecordFilter,
        partitions: frozenset[int] | None = None,
    ) -> AsyncIterator[Follower]:
        """Follow a topic from its end on. Raises: NoSeatError, the client's errors."""
        follower = Follower(decoding, mask, record_filter, self._clock, partitions)
        key = (identity, topic, is_committed_only)
        with self._budget.tail(identity):
            tail = self._tails.get(key)
            if tail is None or tail.has_ended:
                tail = self._tails[key] = _Tail(topic, self._budget, self._clock)
            tail.followers.add(follower)
            try:
                await tail.begun(viewer, is_committed_only=is_committed_only)
                yield follower
            finally:
                tail.followers.discard(follower)
                if not tail.followers:
                    if self._tails.get(key) is tail:
                        del self._tails[key]
                    await tail.close()


class _Tail:
    """A consumer at the end of a topic, and who follows it."""

    def __init__(self, topic: str, budget: ReadingBudget, clock: Clock) -> None:
        self.followers: set[Follower] = set()
        self._topic = topic
        self._budget = budget
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._begin = asyncio.Lock()
        self._consumer: Consumer | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its task is done: whoever comes later needs another one."""
        return self._task is not None and self._task.done()

    async def begun(self, viewer: Reader, *, is_committed_only: bool) -> None:
        """Return when it stands at the end. Raises: the client's errors."""
        async with self._begin:
            if self._task is not None:
                return
            described = (await viewer.admin.topics.describe([self._topic])).unwrap()[self._topic]
            places = [TopicPartition(self._topic, number) for number in described.partitions]
            isolation = "read_committed" if is_committed_only else "read_uncommitted"
            # A fetch waits for records: a tail asks seldom while nothing comes.
            consumer = await viewer.consumer(
                **{**CONSUMER_SETTINGS, "isolation_level": isolation, "fetch_max_wait_ms": 500}
            )
            try:
                consumer.assign(places)
                for place, end in (await consumer.end_offsets(places)).items():
                    consumer.seek(place, end)
            except BaseException:
                await consumer.close()  # the next follower begins with another one
                raise
            self._consumer = consumer
            self._task = asyncio.get_running_loop().create_task(
                self._run(consumer, viewer.admin), name=f"tail-{self._topic}"
            )

    async def close(self) -> None:
        """End the task and the consumer. Raises: what ended the task, where that was a bug."""
        try:
            if self._task is not None:
                self._task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._task
        finally:
            if self._consumer is not None:
                await self._consumer.close()

    async def _run(self, consumer: Consumer, admin: Admin) -> None:
        try:
            await self._read(consumer, _existence(admin, self._topic))
        except BarnabasError as error:
            self._end(str(error))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._end(f"the console has a bug: {error!r}")
            raise

    async def _read(
        self, consumer: Consumer, is_there: Callable[[], Awaitable[str | None]]
    ) -> None:
        looked_at_ms = self._clock.monotonic_ms()
        while True:
            batches: list[FetchedBatch] = []
            try:
                batches = await consumer.poll_batches(timeout_ms=_POLL_MS)
            except CorruptRecordError as error:
                if error.position is None:
                    raise
                topic, partition, _ = error.position
                place = TopicPartition(topic, partition)
                consumer.seek(place, (await consumer.end_offsets([place]))[place])
            except RetriableError:
                pass  # a broker is away: the consumer goes on where it was
            for batch in batches:
                for follower in self.followers:
                    follower.offer(batch)
                await self._budget.spend(len(batch.data))
            now_ms = self._clock.monotonic_ms()
            if batches:
                looked_at_ms = now_ms
            elif now_ms - looked_at_ms >= _QUIET_MS:
                looked_at_ms = now_ms
                problem = await is_there()
                if problem is not None:
                    self._end(problem)
                    return

    def _end(self, problem: str) -> None:
        for follower in self.followers:
            follower.end(problem)


def _existence(admin: Admin, topic: str) -> Callable[[], Awaitable[str | None]]:
    """Why the topic cannot be followed any more; None while it can, or nobody says."""

    async def look() -> str | None:
        try:
            (await admin.topics.describe([topic], timeout_ms=2_000)).unwrap()
        except RetriableError:
            return None
        except BarnabasError as error:
            return str(error)
        return None

    return look
