"""The share partitions of one partition of `__share_group_state`, and what is done with them.

Pure, driven by the runtime (`coordinator/runtime/shard.py`). Not here: requests (`coordinator.py`),
how batches are merged (`batches.py`), who deletes records of the log. Source: SHR-25, SHR-26.

The log is not compacted but cut: each share partition needs its newest snapshot and what follows,
so all below the oldest of these snapshots may go. One that is not written any more would hold the
cut back; its snapshot is written again from time to time.

Invariants: state and leader epochs and starts never fall, as long as the share partition is known;
the cut is never above a snapshot that is in use and committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.coordinator.runtime.shard import (
    CoordinatorRecord,
    Instant,
    Result,
    TimerAction,
    no_change,
)
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_broker.coordinator.share.batches import BATCHES_MAX, UNKNOWN_START, check_batches
from barnabas_broker.coordinator.share.records import (
    read_key,
    read_snapshot,
    read_update,
    snapshot_record,
    tombstone,
    update_record,
)
from barnabas_broker.coordinator.share.state import UNKNOWN_COUNT, ShareSnapshot
from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import Uuid
from barnabas_protocol.records.record import Record

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

NO_STATE: Final = ShareStateSummary(0, 0, UNKNOWN_START, UNKNOWN_COUNT)

KEYS_PER_STEP: Final = 100
TOPICS_PER_STEP: Final = 1_000
BATCHES_PER_STEP: Final = 2_000
"""Of what one step of a round looks at or writes: some milliseconds of work."""
STEP_PAUSE_MS: Final = 1
RETRY_MS: Final = 10_000
"""After how long tombstones that the log has refused are written again."""
BYTES_PER_KEY: Final = 600
BYTES_PER_BATCH: Final = 150
"""What a share partition and each of its batches take in memory, roughly and rather too much."""

_DELETED_KEY: Final = "deleted-topics"
_COLD_KEY: Final = "cold"
_PRUNE_KEY: Final = "prune"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorSettings:
    """What the share coordinator may be told."""

    updates_per_snapshot: int = 500
    cold_interval_ms: int = 300_000
    prune_interval_ms: int = 300_000
    # Kafka bounds neither groups nor topics, and each share partition takes memory.
    state_bytes_max: int = 256 * 1024 * 1024

    @classmethod
    def of(cls, config: BrokerConfig) -> ShareCoordinatorSettings:
        """Return the settings that the broker's configuration gives."""
        return cls(
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            cold_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
            prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        )


@dataclass(slots=True)
class ShareStateMetrics:
    """Counters of all shards of one broker."""

    share_partition_count: int = 0
    state_bytes: int = 0
    snapshot_count: int = 0
    update_count: int = 0
    tombstone_count: int = 0
    append_failure_count: int = 0
    skipped_record_count: int = 0


