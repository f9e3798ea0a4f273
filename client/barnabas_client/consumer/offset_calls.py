"""The consumer's calls about offsets: positions, those of the group, those of the log.

The second half of the consumer's face; subscribing and reading are in `consumer.py`.

Source: CON-5, CON-7, CON-9 of behaviour.md. Calls that only ask (`committed`, `lag`, the offsets of
the log) may be made by any task, also while another one polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import CommitCallback, OffsetCommitter
from barnabas_client.consumer.exclusive_use import ExclusiveUse
from barnabas_client.consumer.offsets_lookup import OffsetAndTimestamp, list_offsets_until
from barnabas_client.consumer.partition_state import EARLIEST, LATEST
from barnabas_client.consumer.poll_loop import PollLoop
from barnabas_client.consumer.subscription_state import SubscriptionState, checked_partition
from barnabas_client.errors import ClosedError, IllegalStateError, TimedOutError, UsageError
from barnabas_client.network.client import Client
from barnabas_protocol.ids import TopicPartition


class OffsetCalls:
    """What `Consumer` inherits."""

    def __init__(self, client: Client, settings: ConsumerSettings) -> None:
        self.settings = settings
        self._client = client
        self._subscription = SubscriptionState(
            exclude_internal_topics=settings.exclude_internal_topics
        )
        self._use = ExclusiveUse()
        self._loop: PollLoop | None = None
        self._is_closed = False
        # Done when `close` is, None before; and the task that closes, whose listener may call.
        self._closed: asyncio.Future[None] | None = None
        self._closer: asyncio.Task[Any] | None = None

    # ---- positions -------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at an offset; what was fetched from elsewhere is dropped.

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
            self._loop.look_again()

    def seek_to_beginning(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on at the first record of the partitions, by default of all."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on behind the last record (under read_committed: before the first undecided one)."""
        self._reset(partitions, LATEST)

    def seek_to_timestamp(
        self, timestamp_ms: int, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        """Go on at the first record that is not older, at the end if there is none."""
        if timestamp_ms < 0:
            raise UsageError(f"a timestamp in milliseconds is not negative: {timestamp_ms}")
        self._reset(partitions, timestamp_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these until `resume`; what was fetched is kept."""
        self._set_paused(partitions, True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""
        self._set_paused(partitions, False)

    def stop_at(self, partition: TopicPartition, offset: int | None) -> None:
        """Fetch nothing at or behind an offset (exclusive) until it is set anew; None: go on.

        For reading a range: nothing is asked for behind its end. What came along in the same
        answer is handed out all the same.
        """
        self._check_use()
        self._subscription.state(partition).stop_offset = offset
        if self._loop is not None:
            self._loop.look_again()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(self._subscription.paused())

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """The offset of the next record; waits until it is known.

        Raises: IllegalStateError if the partition is not assigned; TimedOutError.
        """
        with self._use:
            state = self._subscription.state(partition)
            self._running.settle()
            if state.offset < 0:
                await self._running.wait_for_position(state, self._timeout_ms(timeout_ms))
            if state.offset < 0:
                raise TimedOutError(
                    f"the position of {TopicPartition(*partition)} is not known"
                    f"{self._missing(*partition)}"
                )
            return state.offset

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each assigned partition is read on, for a producer's `send_offsets`.

        All that was handed out counts as processed; a partition without a position is missing.
        """
        self._check_use()
        self._running.settle()
        return self._subscription.positions()

    async def lag(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, int | None]:
        """How many offsets each assigned partition has left; None while it has no position.

        Counted to the end that the newest fetch answer has told, else to the one asked for now.
        """
        loop = self._running
        loop.settle()
        is_committed = self.settings.isolation_level == "read_committed"
        assigned = dict(self._subscription.assigned)
        lags = {one: state.lag(read_committed=is_committed) for one, state in assigned.items()}
        unknown = [one for one, lag in lags.items() if lag is None and assigned[one].offset >= 0]
        if unknown:
            ends = await self.end_offsets(unknown, timeout_ms=timeout_ms)
            lags.update({one: max(0, ends[one] - assigned[one].offset) for one in unknown})
        return lags

    # ---- offsets of the group --------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Have the group remember offsets, by default of all that was handed out.

        Raises: CommitFailedError or MembershipLostError if others may have the partitions; the last
        RetriableError after the timeout.
        """
        with self._use:
            committer = self._committer
            self._running.settle()
            wanted = self._subscription.positions() if offsets is None else offsets
            await committer.commit(wanted, timeout_ms=self._timeout_ms(timeout_ms))

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """The same without waiting or repeating; `callback(offsets, error or None)`, in order."""
        self._check_use()
        committer = self._committer
        self._running.settle()
        wanted = self._subscription.positions() if offsets is None else offsets
        committer.commit_soon(wanted, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group remembers; None where nothing was committed."""
        wanted = {checked_partition(partition) for partition in partitions}
        return await self._committer.fetch_committed(
            wanted, timeout_ms=self._timeout_ms(timeout_ms)
        )

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who commits, for a producer's `send_offsets`."""
        group_id = self.settings.group_id
        if group_id is None:
            raise IllegalStateError("no group: set group_id")
        membership = self._running.membership
        return ConsumerGroupMetadata(group_id) if membership is None else membership.metadata()

    def enforce_rebalance(self, reason: str = "asked for by the program") -> None:
        """Have the group assign anew, at the next poll."""
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
        """What the cluster lacks of a partition, to be put behind a sentence."""
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
            self._loop.look_again()

    def _set_paused(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        self._check_use()
        states = [(one, self._subscription.state(one)) for one in partitions]
        for partition, state in states:
            if self._loop is not None:
                self._loop.interrupt(TopicPartition(*partition))
            state.is_paused = is_paused
        if self._loop is not None:
            self._loop.look_again()

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
