"""The consumer: reading records, alone or as a member of a group.

The face to the program; the work is done in `poll_loop.py` and below. Not thread-safe, and one task
at a time uses it (`exclusive_use.py`).

Source: section 24 of behaviour.md (CON-1 to CON-12), Kafka's Java consumer for what is not said
there. Partitions are taken away only inside the program's own calls, so what was handed out has
been processed by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.options import ConsumerOptions
from barnabas_client.consumer.columns import RecordColumns, read_columns
from barnabas_client.consumer.offset_calls import OffsetCalls
from barnabas_client.consumer.poll_loop import PollLoop
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.consumer.subscription_state import checked_partition
from barnabas_client.errors import ClosedError, IllegalStateError, UsageError
from barnabas_client.network.client import Client
from barnabas_client.network.closing import run_to_end
from barnabas_protocol.ids import TopicPartition

POLL_TIMEOUT_MS: Final = 500
CLOSE_TIMEOUT_MS: Final = 30_000
# So few records of an iteration are handed out without a look at the clock.
_LOOK_STRIDE_MAX: Final = 32


class Consumer(OffsetCalls):
    """Reads records; `async with Consumer("host:9092", group_id="readers") as consumer:`."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client: Client | None = None,
        **settings: Unpack[ConsumerOptions],
    ) -> None:
        """Take the settings, those of docs/reference; nothing is connected yet.

        A `client` that is given stays open at the end. Raises: ConfigurationError.
        """
        chosen = ConsumerSettings.create({"bootstrap_servers": bootstrap_servers, **settings})
        super().__init__(client or Client(chosen), chosen)
        self._owns_client = client is None

    async def start(self) -> None:
        """Find the cluster; to be awaited before anything else, does nothing if that was done.

        Raises: BrokerUnreachableError, AuthenticationError, UnsupportedError.
        """
        if self._is_closed:
            raise ClosedError("the consumer is closed: make a new one")
        await self._client.start()
        if self._loop is not None:
            return
        self._loop = PollLoop(self._client, self.settings, self._subscription)
        self._loop.follow_subscription()

    async def close(
        self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None
    ) -> None:
        """Commit what was handed out (if so set), leave the group, end everything.

        By default the group is told by members that have no `group_instance_id`; `leave_group`
        decides otherwise, for a static member that is not to come back (KIP-1092).
        The record that an iteration was left with counts as not processed. May be called while
        another task polls: its poll raises ClosedError, its iteration ends. If it is cancelled,
        nothing more is committed. May be repeated; a second call waits for the first.
        """
        if self._closed is not None:
            if self._closer is not asyncio.current_task():
                await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._closer = asyncio.current_task()
        self._is_closed = True
        try:
            if self._loop is not None:
                await self._finish(self._loop, timeout_ms, leave_group)
        finally:
            try:
                await run_to_end(self._let_go())
            finally:
                self._closer = None
                self._closed.set_result(None)

    async def _finish(self, loop: PollLoop, timeout_ms: int, leave_group: bool | None) -> None:
        loop.begin_close()
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_ms / 1000
        if self._use.is_taken_by_other:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._use.wait_until_free()
        left_ms = max(0, round((deadline - now()) * 1000))
        await loop.finish(left_ms, leave_group=leave_group)

    async def _let_go(self) -> None:
        if self._loop is not None:
            await self._loop.let_go()
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; without an exception, the record that an iteration was left with is processed."""
        if kind is None and self._loop is not None and not self._is_closed:
            self._loop.settle_own()
        await self.close()

    # ---- what to read ----------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics together with the group: by name, or all whose whole name the pattern fits.

        Replaces the topics of an earlier call; the group meets at the next poll.
        Raises: UsageError for no or blank names; IllegalStateError without a group or after assign.
        """
        self._check_use()
        if (topics is None) == (pattern is None):
            raise UsageError("subscribe to topics or to a pattern: give one of them")
        if self.settings.group_id is None:
            raise IllegalStateError(
                "subscribe() shares partitions within a group: set group_id, or use assign()"
            )
        if topics is not None:
            if not isinstance(topics, str):
                topics = list(topics)
            if not topics:
                raise UsageError("no topics: name at least one, or await unsubscribe()")
            self._subscription.subscribe_names(topics, listener)
        elif pattern is not None:
            self._subscription.subscribe_pattern(_compiled(pattern), listener)
        if self._loop is not None:
            self._loop.follow_subscription()

    async def unsubscribe(self) -> None:
        """Leave the group, or forget what was assigned; nothing is read until the next choice.

        If it is cancelled, that is so as well, and nothing more is committed.
        """
        with self._use:
            self._use.check_not_nested()
            loop = self._running
            loop.interrupt()
            try:
                if loop.membership is not None and self._subscription.is_group_managed:
                    await loop.membership.leave(self.settings.default_api_timeout_ms)
            finally:
                self._subscription.unsubscribe()
                loop.follow_subscription()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions, without sharing; those that were assigned before go on."""
        self._check_use()
        wanted = [checked_partition(partition) for partition in partitions]
        if self._loop is not None:
            self._loop.interrupt()
        self._subscription.assign_manually(wanted)
        if self._loop is not None:
            self._loop.follow_subscription()

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._subscription.assigned)

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to; those that the pattern has found."""
        return self._subscription.topics

    # ---- reading ---------------------------------------------------------------------------

    async def poll(
        self, *, timeout_ms: int = POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """The next records, as soon as there are some; none when the time is over.

        At most `max_records`, by default the setting max_poll_records. What was returned before
        counts as processed.
        Raises: what a partition has met behind its last record (SeekRequiredError,
        CorruptRecordError, SerializationError, AuthorizationError); errors of the group.
        """
        if timeout_ms < 0:
            raise UsageError(f"a timeout is not negative: {timeout_ms}")
        count_max = self.settings.max_poll_records if max_records is None else max_records
        if count_max < 1:
            raise UsageError(f"poll for at least one record, not {count_max}")
        with self._use:
            self._use.check_not_nested()
            return await self._running.poll(timeout_ms, count_max)

    async def poll_batches(self, *, timeout_ms: int = POLL_TIMEOUT_MS) -> list[FetchedBatch]:
        """The next whole batches of one partition, not decompressed; deserializers do not apply."""
        if timeout_ms < 0:
            raise UsageError(f"a timeout is not negative: {timeout_ms}")
        with self._use:
            self._use.check_not_nested()
            return await self._running.poll_batches(timeout_ms)

    async def poll_columns(self, *, timeout_ms: int = POLL_TIMEOUT_MS) -> list[RecordColumns]:
        """The next records as Arrow columns, of one partition each; needs the extra `columnar`.

        Raises: as `poll`; CorruptRecordError again and again until a seek behind the batch.
        """
        found, error = read_columns(await self.poll_batches(timeout_ms=timeout_ms))
        if error is not None and error.position is not None:
            topic, partition, offset = error.position
            self.seek(TopicPartition(topic, partition), offset)
            if not found:
                raise error
        return found

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records until `wakeup` or `close`; errors come as from `poll`.

        A record counts as processed when the next one is asked for, and the last one when the
        `async with` block is left without an exception.
        """
        self._check_open()
        while not self._is_closed:
            with self._use:
                self._use.check_not_nested()
                hand_out = await self._running.next_hand_out()
            if hand_out is None:
                return
            loop = self._running
            records, at, stride = hand_out.portion.records, 0, 1
            while True:
                for record in records[at : at + stride]:
                    hand_out.current = record
                    yield record
                    if hand_out.is_stale:
                        break
                at += stride
                # Where records take next to no time, not each of them looks at the clock.
                is_due = loop.is_look_due()
                stride = 1 if is_due else min(2 * stride, _LOOK_STRIDE_MAX)
                if is_due and not hand_out.is_stale:
                    with self._use:
                        await loop.look_around()
                if hand_out.is_stale:
                    break
                if at >= len(records):
                    hand_out.finish()
                    break

    def wakeup(self) -> None:
        """Let the poll that waits, or the next one, return no records; ends an iteration.

        May be called by any task of the loop; from a thread with `loop.call_soon_threadsafe`.
        """
        if self._loop is not None:
            self._loop.wake_up()


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"{pattern!r} is no pattern for topic names: {error}") from error
