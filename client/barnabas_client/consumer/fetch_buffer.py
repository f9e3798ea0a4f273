"""The responses that were fetched and not returned yet, of all partitions, in order of arrival.

Pure. Not here: fetching (`fetcher.py`), moving positions: whoever takes records moves them when
the program gets them.

Source: CON-6 (stale data is dropped; an error is raised after the records before it), Kafka's
FetchBuffer. Invariants: only records that continue at a partition's position are returned; paused
partitions keep their data; a partition is read to the end of its oldest fetch, then the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from barnabas_client.consumer.completed_fetch import CompletedFetch
from barnabas_client.consumer.partition_state import PartitionState, PositionPhase
from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import BarnabasError, CorruptRecordError
from barnabas_protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Portion:
    """Some records of one partition, valid while its position is `offset`.

    `next_offset` is the position behind them. `was_intercepted` says that interceptors have seen
    them: those that an iteration did not yield are not shown to them again.
    """

    partition: TopicPartition
    state: PartitionState
    offset: int
    records: list[ConsumerRecord]
    next_offset: int
    leader_epoch: int
    was_intercepted: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether the partition is still at that position and fetchable."""
        return self.state.offset == self.offset and self.state.is_fetchable

    def advance_position(self) -> None:
        """Move the partition's position behind the records."""
        self.state.advance(self.next_offset, self.leader_epoch)

    def first(self, count: int) -> Portion:
        """The first records, if there are more than `count`; behind them comes `after`."""
        if len(self.records) <= count:
            return self
        records = self.records[:count]
        last = records[-1]
        return Portion(
            self.partition,
            self.state,
            self.offset,
            records,
            last.offset + 1,
            last.leader_epoch,
            self.was_intercepted,
        )

    def after(self, count: int) -> Portion | None:
        """The records behind the first `count`; None if there are none."""
        if len(self.records) <= count:
            return None
        return Portion(
            self.partition,
            self.state,
            self.records[count - 1].offset + 1 if count else self.offset,
            self.records[count:],
            self.next_offset,
            self.leader_epoch,
            self.was_intercepted,
        )


class _PartitionQueue:
    """The fetches of one partition, oldest first."""

    __slots__ = ("error", "fetches", "node_id")

    def __init__(self, node_id: int) -> None:
        self.fetches: deque[CompletedFetch] = deque()
        # Raised once when all records before it were returned.
        self.error: BarnabasError | None = None
        self.node_id = node_id

    @property
    def buffered_bytes(self) -> int:
        return sum(fetch.remaining_bytes for fetch in self.fetches)


