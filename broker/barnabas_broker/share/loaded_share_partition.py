"""A share partition in the memory of its partition's leader: loaded, written, timed, fenced.

The shell around `share_partition.py`: it reads the state from the share coordinator when it is
first needed, writes what changes, one write at a time, ends locks when they run out, and sends dead
letters. Not here: fetches (`delayed_share_fetch.py`), which share partitions there are
(`share_partitions.py`), how dead letters are written (`dead_letter_writer.py`).

Source: KIP-932, KIP-1191; SHR-3, SHR-4, SHR-7, SHR-17, SHR-18, SHR-33, SHR-36. Invariants: it
speaks for one leader epoch, and for nothing once it is fenced; an acknowledgement is answered only
when its write has an outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from barnabas_broker.env.clock import Clock
from barnabas_broker.purgatory.timer import Timer, TimerTask
from barnabas_broker.replication.partition import Partition
from barnabas_broker.share.acquisition import (
    AcquiredRecords,
    AcquireParameters,
    FetchedBatch,
    acquire,
)
from barnabas_broker.share.dead_letters import DeadLetterWriter
from barnabas_broker.share.lost_records import FirstReads, without_lost
from barnabas_broker.share.offset_reset import reset_offset
from barnabas_broker.share.persister import SharePartitionKey, SharePersister, ShareState
from barnabas_broker.share.record_states import FINAL, AcknowledgementBatch
from barnabas_broker.share.share_metrics import ShareMetrics
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_broker.share.transition import StateWrite, Transition
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

NEVER_READ: Final = -1
UNCHANGED: Final = -1
"""Of a start in a write: it stays."""
WRITE_PAUSE_MS: Final = 1_000
"""Between writes of what has ended its last attempt, and is no dead letter before it is stored."""
_FENCING: Final = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""A write that is refused so says that another leader, or nobody, has the state (SHR-33)."""
_FOR_CLIENTS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
}


class LoadState(Enum):
    """How far a share partition is."""

    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareContext:
    """What share partitions need of the broker."""

    persister: Callable[[], SharePersister]
    settings: Callable[[str], ShareSettings]  # of a group
    dead_letters: DeadLetterWriter
    timer: Timer
    clock: Clock
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    metrics: ShareMetrics
    # The number of the lease by which this broker leads, None without one.
    lease: Callable[[], int | None]
    first_reads: FirstReads = field(default_factory=FirstReads)


