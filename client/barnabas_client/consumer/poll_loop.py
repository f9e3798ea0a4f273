"""The polls of a consumer: group, positions, buffered records, fetches, and waiting for them.

Owns everything of a started consumer that runs; `consumer.py` is what the program calls.

Source: CON-4, CON-8. Invariants: fetches are sent before records are returned;
nothing can fail between moving positions and the return to the program; no wait is longer than
`WAIT_MS_MAX`, so that group and commits are maintained.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.deserialization import RecordDeserializer
from barnabas_client.consumer.fetch_buffer import FetchBuffer, Portion
from barnabas_client.consumer.fetcher import Fetcher
from barnabas_client.consumer.interceptors import ConsumerInterceptors
from barnabas_client.consumer.iteration import PortionIteration
from barnabas_client.consumer.partition_state import PartitionState, Position
from barnabas_client.consumer.positions import PositionFinder
from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.consumer.subscription_state import SubscriptionKind, SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    ClientBrokenError,
    ClosedError,
    IllegalStateError,
    error_for,
)
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.consumer.group.membership import GroupMembership

_log = logging.getLogger(__name__)

WAIT_MS_MAX: Final = 1000
# While there are records, the event loop runs at least this often: it reads the sockets.
_YIELD_INTERVAL_MS: Final = 2
# A topic that is being created has none at first.
_TOPIC_ERRORS_LOGGED_AT: Final = 3
_FOREVER_MS: Final = 1 << 60
# How long a close that was cancelled takes to leave, so that the group need not wait for a timeout.
_LEAVE_TIMEOUT_MS: Final = 500


class PollLoop:
    """The parts of a started consumer."""

    def __init__(
        self, client: Client, settings: ConsumerSettings, subscription: SubscriptionState
    ) -> None:
        """Connect the parts; nothing is sent before `follow_subscription`."""
        self.client = client
        self._settings = settings
        self._subscription = subscription
        self._clock = client.environment.clock
        self._wake = asyncio.Event()
        self._is_closing = False
        self._is_woken_up = False
        self._assignment_version = -1
        self._yielded_at_ms = 0
        self._maintained_at_ms = 0
        self._wants_all_topics = False
        self._join_from_version = 0
        self._error: BarnabasError | None = None
        self._leftover: Portion | None = None
        # What the last poll has returned: the partition, its position before, the offset behind.
        self._returned: list[tuple[PartitionState, Position, int]] = []
        # Topics that have no partitions to read, and in how many metadata in a row.
        self._topic_errors: dict[str, int] = {}
        #: The iteration that is yielding records.
        self.iteration: PortionIteration | None = None
        self.interceptors = ConsumerInterceptors(settings.interceptors)
        self._deserializer = RecordDeserializer(
            settings.key_deserializer, settings.value_deserializer
        )
        self.committer: OffsetCommitter | None = None
        self.membership: GroupMembership | None = None
        if settings.group_id is not None:
            self.committer = OffsetCommitter(client, settings, subscription)
            if self.interceptors:
                self.committer.on_committed = self.interceptors.on_commit
        self.buffer = FetchBuffer(subscription)
        self.positions = PositionFinder(
            client,
            settings,
            subscription,
            fetch_committed=None if self.committer is None else self.committer.fetch_committed,
            on_change=self._on_positions,
        )
        self.fetcher = Fetcher(
            client, settings, subscription, self.buffer, self.positions, on_data=self._wake.set
        )
        self._forget_metadata = client.on_metadata(self._on_metadata)

    # ---- changes by the program ------------------------------------------------------------

    def follow_subscription(self) -> None:
        """Topics, pattern or partitions of the subscription have changed."""
        subscription = self._subscription
        if subscription.is_group_managed and self.membership is None:
            assert self.committer is not None, "subscribing needs a group"
            # Imported here: programs that assign partitions do not need it.
            from barnabas_client.consumer.group.membership import create_membership

            self.membership = create_membership(
                self.client, self._settings, subscription, self.committer, wake=self._wake.set
            )
        is_pattern = subscription.kind is SubscriptionKind.PATTERN
        if is_pattern and not self._wants_all_topics:
            # Joining with the topics that happen to be known would cost a second rebalance.
            self._join_from_version = self.client.cluster.version + 1
        self._wants_all_topics = is_pattern
        self.client.want_all_topics(is_pattern)
        self.client.set_wanted_topics(subscription.metadata_topics)
        if not is_pattern:
            self._join_from_version = 0
        subscription.update_matching(self.client.cluster)
        self._follow_assignment()
        self._wake.set()

    def on_positions_changed(self) -> None:
        """Positions or pauses were changed from outside."""
        self.buffer.has_new_room = True
        self.positions.request()
        self._wake.set()

    def wake_up(self) -> None:
        """Let the poll that waits, or else the next one, return early; end an iteration."""
        self._is_woken_up = True
        self.interrupt()
        self._wake.set()

    def begin_close(self) -> None:
        """Make the poll that waits, and every later one, raise ClosedError."""
        self._is_closing = True
        self._wake.set()

    def finish_own_iteration(self) -> None:
        """The task that iterates has processed its last record, too."""
        iteration = self.iteration
        if iteration is not None and iteration.reader is asyncio.current_task():
            self.interrupt()

    def count_as_processed(self) -> None:
        """What the last poll has returned is processed, as far as anybody can tell."""
        self._returned.clear()

    def give_back(self) -> None:
        """What the last poll has returned is not processed: an exception came in between."""
        for state, before, next_offset in self._returned:
            if state.offset == next_offset:
                state.advance(before.offset, before.leader_epoch)
        self._returned.clear()

    def update_positions(self) -> None:
        """Move the position of the iterated partition behind the last yielded record."""
        if self.iteration is not None:
            self.iteration.update_position()

    def interrupt(self, partition: TopicPartition | None = None) -> None:
        """End the iteration (if it is of that partition), and update its position."""
        iteration = self.iteration
        if iteration is None or partition not in (None, iteration.portion.partition):
            return
        leftover = iteration.stop()
        self.iteration = None
        if leftover is not None:
            self._leftover = leftover

    # ---- polls -----------------------------------------------------------------------------

    async def poll(self, timeout_ms: int, count_max: int) -> list[ConsumerRecord]:
        """Up to `count_max` records; none at the end of the time, or when woken up."""
        self.interrupt()
        self.count_as_processed()
        portion = await self._wait_for_portion(timeout_ms, count_max)
        if portion is None:
            return []
        records = portion.records
        self._return(portion)
        while len(records) < count_max:
            try:
                following = self._take(count_max - len(records))
            except BarnabasError as error:
                self._error = error
                break
            except Exception as error:  # what was taken before must not be lost with it
                self._error = ClientBrokenError(f"records cannot be read: {error!r}")
                self._error.__cause__ = error
                break
            if following is None:
                break
            if records is portion.records:
                records = records[:]
            records += following.records
            self._return(following)
        if self.buffer.has_new_room:
            self.fetcher.send_fetches()
        if not self.interceptors:
            return records
        seen = len(portion.records) if portion.was_intercepted else 0
        fresh = records[seen:]
        return records[:seen] + (self.interceptors.on_consume(fresh) if fresh else fresh)

    async def next_iteration(self) -> PortionIteration | None:
        """The next records to iterate over; None when woken up or closed."""
        self.interrupt()
        self.count_as_processed()
        try:
            portion = await self._wait_for_portion(_FOREVER_MS, self._settings.max_poll_records)
        except ClosedError:
            return None
        if portion is None:
            return None
        if self.interceptors and not portion.was_intercepted:
            records = self.interceptors.on_consume(list(portion.records))
            portion = replace(portion, records=records, was_intercepted=True)
        self.iteration = PortionIteration(portion, asyncio.current_task())
        self._maintained_at_ms = self._clock.monotonic_ms()
        return self.iteration

    def is_maintenance_due(self) -> bool:
        """Whether event loop and group have waited for long enough during an iteration."""
        return self._clock.monotonic_ms() - self._maintained_at_ms >= _YIELD_INTERVAL_MS

    async def maintain_iteration(self) -> None:
        """Between two records of an iteration, do what a poll does before it returns records.

        If the group needs a poll, the iteration of this portion ends; the rest of it is yielded
        next, if the partition is still this member's.
        """
        self._yielded_at_ms = self._clock.monotonic_ms()
        await asyncio.sleep(0)
        now_ms = self._maintained_at_ms = self._clock.monotonic_ms()
        if self.committer is not None and self.committer.auto_commit_due(now_ms):
            self.update_positions()
            self.committer.auto_commit(now_ms)
        membership = self.membership
        is_wanted = (
            membership is not None
            and self._subscription.is_group_managed
            and membership.needs_poll()
        )
        if self.iteration is not None and (is_wanted or not self._is_held(self.iteration.portion)):
            self.interrupt()

    async def poll_batches(self, timeout_ms: int) -> list[FetchedBatch]:
        """The batches of one response, as they are stored."""
        self.interrupt()
        self.count_as_processed()
        self._leftover = None
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            await self._maintain(deadline_ms)
            batches = self.buffer.take_batches()
            for first in batches[:1]:
                state = self._subscription.assigned[TopicPartition(first.topic, first.partition)]
                self._returned.append((state, Position(first.first_offset, -1), state.offset))
            if self.buffer.has_new_room:
                self.fetcher.send_fetches()
            if batches or not await self._wait(deadline_ms):
                return batches

    async def wait_for_position(self, state: PartitionState, timeout_ms: int) -> None:
        """Return when the partition has a position, or at the end of the time."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self.positions.request()
        while state.offset < 0:
            self.positions.raise_error()
            if self._is_closing or not await self._wait(deadline_ms):
                return

    async def finish(self, timeout_ms: int, *, leave_group: bool | None) -> None:
        """Commit and leave the group, which `GroupMembership.close` describes."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if self.iteration is not None:
            self.iteration.stop_before_current()
        if self.committer is not None and not self._subscription.is_group_managed:
            await self.committer.commit_before_rebalance(self._left_ms(deadline_ms))
        if self.membership is not None:
            left_ms = self._left_ms(deadline_ms)
            await self.membership.close(left_ms, leave_group=leave_group)
        if self.committer is not None:
            await self.committer.close(self._left_ms(deadline_ms))

    async def release(self) -> None:
        """End everything in the background, within about a second."""
        self._forget_metadata()
        if self.membership is not None:
            await self.membership.stop(_LEAVE_TIMEOUT_MS)
        if self.committer is not None:
            await self.committer.close(0)
        await self.positions.close()
        await self.fetcher.close()

    # ---- inside ----------------------------------------------------------------------------

    def _return(self, portion: Portion) -> None:
        """Move the position behind records that the program gets."""
        state = portion.state
        before = Position(portion.offset, state.leader_epoch)
        self._returned.append((state, before, portion.next_offset))
        portion.advance_position()

    async def _wait_for_portion(self, timeout_ms: int, count_max: int) -> Portion | None:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            await self._maintain(deadline_ms)
            error, self._error = self._error, None
            if error is not None:
                raise error
            portion = None if self._is_woken_up else self._take(count_max)
            if self.buffer.has_new_room:
                self.fetcher.send_fetches()
            if portion is not None or not await self._wait(deadline_ms):
                return portion

    async def _maintain(self, deadline_ms: int) -> None:
        """Maintain commits, group and event loop; raise errors of the background."""
        if self._is_closing:
            raise ClosedError("the consumer is being closed")
        if self._subscription.kind is SubscriptionKind.NONE:
            raise IllegalStateError("nothing to read: call subscribe() or assign() first")
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._yielded_at_ms >= _YIELD_INTERVAL_MS:
            self._yielded_at_ms = now_ms
            await asyncio.sleep(0)
        if self.committer is not None and self.committer.auto_commit_due(now_ms):
            self.committer.auto_commit(now_ms)
        membership = self.membership
        if (
            membership is not None
            and self._subscription.is_group_managed
            and membership.needs_poll()
            and self.client.cluster.version >= self._join_from_version
        ):
            await membership.poll(min(deadline_ms, now_ms + WAIT_MS_MAX))
        if self._assignment_version != self._subscription.assignment_version:
            self._follow_assignment()
        if self.positions.has_error:
            self.positions.raise_error()
        if self.fetcher.has_error:
            self.fetcher.raise_error()

    async def _wait(self, deadline_ms: int) -> bool:
        """Wait for data or changes; False when the time is over or the program has woken us up."""
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0 or self._is_woken_up:
            self._is_woken_up = False
            return False
        self.fetcher.send_fetches()
        try:
            async with asyncio.timeout(min(left_ms, WAIT_MS_MAX) / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        self._yielded_at_ms = self._clock.monotonic_ms()
        return True

    def _take(self, count_max: int) -> Portion | None:
        """The next records with their objects, without moving the position."""
        leftover, self._leftover = self._leftover, None
        if leftover is not None and self._is_current(leftover):
            self._leftover = leftover.after(count_max)
            return leftover.first(count_max)
        portion = self.buffer.take(count_max)
        if portion is None or not self._deserializer.is_needed:
            return portion
        records, error = self._deserializer.apply(portion.records)
        if error is None:
            portion.records[:] = records
            return portion
        # The records behind it are dropped, and read again later.
        if not records:
            raise error
        portion.records[: len(records)] = records
        return portion.first(len(records))

    def _is_current(self, portion: Portion) -> bool:
        return self._is_held(portion) and portion.is_wanted

    def _is_held(self, portion: Portion) -> bool:
        """Whether the partition is assigned and not paused."""
        state = self._subscription.assigned.get(portion.partition)
        return state is portion.state and state.is_fetchable

    def _follow_assignment(self) -> None:
        self._assignment_version = self._subscription.assignment_version
        assigned = self._subscription.assigned
        self.buffer.keep_only(lambda partition: partition in assigned)
        self.positions.request()
        self.fetcher.send_fetches()

    def _on_positions(self) -> None:
        self.fetcher.send_fetches()
        self._wake.set()

    def _on_metadata(self, cluster: ClusterMetadata) -> None:
        # The membership notices by itself that other topics match the pattern.
        if self._subscription.update_matching(cluster):
            self.client.set_wanted_topics(self._subscription.metadata_topics)
        self._check_topics(cluster)
        self.fetcher.send_fetches()
        self._wake.set()

    def _check_topics(self, cluster: ClusterMetadata) -> None:
        """Raise or log errors of topics that the program waits for."""
        before, self._topic_errors = self._topic_errors, {}
        for name in self._subscription.metadata_topics:
            topic = cluster.topics.get(name)
            if topic is None or topic.error_code == ErrorCode.NONE:
                continue
            code = ErrorCode(topic.error_code)
            count = self._topic_errors[name] = before.get(name, 0) + 1
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and name in self._subscription.topics:
                self._error = error_for(code, f"topic {name} may not be read")
            elif count == _TOPIC_ERRORS_LOGGED_AT:
                _log.warning("topic %s cannot be read, waiting for it: %s", name, code.name)

    def _left_ms(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._clock.monotonic_ms())