class FetchBuffer:
    """Buffered fetches of the partitions of one subscription."""

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._queues: dict[TopicPartition, _PartitionQueue] = {}
        # Partitions with data or an error; the first is read next.
        self._order: deque[TopicPartition] = deque()
        #: Set when there may be room again, so that the fetcher looks at the partitions.
        self.has_new_room = False

    def __len__(self) -> int:
        """How many partitions have data or an error."""
        return len(self._queues)

    def add(self, data: CompletedFetch, node_id: int) -> None:
        """Append a fetch that continues where the partition's last one ends."""
        self._queue(data.partition, node_id).fetches.append(data)

    def fail(self, partition: TopicPartition, error: BarnabasError, node_id: int) -> None:
        """Raise the error once all before it has been taken."""
        self._queue(partition, node_id).error = error

    def fetch_offset(self, partition: TopicPartition, state: PartitionState) -> int:
        """The next offset to fetch: behind the buffered data, else the position."""
        queue = self._queues.get(partition)
        if queue is None or not queue.fetches:
            return state.offset
        return queue.fetches[-1].end_offset

    def fetched_epoch(self, partition: TopicPartition, state: PartitionState) -> int:
        """The leader epoch of the last record before `fetch_offset`; -1 if it is not known.

        By it a leader detects that its log diverges (KIP-320).
        """
        queue = self._queues.get(partition)
        if queue is None or not queue.fetches:
            return state.leader_epoch
        return queue.fetches[-1].end_leader_epoch

    def buffered_bytes(self, partition: TopicPartition) -> int:
        """The buffered bytes of one partition."""
        queue = self._queues.get(partition)
        return 0 if queue is None else queue.buffered_bytes

    def buffered_bytes_by_node(self) -> dict[int, int]:
        """The buffered bytes by the broker that sent them."""
        total: dict[int, int] = {}
        for queue in self._queues.values():
            total[queue.node_id] = total.get(queue.node_id, 0) + queue.buffered_bytes
        return total

    def has_readable(self, node_id: int) -> bool:
        """Whether data of the broker can be returned, which makes room."""
        return any(
            queue.node_id == node_id and not self._is_paused(partition)
            for partition, queue in self._queues.items()
        )

    def drop_paused(self, node_id: int) -> None:
        """Drop the data of the broker's paused partitions; it is fetched again later."""
        for partition, queue in list(self._queues.items()):
            if queue.node_id == node_id and self._is_paused(partition):
                self.drop(partition)

    def has_error(self, partition: TopicPartition) -> bool:
        """Whether an error waits: nothing more is fetched before it is raised."""
        queue = self._queues.get(partition)
        return queue is not None and queue.error is not None

    def take(self, count_max: int) -> Portion | None:
        """The next records, of one partition; None if there are none now.

        The position stays until `Portion.advance_position`, which must come before the next call.
        Raises: CorruptRecordError, and what `fail` was given.
        """
        while (fetch := self._next_fetch()) is not None:
            partition = fetch.partition
            state = self._subscription.assigned[partition]
            try:
                records = fetch.read_records(count_max)
            except CorruptRecordError:
                # It is fetched again, and raised again; other partitions are read until then.
                self.drop(partition)
                raise
            if fetch.is_done:
                self._finish_fetch(partition)
            if records:
                next_offset, leader_epoch = fetch.next_offset, fetch.leader_epoch
                return Portion(partition, state, state.offset, records, next_offset, leader_epoch)
            # Only markers, aborted records or gaps.
            state.advance(fetch.next_offset, fetch.leader_epoch)
        return None

    def take_batches(self) -> list[FetchedBatch]:
        """All batches of the oldest fetch that may be returned; positions are moved.

        Raises: as `take`.
        """
        while (fetch := self._next_fetch()) is not None:
            batches: list[FetchedBatch] = []
            try:
                while (batch := fetch.read_batch()) is not None:
                    batches.append(batch)
            except CorruptRecordError:
                if not batches:
                    self.drop(fetch.partition)
                    raise
            state = self._subscription.assigned[fetch.partition]
            state.advance(fetch.next_offset, fetch.leader_epoch)
            if fetch.is_done:
                self._finish_fetch(fetch.partition)
            if batches:
                return batches
        return []

    def keep_only(self, is_wanted: Callable[[TopicPartition], bool]) -> None:
        """Drop everything of the other partitions."""
        for partition in [partition for partition in self._queues if not is_wanted(partition)]:
            self.drop(partition)

    def drop(self, partition: TopicPartition) -> None:
        """Drop the data of the partition."""
        if self._queues.pop(partition, None) is not None:
            self._order.remove(partition)
            self.has_new_room = True

    def _is_paused(self, partition: TopicPartition) -> bool:
        state = self._subscription.assigned.get(partition)
        return state is not None and (state.is_paused or state.is_pending_revocation)

    def _queue(self, partition: TopicPartition, node_id: int) -> _PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _PartitionQueue(node_id)
            self._order.append(partition)
        queue.node_id = node_id
        return queue

    def _next_fetch(self) -> CompletedFetch | None:
        """The oldest fetch of the first partition that may be read, which is then first in order.

        Raises: an error that has waited for its turn.
        """
        passed_count = 0
        while passed_count < len(self._order):
            partition = self._order[0]
            queue = self._queues[partition]
            state = self._subscription.assigned.get(partition)
            if state is None or state.phase is not PositionPhase.READY:
                self.drop(partition)
            elif not state.is_fetchable:
                self._order.rotate(-1)
                passed_count += 1
            elif not queue.fetches:
                self.drop(partition)
                assert queue.error is not None
                raise queue.error
            elif queue.fetches[0].next_offset != state.offset:
                self.drop(partition)
            else:
                return queue.fetches[0]
        return None

    def _finish_fetch(self, partition: TopicPartition) -> None:
        """Read the partition's next fetch after those of the other partitions."""
        queue = self._queues[partition]
        queue.fetches.popleft()
        self.has_new_room = True
        if queue.fetches or queue.error is not None:
            self._order.rotate(-1)
        else:
            del self._queues[partition]
            self._order.popleft()