class LoadedSharePartition:
    """One share partition on this broker."""

    __slots__ = (
        "_context",
        "_is_sending_dead_letters",
        "_is_writing",
        "_lease",
        "_on_change",
        "_on_gone",
        "_start_seen",
        "_state_epoch",
        "_timer_task",
        "error",
        "fetch_locked_since_ns",
        "key",
        "leader_epoch",
        "load_state",
        "partition",
        "records",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        context: ShareContext,
        *,
        on_change: Callable[[LoadedSharePartition], None],
        on_gone: Callable[[LoadedSharePartition], None],
    ) -> None:
        """`on_change`: fetches may find something. `on_gone`: it is not to be used any more."""
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self._context = context
        self._on_change = on_change
        self._on_gone = on_gone
        self.load_state = LoadState.INITIALIZING
        self.error: KafkaError | None = None
        self.records = SharePartition(0, context.settings(key.group_id))
        self._state_epoch = -1
        self._lease: int | None = None  # by which the state was read
        self._is_writing = False
        self._is_sending_dead_letters = False
        self._timer_task: TimerTask | None = None
        # The start offset that was seen last, and since when it is that.
        self._start_seen = 0, context.clock.monotonic_ns()
        # Since when a fetch reads it, and no other may (SHR-8).
        self.fetch_locked_since_ns: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is loaded and not fenced."""
        return self.load_state is LoadState.ACTIVE

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is under way or waits to be written."""
        return not (
            self._is_writing
            or self._is_sending_dead_letters
            or self.records.needs_write
            or self.records.has_dead_letters
            or self.fetch_locked_since_ns is not None
            or self.load_state is LoadState.INITIALIZING
        )

    # Loading and its end.

    async def load(self) -> None:
        """Read the state from the share coordinator (SHR-3); not without a lease."""
        if self.error is not None:
            return  # fenced while it waited for its turn
        context, key = self._context, self.key
        self._lease = context.lease()
        if self._lease is None:
            self.fence()
            return
        started_ns = context.clock.monotonic_ns()
        settings = context.settings(key.group_id)
        try:
            state = await context.persister().read(key, self.leader_epoch)
            start_offset = state.start_offset
            if start_offset == NEVER_READ:
                start_offset = await reset_offset(
                    self.partition, settings.auto_offset_reset, context.clock.wall_ms()
                )
                # Before anything is delivered: else the next leader might begin elsewhere, behind
                # records that nobody has acknowledged.
                await context.persister().write(
                    key, state.state_epoch, self.leader_epoch, start_offset, 0, ()
                )
            else:
                state = await self._without_lost(state)
                start_offset = state.start_offset
            records = SharePartition.load(start_offset, state.batches, settings)
        except Exception as error:
            self._load_failed(error)
            return
        context.first_reads.note(key, self.leader_epoch)
        if self.load_state is not LoadState.INITIALIZING:
            return
        self.records = records
        self._state_epoch = state.state_epoch
        self.load_state = LoadState.ACTIVE
        context.metrics.loads.observe(context.clock.monotonic_ns() - started_ns)
        self.changed()

    async def _without_lost(self, state: ShareState) -> ShareState:
        """Take back what was done of records that the log does not have any more."""
        context, key = self._context, self.key
        log_end = self.partition.leading_since_offset
        if not context.first_reads.is_first(key, self.leader_epoch):
            return state
        reclaimed = without_lost(state, log_end)
        if reclaimed is None:
            return state
        logger.warning(
            "share partition %s has done what its log has lost from offset %d on: what comes there"
            " is delivered",
            key,
            log_end,
        )
        persister, start_offset = context.persister(), reclaimed.start_offset
        if start_offset < state.start_offset:
            await persister.initialize(key, state.state_epoch, start_offset)
        else:
            taken_back = reclaimed.taken_back
            await persister.write(
                key, state.state_epoch, self.leader_epoch, UNCHANGED, 0, taken_back
            )
        return ShareState(state.state_epoch, start_offset, reclaimed.batches)

    def _load_failed(self, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            logger.error("share partition %s is not loaded", self.key, exc_info=error)
        if self.load_state is LoadState.INITIALIZING:
            self._context.metrics.failed_loads += 1
            self._end(LoadState.FAILED, for_clients(error))

    def fence(self, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Forget its locks and speak for it no more; what waits gets the error (SHR-33)."""
        if self.load_state in (LoadState.INITIALIZING, LoadState.ACTIVE):
            self._end(LoadState.FENCED, KafkaError(code))

    def _end(self, load_state: LoadState, error: KafkaError) -> None:
        self.load_state, self.error = load_state, error
        if self._timer_task is not None:
            self._timer_task.cancel()
            self._timer_task = None
        self.records.fail_waiting(error)
        self._on_gone(self)

    # What there is to tell.

    @property
    def backlog(self) -> int:
        """How many offsets that the group may read are not done."""
        offsets = self.records.offsets
        done = sum(offsets.counts[state] for state in FINAL)
        return max(self.limit_offset - offsets.start_offset - done, 0) if self.is_active else 0

    @property
    def oldest_in_flight_seconds(self) -> float:
        """For how long the first record in flight has been the first; 0 if none is in flight."""
        if not self.records.offsets.offset_count:
            return 0.0
        return (self._context.clock.monotonic_ns() - self._start_seen[1]) / 1e9

    def _note_start(self) -> None:
        offsets = self.records.offsets
        if offsets.start_offset != self._start_seen[0] or not offsets.offset_count:
            self._start_seen = offsets.start_offset, self._context.clock.monotonic_ns()

    # Fetching.

    @property
    def fetch_offset(self) -> int | None:
        """Where a fetch begins that finds something now; None if none does, or one is reading."""
        return self.read_offset if self.fetch_locked_since_ns is None else None

    @property
    def read_offset(self) -> int | None:
        """The same for the fetch that is reading."""
        if not self.is_active:
            return None
        records, log = self.records, self.partition.log
        if records.start_offset < log.log_start_offset:
            records.log_start_moved(log.log_start_offset)
        offset = records.next_fetch_offset
        return offset if offset is not None and offset < self.limit_offset else None

    @property
    def limit_offset(self) -> int:
        """The first offset that the group may not read (SHR-34)."""
        return self.partition.limit_offset(
            is_follower=False, read_committed=self.records.settings.read_committed
        )

    def refresh_settings(self) -> ShareSettings:
        """Use the settings that the group has now; returns them."""
        settings = self._context.settings(self.key.group_id)
        self.records.settings = settings
        return settings

    def acquire(
        self, parameters: AcquireParameters, fetch_offset: int, batches: Sequence[FetchedBatch]
    ) -> list[AcquiredRecords]:
        """Acquire records for a member out of the batches that were read from an offset on.

        None, and it is fenced, where the lease was lost by which its state was read: another broker
        may lead since then, and records may be done that this one still has.
        """
        if self._context.lease() != self._lease:
            self.fence()
            return []
        now_ms = self._context.clock.monotonic_ms()
        acquired = acquire(self.records, parameters, fetch_offset, batches, now_ms)
        metrics = self._context.metrics
        for first_offset, last_offset, delivery_count in acquired:
            metrics.acquired_count += last_offset - first_offset + 1
            if delivery_count > 1:
                metrics.redelivered_count += last_offset - first_offset + 1
        return acquired

    def lock_fetch(self) -> None:
        """Keep other fetches away while one reads."""
        self.fetch_locked_since_ns = self._context.clock.monotonic_ns()

    def unlock_fetch(self) -> None:
        """Let the next fetch read."""
        assert self.fetch_locked_since_ns is not None
        now_ns = self._context.clock.monotonic_ns()
        self._context.metrics.fetch_locks.observe(now_ns - self.fetch_locked_since_ns)
        self.fetch_locked_since_ns = None
        self.changed()

    # Acknowledging.

    def acknowledge(
        self, member_id: str, batches: list[AcknowledgementBatch], *, is_renew: bool
    ) -> Transition | None:
        """Begin an acknowledgement, whose `on_done` is called with the outcome of its write.

        None where there is nothing to wait for.
        Raises: KafkaError; nothing has changed then.
        """
        self.refresh_settings()
        now_ms = self._context.clock.monotonic_ms()
        transition = self.records.acknowledge(member_id, batches, now_ms, is_renew=is_renew)
        counts = self._context.metrics.acknowledgements
        for first_offset, last_offset, types in batches:
            if len(types) == 1:
                counts[types[0]] += last_offset - first_offset + 1
            else:
                counts.update(types)
        return transition

    def release_members(self, member_ids: Collection[str]) -> bool:
        """Give back all that members have acquired; returns whether that was anything (SHR-20)."""
        if not self.is_active:
            return False
        self.refresh_settings()
        has_released = self.records.release_members(member_ids)
        if has_released:
            self.changed()
        return has_released

    # What follows from changes.

    def changed(self) -> None:
        """See to locks, to what is to be written, to dead letters, and to fetches that wait."""
        self._note_start()
        if self.is_active:
            self._set_timer()
            if self.records.has_dead_letters and not self._is_sending_dead_letters:
                self._is_sending_dead_letters = True
                self._context.spawn(self._send_dead_letters())
            if self.records.needs_write and not self._is_writing:
                self._is_writing = True
                self._context.spawn(self._write())
        self._on_change(self)

    def _set_timer(self) -> None:
        expiry_ms = self.records.next_expiry_ms
        task = self._timer_task
        if task is not None:
            if expiry_ms is not None and task.expiry_ms <= expiry_ms:
                return  # it looks again when it fires
            task.cancel()
            self._timer_task = None
        if expiry_ms is not None:
            delay_ms = expiry_ms - self._context.clock.monotonic_ms()
            self._timer_task = self._context.timer.schedule(delay_ms, self._locks_ran_out)

    def _locks_ran_out(self) -> None:
        self._timer_task = None
        if not self.is_active:
            return
        self.refresh_settings()
        expired = self.records.expire_locks(self._context.clock.monotonic_ms())
        self._context.metrics.lock_timeouts += expired
        self.changed()

    async def _write(self) -> None:
        """Write what has changed, one write after the other, until there is nothing left."""
        try:
            while self.is_active:
                write = self.records.take_write()
                if write is None:
                    break
                code = await self._write_one(write)
                if code is ErrorCode.NONE or not self.records.is_archiving_unwritten:
                    continue
                if code is ErrorCode.INVALID_REQUEST:
                    # Nothing is kept any more: the group has been deleted.
                    self.fence()
                else:
                    # It is tried until it succeeds; others that wait may fail the same way.
                    await asyncio.sleep(WRITE_PAUSE_MS / 1000)
        finally:
            self._is_writing = False
        self._on_change(self)

    async def _write_one(self, write: StateWrite) -> ErrorCode:
        """Write, and take the outcome over; returns what the share coordinator has responded."""
        failure: KafkaError | None = None
        code = ErrorCode.NONE
        try:
            await self._context.persister().write(
                self.key,
                self._state_epoch,
                self.leader_epoch,
                write.start_offset,
                write.delivery_complete_count,
                write.batches,
            )
        except Exception as error:
            if not isinstance(error, KafkaError):
                logger.error("a write for share partition %s failed", self.key, exc_info=error)
            failure = for_clients(error)
            self._context.metrics.failed_writes += 1
            logger.info("share partition %s: a write failed: %s", self.key, error)
            code = failure.code
            if isinstance(error, KafkaError):
                code = error.code
                if code in _FENCING:
                    self.fence(failure.code)
        self.records.finish_write(write, failure)
        self.changed()
        return code

    async def _send_dead_letters(self) -> None:
        """Write what is Archiving to the topic for dead letters, and archive it (SHR-36)."""
        try:
            while self.is_active and self.records.has_dead_letters:
                letters = self.records.take_dead_letters()
                await self._context.dead_letters.write(
                    self.key, self.partition, letters, is_wanted=lambda: self.is_active
                )
                if self.is_active:
                    self.records.finish_dead_letters(letters)
                    self.changed()
        finally:
            self._is_sending_dead_letters = False
        self._on_change(self)


def for_clients(error: Exception) -> KafkaError:
    """Return what a client gets where the share coordinator has not done what it should."""
    if isinstance(error, KafkaError):
        code = _FOR_CLIENTS.get(error.code)
        if code is not None:
            return KafkaError(code, str(error))
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the state of the share partition failed")
