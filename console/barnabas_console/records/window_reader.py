"""Reads windows of offsets of one topic, by a consumer without a group and without a commit.

Not here: which windows (`frontier.py`), what is done with records.

Source: CON-136. Invariants: a window is read whole or not at all, as its outcome says; a partition
that cannot be read holds up no other one, and is given up after `STALL_MS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.env import Clock
from barnabas_client.errors import CorruptRecordError, RetriableError
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.records.batch_opening import open_batch
from barnabas_console.records.frontier import Window
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import BatchHeader

CONSUMER_SETTINGS: Final[Mapping[str, Any]] = {
    "isolation_level": "read_uncommitted",
    "allow_auto_create_topics": False,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "fetch_max_bytes": 1024 * 1024,
    "max_partition_fetch_bytes": 1024 * 1024,
    "prefetch_bytes_max": 4 * 1024 * 1024,
    "fetch_max_wait_ms": 50,
    # The first fetch waits so long for the topic's metadata.
    "retry_backoff_ms": 5,
}
"""What a reading is made with; `isolation_level` may be another."""
STALL_MS: Final = 3_000
"""Without anything new for so long, what is not read yet is given up."""
_POLL_MS: Final = 20
_PORTION: Final = 100

Portion = tuple[BatchHeader, list[ConsumerRecord]]


class DamagedBatch(NamedTuple):
    """A batch that cannot be read to its end; offsets are inclusive."""

    partition: int
    first_offset: int
    last_offset: int
    reason: str


class WindowReader:
    """Reads windows, one set after the other; counts what it has read."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        budget: ReadingBudget,
        clock: Clock,
        problem: Callable[[], Awaitable[str]],
    ) -> None:
        """`problem` finds out why nothing comes."""
        self._consumer = consumer
        self._topic = topic
        self._budget = budget
        self._clock = clock
        self._problem = problem
        self.slices = LoopSlices(clock)
        self.bytes_read = 0
        self.record_count = 0
        #: Batches of which not all records could be read, of all sets.
        self.damaged: list[DamagedBatch] = []
        #: Of the last set: windows that were read whole, those that hold too much, and the reasons
        #: of those that cannot be read.
        self.whole: set[int] = set()
        self.too_large: set[int] = set()
        self.problems: dict[int, str] = {}
        #: How many records the windows of the last set hold, as far as they were read.
        self.seen: dict[int, int] = {}

    async def portions(
        self,
        windows: Mapping[int, Window],
        *,
        until_ms: int,
        bytes_max: Mapping[int, int],
        needles: Sequence[bytes] = (),
    ) -> AsyncIterator[Portion]:
        """Yield the records of the windows by partition, with the header of their batch.

        Stops at `until_ms` of the monotonic clock, and with a partition at its `bytes_max`.
        Raises: the client's errors but those that end by themselves.
        """
        self.whole, self.too_large, self.problems = set(), set(), {}
        self.seen = dict.fromkeys(windows, 0)
        pending = {
            number: window for number, window in windows.items() if window.start < window.end
        }
        self.whole.update(windows.keys() - pending.keys())
        self._seek(pending)
        sizes = dict.fromkeys(pending, 0)
        moved_at_ms = self._clock.monotonic_ms()
        poll_ms = _POLL_MS
        while pending and self._clock.monotonic_ms() < until_ms:
            batches = await self._poll(poll_ms, pending)
            for batch in batches:
                window = pending.get(batch.partition)
                if window is None or batch.header.base_offset >= window.end:
                    continue
                size = len(batch.data)
                self.bytes_read += size
                sizes[batch.partition] += size
                await self._budget.spend(size)
                async for portion in self._records(batch, window, needles):
                    yield portion
                if sizes[batch.partition] > bytes_max.get(batch.partition, 1 << 62):
                    self._give_up(pending, batch.partition, None)
            has_moved = bool(batches) | self._complete(pending)
            now_ms = self._clock.monotonic_ms()
            if has_moved:
                moved_at_ms, poll_ms = now_ms, _POLL_MS
            else:
                poll_ms = min(poll_ms * 2, 500)
            if now_ms - moved_at_ms >= STALL_MS:
                reason = await self._problem()
                for number in list(pending):
                    self._give_up(pending, number, reason)
        if pending:
            self._consumer.pause([TopicPartition(self._topic, number) for number in pending])

    def _seek(self, pending: Mapping[int, Window]) -> None:
        places = {TopicPartition(self._topic, number): one for number, one in pending.items()}
        self._consumer.assign(places)
        self._consumer.resume(places)
        for place, window in places.items():
            self._consumer.seek(place, window.start)
            self._consumer.stop_at(place, window.end)

    async def _poll(self, poll_ms: int, pending: dict[int, Window]) -> list[FetchedBatch]:
        try:
            return await self._consumer.poll_batches(timeout_ms=poll_ms)
        except CorruptRecordError as error:
            if error.position is None:
                raise
            self._give_up(pending, error.position[1], str(error))
        except RetriableError:
            pass  # nothing comes: the stall is told, unless it gets better
        return []

    async def _records(
        self, batch: FetchedBatch, window: Window, needles: Sequence[bytes]
    ) -> AsyncIterator[Portion]:
        header = batch.header
        first = max(header.base_offset, batch.first_offset, window.start)
        # Of a batch that reaches out of the window no more than have an offset in it.
        count = min(header.record_count, min(header.last_offset + 1, window.end) - first)
        self.record_count += count
        self.seen[batch.partition] += count
        try:
            reader = await open_batch(batch, needles)
            while reader is not None and (records := reader.read(_PORTION)):
                if records[-1].offset >= window.end:
                    records = [one for one in records if one.offset < window.end]
                if not records:
                    break
                yield batch.header, records
                await self.slices.pause_if_due()
        except ParseError as error:
            self.damaged.append(
                DamagedBatch(
                    batch.partition, batch.header.base_offset, batch.header.last_offset, str(error)
                )
            )
        await self.slices.pause_if_due()

    def _complete(self, pending: dict[int, Window]) -> bool:
        """Note the windows that are read; return whether there was one."""
        positions = self._consumer.positions()
        count = len(pending)
        for number, window in list(pending.items()):
            position = positions.get(TopicPartition(self._topic, number))
            if position is not None and position.offset >= window.end:
                del pending[number]
                self.whole.add(number)
        return len(pending) < count

    def _give_up(self, pending: dict[int, Window], number: int, reason: str | None) -> None:
        """Without a reason the window holds too much."""
        if pending.pop(number, None) is None:
            return
        self._consumer.pause([TopicPartition(self._topic, number)])
        if reason is None:
            self.too_large.add(number)
        else:
            self.problems[number] = reason
