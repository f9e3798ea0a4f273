"""One loaded shard at work: commands in, batches of records out, replies when they are committed.

Not here: which partitions this broker owns, and loading (`loop.py`). Source: OFS-5; the queue that
gathers commands while an append is under way plays the part of Kafka's append linger.

How a failed append is undone. The state changes when the command runs, before its records are in
the log, so a failure must take it back. Three cases:

- The records were refused (not the leader, too few replicas, too large). Nothing of them is in the
  log: the shard's undo journal takes the command back, and with it all later commands of the
  queue, which may rest on it, the newest first. Other groups notice nothing.
- The outcome is not known within `offsets.commit.timeout.ms`. Who waits gets an error,
  and the shard stays as it is: its records are in the log and will be committed, unless the
  leadership goes, and the shard with it. Until then no other command may write.
- The leadership or the disk was lost after the append, or a fault is unknown. Only the log knows,
  so the shard is thrown away and loaded from it again.

A journal alone would be wrong in the last case; loading in the second would read a whole partition
again for each slow commit, and drop the members of all its groups.

What is written in a transaction is a batch of its own, and so is the marker that ends one. The log
alone knows which transaction is open, and only when what is queued before is in it: that is
verified before the append, and a refusal is undone like one of the log.

Invariants: at most one append per shard is under way; batches hold whole commands in the order in
which they ran; every future is resolved, by commit, failure or close.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from barnabas_broker.coordinator.runtime.loader import PartitionReader
from barnabas_broker.coordinator.runtime.shard import (
    CoordinatorRecord,
    Instant,
    Result,
    Shard,
    TransactionWrite,
)
from barnabas_broker.env.clock import Clock
from barnabas_protocol.errors import ErrorCode, KafkaError, is_retriable
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.control import encode_marker
from barnabas_protocol.records.record import Record, encode_batch

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)
Value = TypeVar("Value")

# A timer that fires so late shows that the process was held up (SIGSTOP, a stalled machine).
HELD_UP_MS_MIN = 1_000
# What members get on top then, whose heartbeats are unread: the default interval of these.
HELD_UP_GRACE_MS = 3_000

# After these the records may be in the log and may still be committed.
IN_DOUBT = frozenset(
    (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
)


class PartitionWriter(PartitionReader, Protocol):
    """What a coordinator needs of its partition; replication implements it."""

    def append(self, topic_partition: TopicPartition, batch: bytes) -> Awaitable[int]:
        """Append; gives the last offset once the high watermark has passed it.

        However long that takes: there is no time-out. Raises: KafkaError; a code of `IN_DOUBT` if
        the records may be in the log all the same.
        """
        ...

    def wait_committed(self, topic_partition: TopicPartition, end_offset: int) -> Awaitable[None]:
        """Return once the high watermark has reached an offset.

        Raises: KafkaError if this broker does not lead the partition, or ceases to.
        """
        ...

    def batch_bytes_max(self, topic_partition: TopicPartition) -> int:
        """Return how large a batch the topic takes. Raises: KafkaError."""
        ...


class TimerTask(Protocol):
    """A scheduled call."""

    def cancel(self) -> object:
        """Keep it from being called."""
        ...


class Timer(Protocol):
    """The timing wheel of the broker."""

    def schedule(self, delay_ms: int, callback: Callable[[], Any]) -> TimerTask:
        """Call back once after the delay."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """What is set for every shard of one coordinator: bounds and the codec of batches."""

    commit_timeout_ms: int = 5000
    compression: Compression = Compression.NONE
    load_buffer_bytes: int = 5 * 1024 * 1024
    # Several commands share a batch of up to this size; a single one may need what the topic takes.
    batch_bytes_max: int = 900_000
    # Commands are refused while more than this waits to be appended.
    queue_bytes_max: int = 32 * 1024 * 1024


class _Write:
    """The records of one command on their way into the log; none for a reply that only waits."""

    __slots__ = (
        "appended_count",
        "deadline_ms",
        "future",
        "is_dropped",
        "is_late",
        "result",
        "sequence",
        "size_bytes",
        "taken_count",
    )

    def __init__(
        self, sequence: int, result: Result[Any], future: asyncio.Future[None] | None
    ) -> None:
        self.sequence = sequence
        self.result = result
        self.size_bytes = sum(record.size_bytes for record in result.records)
        self.future = future
        self.taken_count = 0
        self.appended_count = 0
        self.deadline_ms = 0
        # Its waiter has got the error that the outcome is not known in time.
        self.is_late = False
        # It wrote nothing and its waiter is gone.
        self.is_dropped = False

    def resolve(self, error: KafkaError | None) -> None:
        if self.future is None or self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class ShardPipeline(Generic[S]):
    """Runs the commands of one loaded shard."""

    def __init__(
        self,
        shard: S,
        topic_partition: TopicPartition,
        *,
        writer: PartitionWriter,
        clock: Clock,
        timer: Timer,
        settings: RuntimeSettings,
        on_doubt: Callable[[], None],
    ) -> None:
        self.shard = shard
        self._topic_partition = topic_partition
        self._writer = writer
        self._clock = clock
        self._timer = timer
        self._settings = settings
        self._on_doubt = on_doubt
        self._queue: deque[_Write] = deque()
        self._queue_bytes = 0
        self._sequence = 0
        self._append_task: asyncio.Task[None] | None = None
        self._timer_task: TimerTask | None = None
        self._timer_deadline_ms = 0
        self._timer_due_ms = 0
        self._timeout_task: TimerTask | None = None
        self._is_closed = False

    def start(self) -> None:
        """Make the replayed shard active."""
        self._run_detached(self.shard.loaded)
        self._arm_timer()

    async def execute(self, command: Callable[[S, Instant], Result[Value]]) -> Value:
        """Run a command; its reply, once what it wrote or saw is committed.

        Raises: KafkaError, of the command itself or of the append.
        """
        if self._queue_bytes > self._settings.queue_bytes_max:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        shard = self.shard
        future: asyncio.Future[None] | None = None
        result, sequence = self._run(lambda now: command(shard, now))
        if result.writes:
            future = asyncio.get_running_loop().create_future()
            self._submit(_Write(sequence, result, future))
        elif result.waits_for_commit and self._queue:
            if self._is_stalled:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            future = asyncio.get_running_loop().create_future()
            self._submit(_Write(sequence, result, future))
        elif result.waits_for_commit:
            self._call_hook(result, None)
        # After the submission: a refusal at once may have scheduled something.
        self._arm_timer()
        if future is not None:
            await future
        return result.reply

    def close(self, code: ErrorCode) -> None:
        """Fail everything that waits with the code and stop."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer_task is not None:
            self._timer_task.cancel()
        if self._timeout_task is not None:
            self._timeout_task.cancel()
        if self._append_task is not None:
            self._append_task.cancel()
        error = KafkaError(code)
        for write in self._queue:
            write.resolve(error)
        self._queue.clear()
        self.shard.close(code)

    def _now(self) -> Instant:
        return Instant(self._clock.monotonic_ms(), self._clock.wall_ms())

    def _run(self, command: Callable[[Instant], Result[Value]]) -> tuple[Result[Value], int]:
        """Run under a new sequence number; a command that raises leaves nothing behind."""
        self._pardon()
        if not self._queue:
            # Nothing is under way that could take what was before back.
            self.shard.journal.committed(self._sequence)
        self._sequence += 1
        sequence = self._sequence
        self.shard.journal.begin(sequence)
        try:
            return command(self._now()), sequence
        except BaseException:
            self.shard.journal.roll_back(sequence)
            raise

    def _run_detached(self, command: Callable[[Instant], Result[None]]) -> None:
        """Run something that nobody waits for: a timer or what follows an append."""
        try:
            result, sequence = self._run(command)
        except Exception:
            logger.exception("%s-%d: a step of the coordinator failed", *self._topic_partition)
            return
        if result.writes and not self._is_closed:
            self._submit(_Write(sequence, result, None))

    # ---- appending ---------------------------------------------------------------------------

    @property
    def _is_stalled(self) -> bool:
        """Whether the oldest write has been under way for longer than anybody waits."""
        return bool(self._queue) and self._queue[0].is_late

    def _submit(self, write: _Write) -> None:
        size = write.size_bytes
        if size > self._settings.batch_bytes_max:
            # The log would refuse it with all that waits beside it.
            is_atomic, records = write.result.is_atomic, write.result.records
            largest = size if is_atomic else max(record.size_bytes for record in records)
            error = self._too_large(largest)
            if error is not None:
                self._refuse(write, error)
                return
        if self._is_stalled and write.result.writes:
            self._refuse(write, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        write.deadline_ms = self._clock.monotonic_ms() + self._settings.commit_timeout_ms
        self._queue.append(write)
        self._queue_bytes += size
        if self._timeout_task is None:
            self._arm_timeout()
        if self._append_task is None:
            self._append_task = asyncio.get_running_loop().create_task(self._append_all())

    def _too_large(self, size: int) -> KafkaError | None:
        """Return why one command cannot be a batch of its own."""
        try:
            limit = self._writer.batch_bytes_max(self._topic_partition)
        except KafkaError as error:
            return error
        limit = max(limit, self._settings.batch_bytes_max)
        return KafkaError(ErrorCode.MESSAGE_TOO_LARGE) if size > limit else None

    def _refuse(self, write: _Write, error: KafkaError) -> None:
        """Take the newest command back before anything of it was appended."""
        self.shard.journal.roll_back(write.sequence)
        self._call_hook(write.result, error)
        write.resolve(error)

    async def _append_all(self) -> None:
        """Append until the queue is empty; what arrives meanwhile goes into the next batch."""
        try:
            while self._queue:
                writes, records = self._take()
                transaction = writes[0].result.transaction if writes else None
                last_offset: int | KafkaError = -1
                if records or transaction is not None:
                    last_offset = await self._append(records, transaction)
                if not isinstance(last_offset, KafkaError):
                    self._committed(writes, last_offset - len(records) + 1, last_offset)
                elif not self._failed(last_offset):
                    return
                self._arm_timer()
        finally:
            self._append_task = None

    def _take(self) -> tuple[list[_Write], list[CoordinatorRecord]]:
        """Return the writes that the next batch completes, and the records of the batch."""
        writes: list[_Write] = []
        records: list[CoordinatorRecord] = []
        size = 0
        for write in self._queue:
            pending = write.result.records
            if write.result.transaction is not None:
                if not writes and not records:
                    write.taken_count = len(pending)
                    return [write], pending
                break
            if write.result.is_atomic:
                size += write.size_bytes
                if size > self._settings.batch_bytes_max and records:
                    break
                records += pending
                write.taken_count = len(pending)
            else:
                while write.taken_count < len(pending):
                    record = pending[write.taken_count]
                    size += record.size_bytes
                    if size > self._settings.batch_bytes_max and records:
                        return writes, records
                    records.append(record)
                    write.taken_count += 1
            writes.append(write)
        return writes, records

    async def _append(
        self, records: list[CoordinatorRecord], transaction: TransactionWrite | None
    ) -> int | KafkaError:
        """Append one batch; returns its last offset, or why it is not committed."""
        batch = self._encode(records, transaction)
        try:
            if transaction is not None and transaction.check is not None:
                transaction.check()
            last_offset = await self._writer.append(self._topic_partition, batch)
        except KafkaError as error:
            return error
        except Exception:
            logger.exception("%s-%d: the append failed", *self._topic_partition)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        for write in self._queue:
            write.appended_count = write.taken_count
        return last_offset

    def _encode(
        self, records: list[CoordinatorRecord], transaction: TransactionWrite | None
    ) -> bytes:
        wall_ms = self._clock.wall_ms()
        if transaction is not None and transaction.marker is not None:
            return encode_marker(
                transaction.marker.control_type,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                coordinator_epoch=transaction.marker.coordinator_epoch,
                timestamp=wall_ms,
            )
        plain = [Record(index, wall_ms, key, value) for index, (key, value) in enumerate(records)]
        if transaction is None:
            return encode_batch(plain, compression=self._settings.compression)
        return encode_batch(
            plain,
            compression=self._settings.compression,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )

    def _committed(self, writes: list[_Write], first_offset: int, last_offset: int) -> None:
        for write in writes:
            if write.is_dropped:
                continue
            self._dequeue(write)
            self.shard.journal.committed(write.sequence)
            self._call_hook(write.result, None)
            if write.result.on_commit is not None and write.result.records:
                write.result.on_commit(first_offset, last_offset)
            write.resolve(None)

    def _failed(self, error: KafkaError) -> bool:
        """Take back all that waits; returns whether the shard lives on."""
        writes = list(self._queue)
        logger.warning(
            "%s-%d: %d coordinator writes failed: %s", *self._topic_partition, len(writes), error
        )
        if error.code in IN_DOUBT or any(write.appended_count for write in writes):
            for write in writes:
                self._dequeue(write)
                write.resolve(error)
            self._append_task = None
            self._on_doubt()
            return False
        self.shard.journal.roll_back(writes[0].sequence)
        for write in writes:
            self._dequeue(write)
        # What a transaction is refused with says nothing of the writes behind it.
        is_own = writes[0].result.transaction is not None and not is_retriable(error.code)
        others = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) if is_own else error
        # The newest first, as each may have built on those before it.
        for write in reversed(writes):
            self._call_hook(write.result, error if write is writes[0] else others)
        for write in writes:
            write.resolve(error if write is writes[0] else others)
        return True

    def _dequeue(self, write: _Write) -> None:
        self._queue.popleft()
        self._queue_bytes -= write.size_bytes

    def _call_hook(self, result: Result[Any], error: KafkaError | None) -> None:
        hook = result.on_append
        if hook is not None:
            self._run_detached(lambda now: hook(error, now))

    # ---- outcomes that are late --------------------------------------------------------------

    def _arm_timeout(self) -> None:
        """Look again when the oldest write that somebody waits for has waited long enough."""
        self._timeout_task = None
        waiting = next((write for write in self._queue if not write.is_late), None)
        if waiting is not None and not self._is_closed:
            delay_ms = max(0, waiting.deadline_ms - self._clock.monotonic_ms())
            self._timeout_task = self._timer.schedule(delay_ms, self._time_out)

    def _time_out(self) -> None:
        """Fail who has waited for too long; the outcome is still awaited."""
        self._timeout_task = None
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        late = [write for write in self._queue if not write.is_late and write.deadline_ms <= now_ms]
        for write in late:
            write.is_late = True
            write.is_dropped = not write.result.writes
        if any(write.is_dropped for write in late):
            self._queue = deque(write for write in self._queue if not write.is_dropped)
        for write in late:
            if write.is_dropped:
                write.resolve(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                continue
            logger.warning("%s-%d: a write is not committed in time", *self._topic_partition)
            error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            write.resolve(error)
            hook = write.result.on_timeout
            if hook is not None:
                self._run_detached(partial(hook, error))
        self._arm_timeout()
        self._arm_timer()

    # ---- timers ------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        deadline_ms = self.shard.timers.next_deadline_ms()
        if self._is_closed or deadline_ms is None:
            return
        if self._timer_task is not None:
            if deadline_ms >= self._timer_deadline_ms:
                return
            self._timer_task.cancel()
        now_ms = self._clock.monotonic_ms()
        self._timer_deadline_ms = deadline_ms
        self._timer_due_ms = max(deadline_ms, now_ms)
        self._timer_task = self._timer.schedule(self._timer_due_ms - now_ms, self._fire)

    def _pardon(self) -> None:
        """Before anything is done: move all timers if the process was held up.

        The heartbeats of that time are still to be read: nobody expires by our own absence. What
        is scheduled after that is not moved.
        """
        if self._timer_task is None:
            return
        now_ms = self._clock.monotonic_ms()
        late_ms = now_ms - self._timer_due_ms
        if late_ms >= HELD_UP_MS_MIN:
            logger.warning("%s-%d: timers are %d ms late", *self._topic_partition, late_ms)
            self.shard.timers.postpone_all(late_ms + HELD_UP_GRACE_MS)
            self._timer_due_ms = now_ms

    def _fire(self) -> None:
        self._pardon()
        self._timer_task = None
        if self._is_closed:
            return
        # What becomes due meanwhile waits for the next turn, or steps would follow without a pause.
        timers, now_ms = self.shard.timers, self._clock.monotonic_ms()
        while (action := timers.take_due(now_ms)) is not None:
            self._run_detached(action)
        self._arm_timer()