class Pruner(Protocol):
    """Who deletes records that no share partition needs."""

    def prune(self, partition: int, offset: int) -> None:
        """Delete what is below the offset, if it is not gone yet; failures are left as they are."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareShardContext:
    """What all shards of one broker share."""

    settings: ShareCoordinatorSettings
    pruner: Pruner
    # How many partitions the topic of an id has; 0 for one that is not there.
    partition_count: Callable[[Uuid], int]
    metrics: ShareStateMetrics = field(default_factory=ShareStateMetrics)


class ShareShard:
    """The state machine of one partition."""

    def __init__(self, partition: int, context: ShareShardContext) -> None:
        self.partition = partition
        self.timers = ShardTimers[TimerAction]()
        self.journal = UndoJournal()
        self.states: dict[SharePartitionKey, ShareSnapshot] = {}
        self._context = context
        self._metrics = context.metrics
        self._by_topic: dict[Uuid, dict[SharePartitionKey, None]] = {}
        # Where the newest committed snapshot of each share partition is in the log.
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}
        self._committed_end = 0
        # Topics that may have been deleted; each is looked at once.
        self._suspects: dict[Uuid, None] = {}
        # Whether anything but cold snapshots was written since the last round of these.
        self._has_grown = True
        self._is_active = False  # replay is not undone, and counts for nothing yet

    # ---- requests ------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now: Instant
    ) -> Result[None]:
        """Begin anew at an offset; the same epoch and start again change nothing.

        The leader epoch stays, or an old leader could write again. Raises: KafkaError 42, 124, 3.
        """
        _check_numbers(key.partition, state_epoch, start_offset + 1)
        known = self.states.get(key)
        if known is not None and known.state_epoch > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_topic(key)
        if known is None:
            self._check_room()
        elif (known.state_epoch, known.start_offset) == (state_epoch, start_offset):
            return Result(reply=None, waits_for_commit=True)
        snapshot = ShareSnapshot(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0 if known is None else known.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == UNKNOWN_START else 0,
            created_ms=now.wall_ms,
            written_ms=now.wall_ms,
        )
        return self._snapshot(key, snapshot, None)

    def read(self, key: SharePartitionKey, leader_epoch: int, now: Instant) -> Result[ShareState]:
        """Return the state to a leader, and fence those before it. Raises: KafkaError 42, 74, 3."""
        _check_numbers(key.partition, leader_epoch)
        known = self._known(key)
        self._check_leader(known, leader_epoch)
        self._check_topic(key)
        if leader_epoch == known.leader_epoch:
            return Result(reply=known.read, waits_for_commit=True)
        return self._update(
            key,
            known,
            leader_epoch=leader_epoch,
            start_offset=known.start_offset,
            delivery_complete_count=known.delivery_complete_count,
            batches=(),
            now=now,
            reply=known.read,
        )

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        now: Instant,
    ) -> Result[None]:
        """Merge batches into the state. Raises: KafkaError 42, 74, 124, 3; 15 without memory."""
        _check_numbers(
            key.partition,
            leader_epoch,
            state_epoch,
            start_offset + 1,
            delivery_complete_count + 1,
        )
        check_batches(batches)
        known = self._known(key)
        self._check_leader(known, leader_epoch)
        # It is ahead where the group was deleted, and made again, since the leader has read.
        if known.state_epoch != state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_topic(key)
        return self._update(
            key,
            known,
            # Only who reads becomes the leader.
            leader_epoch=known.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            batches=tuple(batches),
            now=now,
            reply=None,
        )

    def delete(self, key: SharePartitionKey) -> Result[None]:
        """Forget a share partition; that there is none is success. Raises: KafkaError 42, 3."""
        _check_numbers(key.partition)
        self._check_topic(key)
        if key not in self.states:
            return Result(reply=None, waits_for_commit=True)
        return self._forget([key])

    def summary(self, key: SharePartitionKey) -> Result[ShareStateSummary]:
        """Return what is known without batches. Raises: KafkaError 42, 3."""
        _check_numbers(key.partition)
        self._check_topic(key)
        known = self.states.get(key)
        return Result(reply=NO_STATE if known is None else known.summary, waits_for_commit=True)

    def _known(self, key: SharePartitionKey) -> ShareSnapshot:
        known = self.states.get(key)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} has not been initialized")
        return known

    def _check_leader(self, known: ShareSnapshot, leader_epoch: int) -> None:
        if known.leader_epoch > leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)

    def _check_topic(self, key: SharePartitionKey) -> None:
        if key.partition >= self._context.partition_count(key.topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _check_room(self) -> None:
        if self._metrics.state_bytes >= self._context.settings.state_bytes_max:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state of share groups takes too much"
            )

    # ---- changes -------------------------------------------------------------------------------

    def _update(
        self,
        key: SharePartitionKey,
        known: ShareSnapshot,
        *,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
        now: Instant,
        reply: Reply,
    ) -> Result[Reply]:
        """Change a state by an update, or by a snapshot when there have been enough of them."""
        update = known.update(leader_epoch, start_offset, delivery_complete_count, batches)
        updated = known.updated(update)
        if len(updated.batches) > BATCHES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{key} would have {len(updated.batches)} batches"
            )
        if len(updated.batches) > len(known.batches):
            self._check_room()
        if known.update_count >= self._context.settings.updates_per_snapshot:
            return self._snapshot(key, updated.renewed(now.wall_ms), reply)
        record = update_record(key, update)
        self._put(key, updated)
        self._has_grown = True
        self._metrics.update_count += 1
        return self._result(reply, [record], None)

    def _snapshot(
        self, key: SharePartitionKey, snapshot: ShareSnapshot, reply: Reply
    ) -> Result[Reply]:
        record = snapshot_record(key, snapshot)
        self._put(key, snapshot)
        self._has_grown = True
        self._metrics.snapshot_count += 1
        return self._result(
            reply, [record], lambda first, last: self._snapshots_committed([key], first)
        )

    def _forget(
        self,
        keys: Sequence[SharePartitionKey],
        on_failure: Callable[[Instant], None] | None = None,
    ) -> Result[None]:
        records = [tombstone(key) for key in keys]
        for key in keys:
            self._put(key, None)
        self._has_grown = True
        self._metrics.tombstone_count += len(keys)

        def on_commit(first_offset: int, last_offset: int) -> None:
            for key in keys:
                self._snapshot_offsets.pop(key, None)

        return self._result(None, records, on_commit, on_failure)

    def _result(
        self,
        reply: Reply,
        records: list[CoordinatorRecord],
        on_commit: Callable[[int, int], None] | None,
        on_failure: Callable[[Instant], None] | None = None,
    ) -> Result[Reply]:

        def committed(first_offset: int, last_offset: int) -> None:
            self._committed_end = last_offset + 1
            if on_commit is not None:
                on_commit(first_offset, last_offset)

        def on_append(error: KafkaError | None, now: Instant) -> Result[None]:
            if error is not None:
                self._metrics.append_failure_count += 1
                self._has_grown = True
                if on_failure is not None:
                    on_failure(now)
            return no_change()

        return Result(reply=reply, records=records, on_append=on_append, on_commit=committed)

    def _snapshots_committed(self, keys: Sequence[SharePartitionKey], offset: int) -> None:
        """Note a place in the log at or before the snapshots; a later tombstone takes it away."""
        for key in keys:
            self._snapshot_offsets[key] = offset

    def _put(self, key: SharePartitionKey, state: ShareSnapshot | None) -> None:
        """Set or forget a state, in a way that can be undone."""
        self.journal.note(self._set, key, self.states.get(key))
        self._set(key, state)

    def _set(self, key: SharePartitionKey, state: ShareSnapshot | None) -> None:
        before = self.states.get(key)
        if self._is_active:
            self._metrics.share_partition_count += (state is not None) - (before is not None)
            self._metrics.state_bytes += _size(key, state) - _size(key, before)
        if state is not None:
            self.states[key] = state
            self._by_topic.setdefault(key.topic_id, {})[key] = None
        elif before is not None:
            del self.states[key]
            keys = self._by_topic[key.topic_id]
            del keys[key]
            if not keys:
                del self._by_topic[key.topic_id]

    # ---- rounds --------------------------------------------------------------------------------

    def topics_deleted(self, topic_ids: Iterable[Uuid], now: Instant) -> Result[None]:
        """Write tombstones for those of some topics that are gone, some in each step (SHR-25)."""
        self._suspects.update((topic_id, None) for topic_id in topic_ids)
        return self._forget_deleted(now)

    def _forget_deleted(self, now: Instant) -> Result[None]:
        gone: list[SharePartitionKey] = []
        for topic_id in list(islice(self._suspects, TOPICS_PER_STEP)):
            keys = self._by_topic.get(topic_id)
            if keys and not self._context.partition_count(topic_id):
                gone += islice(keys, KEYS_PER_STEP - len(gone))
                if len(gone) == KEYS_PER_STEP:
                    break  # it may have more
            del self._suspects[topic_id]
        if self._suspects:
            self._schedule(_DELETED_KEY, now, STEP_PAUSE_MS, self._forget_deleted)
        if not gone:
            return no_change()

        def on_failure(now: Instant) -> None:
            self._suspects.update((key.topic_id, None) for key in gone)
            self._schedule(_DELETED_KEY, now, RETRY_MS, self._forget_deleted)

        return self._forget(gone, on_failure)

    def _begin_cold_round(self, now: Instant) -> Result[None]:
        """Write old snapshots again, so that the log can be cut behind them (SHR-26).

        Nothing is written as long as nobody writes: the log would not become shorter by it.
        """
        if not self._has_grown:
            self._schedule_cold(now)
            return no_change()
        self._has_grown = False
        return self._write_cold(now, list(self.states))

    def _write_cold(self, now: Instant, keys: list[SharePartitionKey]) -> Result[None]:
        interval_ms = self._context.settings.cold_interval_ms
        records: list[CoordinatorRecord] = []
        written: list[SharePartitionKey] = []
        batch_count = looked_at = 0
        for key in islice(keys, KEYS_PER_STEP):
            looked_at += 1
            state = self.states.get(key)
            if state is None:
                continue
            if now.wall_ms - state.written_ms < interval_ms:
                self._has_grown = True  # its turn comes in the next round
                continue
            snapshot = state.renewed(now.wall_ms, is_cold=True)
            records.append(snapshot_record(key, snapshot))
            written.append(key)
            self._put(key, snapshot)
            batch_count += len(snapshot.batches)
            if batch_count >= BATCHES_PER_STEP:
                break
        if left := keys[looked_at:]:
            step = partial(self._write_cold, keys=left)
            self._schedule(_COLD_KEY, now, STEP_PAUSE_MS, step)
        else:
            self._schedule_cold(now)
        if not records:
            return no_change()
        self._metrics.snapshot_count += len(records)
        return self._result(
            None, records, lambda first, last: self._snapshots_committed(written, first)
        )

    def _prune(self, now: Instant) -> Result[None]:
        offset = min(self._snapshot_offsets.values(), default=self._committed_end)
        self._context.pruner.prune(self.partition, offset)
        self._schedule(_PRUNE_KEY, now, self._context.settings.prune_interval_ms, self._prune)
        return no_change()

    def _schedule_cold(self, now: Instant) -> None:
        delay_ms = self._context.settings.cold_interval_ms
        self._schedule(_COLD_KEY, now, delay_ms, self._begin_cold_round)

    def _schedule(self, key: str, now: Instant, delay_ms: int, action: TimerAction) -> None:
        self.timers.schedule(key, now.monotonic_ms + delay_ms, action)

    # ---- the log -------------------------------------------------------------------------------

    def replay(self, record: Record, producer_id: int) -> None:
        """Take over a record; what cannot be read is skipped, counted and logged."""
        self._committed_end = record.offset + 1
        try:
            self._replay(record)
        except ParseError as error:
            self._skip(record, str(error))

    def _replay(self, record: Record) -> None:
        key = None if record.key is None else read_key(record.key)
        if key is None:
            self._skip(record, "unknown key type")
        elif not key.is_snapshot:
            self._replay_update(record, key.share_partition)
        elif record.value is None:
            self._set(key.share_partition, None)
            self._snapshot_offsets.pop(key.share_partition, None)
        elif (snapshot := read_snapshot(record.value)) is None:
            self._skip(record, "unknown value version")
        else:
            self._set(key.share_partition, snapshot)
            self._snapshot_offsets[key.share_partition] = record.offset

    def _replay_update(self, record: Record, key: SharePartitionKey) -> None:
        update = None if record.value is None else read_update(record.value)
        if update is None:
            self._skip(record, "unknown value version")
            return
        known = self.states.get(key)
        # Without a snapshot it is what was left of an older one when the log was cut.
        if known is not None:
            self._set(key, known.updated(update))

    def _skip(self, record: Record, reason: str) -> None:
        self._metrics.skipped_record_count += 1
        logger.warning(
            "__share_group_state-%d: record %d skipped: %s", self.partition, record.offset, reason
        )

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Nothing: no transaction writes to this topic."""

    def loaded(self, now: Instant) -> Result[None]:
        """Go on where the coordinator before was."""
        self._is_active = True
        self.journal.start()
        self._metrics.share_partition_count += len(self.states)
        self._metrics.state_bytes += self._size
        self._schedule_cold(now)
        self._schedule(_PRUNE_KEY, now, self._context.settings.prune_interval_ms, self._prune)
        # Topics may have gone while nobody coordinated this partition.
        return self.topics_deleted(self._by_topic, now)

    def close(self, code: ErrorCode) -> None:
        """Let go of everything: another broker coordinates from now on, or a fresh shard here."""
        self.timers.clear()
        if self._is_active:
            self._metrics.share_partition_count -= len(self.states)
            self._metrics.state_bytes -= self._size
        self._is_active = False
        self.states.clear()
        self._by_topic.clear()
        self._snapshot_offsets.clear()
        self._suspects.clear()

    @property
    def _size(self) -> int:
        return sum(_size(key, state) for key, state in self.states.items())


def _check_numbers(*numbers: int) -> None:
    """Refuse what must not be negative. Raises: KafkaError 42."""
    if min(numbers) < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition, epoch or offset is negative")


def _size(key: SharePartitionKey, state: ShareSnapshot | None) -> int:
    if state is None:
        return 0
    return BYTES_PER_KEY + len(key.group_id) + BYTES_PER_BATCH * len(state.batches)
