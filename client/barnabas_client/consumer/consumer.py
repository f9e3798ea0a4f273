"""`Consumer`: what a program calls to read records, alone or as a member of a group.

Each call checks its arguments and hands over to `poll_loop.py`, which owns everything that runs.
Not thread-safe: one task at a time uses it (`exclusive_use.py`). Calls that only look up
(`committed`, `lag`, the offsets of the log) may be made by any task, also while another one polls.

Source: CON-1 to CON-12, Kafka's Java consumer for what is not said there.
Invariants: partitions are revoked only inside the program's own calls, so the records that were
returned before have been processed by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack

from barnabas_client.cluster.offset_ranges import lag_behind
from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.options import ConsumerOptions
from barnabas_client.consumer.columns import RecordColumns, read_columns
from barnabas_client.consumer.commits import CommitCallback, OffsetCommitter
from barnabas_client.consumer.exclusive_use import ExclusiveUse
from barnabas_client.consumer.offsets_lookup import OffsetAndTimestamp, list_offsets_until
from barnabas_client.consumer.partition_state import EARLIEST, LATEST
from barnabas_client.consumer.poll_loop import PollLoop
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.consumer.subscription_state import SubscriptionState, checked_partition
from barnabas_client.errors import ClosedError, IllegalStateError, TimedOutError, UsageError
from barnabas_client.network.client import Client
from barnabas_client.network.closing import run_to_end
from barnabas_protocol.ids import TopicPartition

POLL_TIMEOUT_MS: Final = 500
CLOSE_TIMEOUT_MS: Final = 30_000
# At most so many records of an iteration are yielded without reading the clock.
_LOOK_STRIDE_MAX: Final = 32


class Consumer:
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
        self.settings = chosen
        self._owns_client = client is None
        self._client = client or Client(chosen)
        self._subscription = SubscriptionState(
            exclude_internal_topics=chosen.exclude_internal_topics
        )
        self._use = ExclusiveUse()
        self._loop: PollLoop | None = None
        self._is_closed = False
        # Done when `close` is, None before; and the task that closes, whose listener may call.
        self._closed: asyncio.Future[None] | None = None
        self._closer: asyncio.Task[Any] | None = None

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
        """Commit the positions (with enable_auto_commit), leave the group, end everything.

        By default only members without `group_instance_id` leave the group; `leave_group` decides
        otherwise, for a static member that is not to come back (KIP-1092).
        The last record of an iteration counts as not processed. May be called while another task
        polls: its poll raises ClosedError, its iteration ends. If the call is cancelled, nothing
        more is committed. A second call waits for the first.
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
                await run_to_end(self._release())
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

    async def _release(self) -> None:
        if self._loop is not None:
            await self._loop.release()
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
        """Close; without an exception, what was returned last counts as processed.

        With one, neither the record in hand of an iteration nor what the last poll has returned.
        """
        if self._loop is not None and not self._is_closed:
            if kind is None:
                self._loop.finish_own_iteration()
            else:
                self._loop.give_back()
        await self.close()

    # ---- what to read ----------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group: by name, or by a pattern of whole names.

        Replaces the topics of an earlier call; the group rebalances at the next poll.
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
        """Leave the group, or drop the assigned partitions.

        If the call is cancelled, that happens all the same, and nothing more is committed.
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
        """Read these partitions, without a group; those assigned before keep their positions."""
        self._check_use()
        wanted = [checked_partition(partition) for partition in partitions]
        if self._loop is not None:
            self._loop.interrupt()
        self._subscription.assign_manually(wanted)
        if self._loop is not None:
            self._loop.follow_subscription()

    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._subscription.assigned)

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to, by name or by the pattern."""
        return self._subscription.topics

    # ---- reading ---------------------------------------------------------------------------

    async def poll(
        self, *, timeout_ms: int = POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """The next records, as soon as there are some; none when the time is over.

        At most `max_records`, by default the setting max_poll_records. Records that were returned
        before count as processed.
        Raises: the error behind the last record of a partition (SeekRequiredError,
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
        batches = await self.poll_batches(timeout_ms=timeout_ms)
        try:
            found, error = read_columns(batches)
        except BaseException:
            # Their position is moved, but the program has none of them: without pyarrow, say.
            for first in batches[:1]:
                self.seek(TopicPartition(first.topic, first.partition), first.first_offset)
            raise
        if error is not None and error.position is not None:
            topic, partition, offset = error.position
            self.seek(TopicPartition(topic, partition), offset)
            if not found:
                raise error
        return found

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records until `wakeup` or `close`; raises as `poll` does.

        A record counts as processed when the next one is requested, and the last one when the
        `async with` block is left without an exception.
        """
        self._check_open()
        while not self._is_closed:
            with self._use:
                self._use.check_not_nested()
                iteration = await self._running.next_iteration()
            if iteration is None:
                return
            loop = self._running
            records, at, stride = iteration.portion.records, 0, 1
            while True:
                for record in records[at : at + stride]:
                    iteration.current = record
                    yield record
                    if iteration.is_stale:
                        break
                at += stride
                # Where processing a record takes almost no time, not each of them reads the clock.
                is_due = loop.is_maintenance_due()
                stride = 1 if is_due else min(2 * stride, _LOOK_STRIDE_MAX)
                if is_due and not iteration.is_stale:
                    with self._use:
                        await loop.maintain_iteration()
                if iteration.is_stale:
                    break
                if at >= len(records):
                    iteration.finish()
                    break

    def wakeup(self) -> None:
        """Make the poll that waits, or the next one, return no records; end an iteration.

        May be called by any task of the loop; from a thread with `loop.call_soon_threadsafe`.
        """
        if self._loop is not None:
            self._loop.wake_up()

    # ---- positions -------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Move the position to an offset; records fetched from elsewhere are dropped.

        Raises: IllegalStateError if the partition is not assigned.
        """
        self._check_use()
        target = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if target.offset < 0:
            raise UsageError(f"an offset is not negative: {target.offset}; see seek_to_beginning()")
        state = self._subscription.state(partition)
        if self._loop is not None:
            self._loop.interrupt(TopicPartition(*partition))
        state.seek(target.offset, target.leader_epoch)
        if self._loop is not None:
            self._loop.on_positions_changed()

    def seek_to_beginning(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Move the position to the first record of the partitions, by default of all."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Move the position to the end (with read_committed: to the last stable offset)."""
        self._reset(partitions, LATEST)

    def seek_to_timestamp(
        self, timestamp_ms: int, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        """Move the position to the first record that is not older, or to the end."""
        if timestamp_ms < 0:
            raise UsageError(f"a timestamp in milliseconds is not negative: {timestamp_ms}")
        self._reset(partitions, timestamp_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; fetched records are kept."""
        self._set_paused(partitions, True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, False)

    def stop_at(self, partition: TopicPartition, offset: int | None) -> None:
        """Fetch nothing at or behind an offset (exclusive); None removes the limit.

        For reading a range. Records behind its end that came in the same response are returned all
        the same.
        """
        self._check_use()
        self._subscription.state(partition).stop_offset = offset
        if self._loop is not None:
            self._loop.on_positions_changed()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(self._subscription.paused())

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """The offset of the next record; waits until it is known.

        Raises: IllegalStateError if the partition is not assigned; TimedOutError.
        """
        with self._use:
            state = self._subscription.state(partition)
            self._running.update_positions()
            if state.offset < 0:
                await self._running.wait_for_position(state, self._timeout_ms(timeout_ms))
            if state.offset < 0:
                raise TimedOutError(
                    f"the position of {TopicPartition(*partition)} is not known"
                    f"{self._missing(*partition)}"
                )
            return state.offset

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of each assigned partition, for a producer's `send_offsets`.

        Returned records count as processed; a partition without a position is missing.
        """
        self._check_use()
        self._running.update_positions()
        return self._subscription.positions()

    async def lag(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, int | None]:
        """How many offsets each assigned partition has left; None while it has no position.

        Counted to the end by the newest fetch response, or else by a request.
        """
        loop = self._running
        loop.update_positions()
        is_committed = self.settings.isolation_level == "read_committed"
        assigned = dict(self._subscription.assigned)
        lags = {one: state.lag(read_committed=is_committed) for one, state in assigned.items()}
        unknown = [one for one, lag in lags.items() if lag is None and assigned[one].offset >= 0]
        if unknown:
            ends = await self.end_offsets(unknown, timeout_ms=timeout_ms)
            lags.update({one: lag_behind(ends[one], assigned[one].offset) for one in unknown})
        return lags

    # ---- offsets of the group --------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets, by default the positions behind all returned records.

        Raises: CommitFailedError or MembershipLostError if others may have the partitions; the last
        RetriableError after the timeout.
        """
        with self._use:
            committer = self._committer
            self._running.update_positions()
            self._running.count_as_processed()
            wanted = self._subscription.positions() if offsets is None else offsets
            await committer.commit(wanted, timeout_ms=self._timeout_ms(timeout_ms))

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting or retrying, then call `callback(offsets, error or None)`."""
        self._check_use()
        committer = self._committer
        self._running.update_positions()
        self._running.count_as_processed()
        wanted = self._subscription.positions() if offsets is None else offsets
        committer.commit_soon(wanted, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of the group; None where nothing was committed."""
        wanted = {checked_partition(partition) for partition in partitions}
        return await self._committer.fetch_committed(
            wanted, timeout_ms=self._timeout_ms(timeout_ms)
        )

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Group, member and generation, for a producer's `send_offsets`."""
        group_id = self.settings.group_id
        if group_id is None:
            raise IllegalStateError("no group: set group_id")
        membership = self._running.membership
        return ConsumerGroupMetadata(group_id) if membership is None else membership.metadata()

    def enforce_rebalance(self, reason: str = "requested by the program") -> None:
        """Make the group rebalance, at the next poll."""
        membership = self._running.membership
        if membership is None:
            raise IllegalStateError("no group to rebalance: subscribe() first")
        membership.request_rejoin(reason)

    # ---- offsets of the log ----------------------------------------------------------------

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older; None where all are older."""
        for partition, timestamp_ms in timestamps_ms.items():
            if timestamp_ms < 0:
                raise UsageError(f"a timestamp is not negative: {partition} {timestamp_ms}")
        return await self._list_offsets(timestamps_ms, timeout_ms)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition that can be read."""
        return await self._ends(dict.fromkeys(partitions, EARLIEST), timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that can be read (under read_committed: decided)."""
        return await self._ends(dict.fromkeys(partitions, LATEST), timeout_ms)

    # ---- inside ----------------------------------------------------------------------------

    @property
    def internals(self) -> PollLoop:
        """The parts of a started consumer, for tests; not part of the public API."""
        return self._running

    @property
    def _running(self) -> PollLoop:
        self._check_open()
        if self._loop is None:
            raise IllegalStateError("the consumer is not started: await start(), or use async with")
        return self._loop

    @property
    def _committer(self) -> OffsetCommitter:
        committer = self._running.committer
        if committer is None:
            raise IllegalStateError("offsets are kept per group: set group_id")
        return committer

    def _check_open(self) -> None:
        if self._is_closed and self._closer is not asyncio.current_task():
            raise ClosedError("the consumer is closed")

    def _check_use(self) -> None:
        if self._is_closed:
            self._check_open()
        self._use.check()

    def _missing(self, topic: str, partition: int) -> str:
        """Why a partition has no position, as the end of a sentence."""
        known = self._client.cluster.topics.get(topic)
        if known is None:
            return " yet"
        if not known.partitions:
            return f": there is no topic {topic}"
        if partition not in known.partitions:
            return f": topic {topic} has only {len(known.partitions)} partitions"
        return " yet"

    def _timeout_ms(self, timeout_ms: int | None) -> int:
        return self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _reset(self, partitions: Collection[TopicPartition] | None, timestamp_ms: int) -> None:
        self._check_use()
        chosen = list(self._subscription.assigned) if not partitions else list(partitions)
        states = [self._subscription.state(partition) for partition in chosen]
        for partition, state in zip(chosen, states, strict=True):
            if self._loop is not None:
                self._loop.interrupt(TopicPartition(*partition))
            state.request_reset(timestamp_ms)
        if self._loop is not None:
            self._loop.on_positions_changed()

    def _set_paused(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        self._check_use()
        states = [(one, self._subscription.state(one)) for one in partitions]
        for partition, state in states:
            if self._loop is not None:
                self._loop.interrupt(TopicPartition(*partition))
            state.is_paused = is_paused
        if self._loop is not None:
            self._loop.on_positions_changed()

    async def _ends(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        found = await self._list_offsets(wanted, timeout_ms)
        return {partition: 0 if one is None else one.offset for partition, one in found.items()}

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return await list_offsets_until(
            self._running.client,
            {checked_partition(partition): time for partition, time in wanted.items()},
            isolation_level=int(self.settings.isolation_level == "read_committed"),
            timeout_ms=self._timeout_ms(timeout_ms),
        )


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"{pattern!r} is no pattern for topic names: {error}") from error
