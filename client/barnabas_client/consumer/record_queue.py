"""What was fetched and not yet handed out, of all partitions, in the order in which it came.

Pure. Not here: asking for more (`fetcher.py`), moving positions: whoever takes records moves them
when they count as handed out.

Source: CON-6 of behaviour.md (what is no longer wanted is dropped; an error comes after the records
before it). Invariants: only what continues exactly at a partition's position is handed out; paused
partitions keep their data; a partition is read to the end of its oldest answer, then the next has
its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from barnabas_client.consumer.fetched_data import FetchedData
from barnabas_client.consumer.partition_state import PartitionState, PositionPhase
from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import BarnabasError, CorruptRecordError
from barnabas_protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Portion:
    """Some records of one partition, to be handed out while its position is `offset`.

    `next_offset` is where reading goes on behind them. `was_intercepted` says that interceptors
    have had them: what an iteration leaves over is not shown to them again.
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
        """Whether nothing has happened to the partition that makes the records useless."""
        return self.state.offset == self.offset and self.state.is_fetchable

    def hand_out(self) -> None:
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
    """The answers of one partition, oldest first."""

    __slots__ = ("answers", "error", "node_id")

    def __init__(self, node_id: int) -> None:
        self.answers: deque[FetchedData] = deque()
        # Raised once when everything before it was handed out.
        self.error: BarnabasError | None = None
        self.node_id = node_id

    @property
    def buffered_bytes(self) -> int:
        return sum(answer.remaining_bytes for answer in self.answers)


class RecordQueue:
    """Buffered answers of the partitions of one subscription."""

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._queues: dict[TopicPartition, _PartitionQueue] = {}
        # Partitions with data or an error; the first has its turn.
        self._order: deque[TopicPartition] = deque()
        #: Set when there may be room again, so that the fetcher looks at the partitions.
        self.has_new_room = False

    def __len__(self) -> int:
        """How many partitions have something in the queue."""
        return len(self._queues)

    def add(self, data: FetchedData, node_id: int) -> None:
        """Append an answer that continues where the partition's last one ends."""
        self._queue(data.partition, node_id).answers.append(data)

    def fail(self, partition: TopicPartition, error: BarnabasError, node_id: int) -> None:
        """Raise the error once all before it has been taken."""
        self._queue(partition, node_id).error = error

    def fetch_offset(self, partition: TopicPartition, state: PartitionState) -> int:
        """Where to fetch on: behind what is in the queue, else at the position."""
        queue = self._queues.get(partition)
        if queue is None or not queue.answers:
            return state.offset
        return queue.answers[-1].end_offset

    def fetched_epoch(self, partition: TopicPartition, state: PartitionState) -> int:
        """The leader epoch of the last record before `fetch_offset`; -1 if it is not known.

        With it a leader sees that its log parts from what was read (KIP-320).
        """
        queue = self._queues.get(partition)
        if queue is None or not queue.answers:
            return state.leader_epoch
        return queue.answers[-1].end_leader_epoch

    def buffered_bytes(self, partition: TopicPartition) -> int:
        """The bytes of one partition that wait here."""
        queue = self._queues.get(partition)
        return 0 if queue is None else queue.buffered_bytes

    def buffered_bytes_by_node(self) -> dict[int, int]:
        """The bytes that wait here, by the broker that sent them."""
        total: dict[int, int] = {}
        for queue in self._queues.values():
            total[queue.node_id] = total.get(queue.node_id, 0) + queue.buffered_bytes
        return total

    def has_readable(self, node_id: int) -> bool:
        """Whether something of the broker will be handed out by and by, which makes room."""
        return any(
            queue.node_id == node_id and not self._is_paused(partition)
            for partition, queue in self._queues.items()
        )

    def drop_paused(self, node_id: int) -> None:
        """Give up what waits of the broker's paused partitions; it is fetched again later."""
        for partition, queue in list(self._queues.items()):
            if queue.node_id == node_id and self._is_paused(partition):
                self.drop(partition)

    def has_error(self, partition: TopicPartition) -> bool:
        """Whether an error waits: nothing more is fetched before it was raised."""
        queue = self._queues.get(partition)
        return queue is not None and queue.error is not None

    def take(self, count_max: int) -> Portion | None:
        """The next records, of one partition; None if there are none to hand out now.

        The position stays until `Portion.hand_out`, which must come before the next call.
        Raises: CorruptRecordError, and what `fail` was given.
        """
        while (answer := self._next_answer()) is not None:
            partition = answer.partition
            state = self._subscription.assigned[partition]
            try:
                records = answer.read_records(count_max)
            except CorruptRecordError:
                # It is fetched again, and raised again; the others have their turn until then.
                self.drop(partition)
                raise
            if answer.is_done:
                self._finish_answer(partition)
            if records:
                next_offset, leader_epoch = answer.next_offset, answer.leader_epoch
                return Portion(partition, state, state.offset, records, next_offset, leader_epoch)
            # Nothing but markers, aborted records or gaps: they are read, too.
            state.advance(answer.next_offset, answer.leader_epoch)
        return None

    def take_batches(self) -> list[FetchedBatch]:
        """All batches of the oldest answer that may be handed out; positions are moved.

        Raises: as `take`.
        """
        while (answer := self._next_answer()) is not None:
            batches: list[FetchedBatch] = []
            try:
                while (batch := answer.read_batch()) is not None:
                    batches.append(batch)
            except CorruptRecordError:
                if not batches:
                    self.drop(answer.partition)
                    raise
            state = self._subscription.assigned[answer.partition]
            state.advance(answer.next_offset, answer.leader_epoch)
            if answer.is_done:
                self._finish_answer(answer.partition)
            if batches:
                return batches
        return []

    def keep_only(self, is_wanted: Callable[[TopicPartition], bool]) -> None:
        """Drop everything of the other partitions."""
        for partition in [partition for partition in self._queues if not is_wanted(partition)]:
            self.drop(partition)

    def drop(self, partition: TopicPartition) -> None:
        """Forget what waits of the partition."""
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

    def _next_answer(self) -> FetchedData | None:
        """The oldest answer of the first partition that may be read; it is then in front.

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
            elif not queue.answers:
                self.drop(partition)
                assert queue.error is not None
                raise queue.error
            elif queue.answers[0].next_offset != state.offset:
                self.drop(partition)
            else:
                return queue.answers[0]
        return None

    def _finish_answer(self, partition: TopicPartition) -> None:
        """Go on with the partition's next answer when the others have had their turn."""
        queue = self._queues[partition]
        queue.answers.popleft()
        self.has_new_room = True
        if queue.answers or queue.error is not None:
            self._order.rotate(-1)
        else:
            del self._queues[partition]
            self._order.popleft()
