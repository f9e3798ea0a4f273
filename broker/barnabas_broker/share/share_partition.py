"""One share partition: which records are available, acquired or done, without any I/O.

A pure state machine over the offsets in flight: time and what was read come in, what is to be
written and answered comes out. What it means to be loaded, fenced or waited for is
`share_partition_state.py`'s, the ranges are `in_flight.py`'s, which records of a read are acquired
`acquisition.py`'s.

Where the group has dead letters, a record that is rejected or at its limit is Archiving once that
is written; it is handed over as a dead letter then, and Archived when that has an outcome. At its
limit it stays Acquired, by nobody, until the write has succeeded: nobody else gets it meanwhile.

Source: KIP-932, KIP-1191, KIP-1222; SHR-5 to SHR-7, SHR-9, SHR-11, SHR-15 to SHR-19, SHR-36.
Invariants: below the start offset everything is final; no offset is under two locks; an
acknowledgement is final only after its write has succeeded, and until then nobody can acquire its
offsets; what is Archiving has been written as that, and is handed over once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from barnabas_broker.share.dead_letters import DeadLetterCause, DeadLetters
from barnabas_broker.share.in_flight import (
    AcquiredBatch,
    OffsetRange,
    OffsetsInFlight,
    RecordLock,
)
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import (
    FINAL,
    AcknowledgedRun,
    AcknowledgementBatch,
    AcknowledgeType,
    RecordState,
    acknowledged_runs,
)
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_broker.share.transition import StateWrite, Transition
from barnabas_protocol.errors import ErrorCode, KafkaError

EXPIRY_WORK_MAX: Final = 4_000
"""So much is looked at in one turn of the loop to end locks: ranges, and some for each lock."""
_EXPIRY_WORK_OF_LOCK: Final = 8
_DEAD_LOCKS_MAX: Final = 64
"""So many locks that hold nothing are kept beside as many as there are live ones."""
# What a state that was stored means to a new leader.
_LOADED: Final[dict[int, RecordState]] = {
    RecordState.AVAILABLE: RecordState.AVAILABLE,
    RecordState.ACKNOWLEDGED: RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVING: RecordState.ARCHIVING,
    RecordState.ARCHIVED: RecordState.ARCHIVED,
}


class SharePartition:
    """The records of one partition as one share group sees them. Times are in milliseconds."""

    __slots__ = (
        "_archiving",
        "_dead_letters",
        "_live_lock_count",
        "_lock_number",
        "_locks",
        "_needs_write",
        "_waiting",
        "offsets",
        "settings",
    )

    def __init__(self, start_offset: int, settings: ShareSettings) -> None:
        self.offsets = OffsetsInFlight(start_offset)
        self.settings = settings
        self._locks: list[tuple[int, int, RecordLock]] = []
        self._lock_number = 0
        self._live_lock_count = 0
        # Acknowledgements that the next write contains; whether there is more to be written.
        self._waiting: list[Transition] = []
        self._needs_write = False
        # Of those, the one of what has ended its last attempt without an acknowledgement.
        self._archiving: Transition | None = None
        # What is Archiving and has not been handed over.
        self._dead_letters: list[DeadLetters] = []

    @classmethod
    def load(
        cls, start_offset: int, batches: Iterable[StateBatch], settings: ShareSettings
    ) -> SharePartition:
        """Return a share partition in the state that was stored.

        Holes between batches were never acquired as far as is known: they are Available.
        Raises: KafkaError for a state that cannot be stored.
        """
        partition = cls(start_offset, settings)
        offsets = partition.offsets
        for batch in sorted(batches, key=lambda one: one.first_offset):
            first = max(batch.first_offset, offsets.end_offset + 1)
            if batch.last_offset < first:
                continue
            state = _LOADED.get(batch.delivery_state)
            if state is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"a stored state of {batch.delivery_state}"
                )
            if first > offsets.end_offset + 1:
                offsets.append(
                    OffsetRange(offsets.end_offset + 1, first - 1, RecordState.AVAILABLE)
                )
            loaded = OffsetRange(first, batch.last_offset, state, batch.delivery_count)
            if state is RecordState.AVAILABLE:
                loaded.batch = AcquiredBatch(first, batch.last_offset)
            elif state is RecordState.ARCHIVING:
                partition._archiving_loaded(loaded)
            offsets.append(loaded)
        offsets.join(start_offset, offsets.end_offset)
        offsets.advance_start()
        return partition

    def _archiving_loaded(self, loaded: OffsetRange) -> None:
        """Go on with what another leader has begun; why it did is not stored (SHR-36)."""
        is_at_limit = loaded.delivery_count >= self.settings.delivery_count_limit
        cause = DeadLetterCause.DELIVERY_COUNT if is_at_limit else DeadLetterCause.REJECTED
        self._dead_letters.append(_letters_of(loaded, cause))

    # What there is.

    @property
    def start_offset(self) -> int:
        """Below it everything is final."""
        return self.offsets.start_offset

    @property
    def end_offset(self) -> int:
        """The highest offset ever acquired; start - 1 if all that was is final."""
        return self.offsets.end_offset

    @property
    def window_end(self) -> int:
        """The last offset that may be acquired while the start is where it is (SHR-9)."""
        return self.start_offset + self.settings.record_locks_max - 1

    @property
    def next_fetch_offset(self) -> int | None:
        """Where a fetch begins; None while the limit of offsets in flight is reached (SHR-8)."""
        offset = self.offsets.first_available()
        if offset is None:
            offset = self.end_offset + 1
        return offset if offset <= self.window_end else None

    @property
    def has_locks(self) -> bool:
        """Whether any offset is under a lock."""
        return self._live_lock_count > 0

    @property
    def remembered_lock_count(self) -> int:
        """How many locks are kept, those that hold nothing any more included."""
        return len(self._locks)

    # Locks.

    def new_lock(self, now_ms: int) -> RecordLock:
        """Return a lock without offsets that begins now."""
        return RecordLock(now_ms + self.settings.record_lock_duration_ms)

    def lock(self, ranges: Sequence[OffsetRange], lock: RecordLock) -> None:
        """Put ranges, in the order of offsets, under a lock instead of the one they are under."""
        for locked in ranges:
            self._unlock(locked)
            locked.lock = lock
            lock.held_count += locked.size
        if lock.first_offset < 0:
            lock.first_offset = ranges[0].first_offset
            self._live_lock_count += 1
            self._lock_number += 1
            heappush(self._locks, (lock.deadline_ms, self._lock_number, lock))
        lock.last_offset = ranges[-1].last_offset

    def _unlock(self, unlocked: OffsetRange) -> None:
        lock = unlocked.lock
        if lock is None:
            return
        unlocked.lock = None
        lock.held_count -= unlocked.size
        if not lock.held_count:
            self._live_lock_count -= 1

    @property
    def next_expiry_ms(self) -> int | None:
        """When the next lock runs out; None if there is none."""
        locks = self._locks
        if len(locks) > 2 * self._live_lock_count + _DEAD_LOCKS_MAX:
            self._locks = locks = [entry for entry in locks if entry[2].held_count]
            heapify(locks)
        while locks and not locks[0][2].held_count:
            heappop(locks)
        return locks[0][0] if locks else None

    def expire_locks(self, now_ms: int) -> int:
        """Give back what is under locks that have run out; returns how many offsets (SHR-18).

        Not all at once where they are very many: `next_expiry_ms` says whether some are left.
        """
        count = work = 0
        while work < EXPIRY_WORK_MAX:
            expiry_ms = self.next_expiry_ms
            if expiry_ms is None or expiry_ms > now_ms:
                break
            lock = heappop(self._locks)[2]
            count += lock.held_count
            # A lock that was renewed for the first and the last offset is found among all of them.
            held = self.offsets.touching(lock.first_offset, lock.last_offset)
            work += len(held) + _EXPIRY_WORK_OF_LOCK
            self._give_back([one for one in held if one.lock is lock])
        return count

    def release_members(self, member_ids: Collection[str]) -> bool:
        """Give back all that members have acquired: their sessions are over (SHR-20).

        Returns whether there was anything.
        """
        held = [one for one in self.offsets if one.lock is not None and one.member_id in member_ids]
        self._give_back(held)
        return bool(held)

    def _give_back(self, ranges: Sequence[OffsetRange]) -> None:
        """End the locks of ranges: they are Available, or Archived at their limit (SHR-11).

        Those with an acknowledgement under way wait for it.
        """
        if not ranges:
            return
        first_offset, last_offset = ranges[0].first_offset, ranges[-1].last_offset
        for concerned in ranges:
            self._unlock(concerned)
            if concerned.transition is None:
                self._end_attempt(concerned)
        self.offsets.join(first_offset, last_offset)
        self.offsets.advance_start()

    def _end_attempt(self, attempted: OffsetRange) -> None:
        attempted.member_id = None
        outcome = self._outcome_of_release(attempted)
        if outcome is RecordState.ARCHIVING:
            self._archive_when_written(attempted)
            return
        self.offsets.move(attempted, outcome)
        attempted.is_unwritten = True
        self._needs_write = True

    def _archive_when_written(self, attempted: OffsetRange) -> None:
        """Let it stay Acquired until Archiving is written; with the others of the next write."""
        if self._archiving is None:
            self._archiving = Transition(attempted.first_offset, attempted.last_offset)
            self._waiting.append(self._archiving)
        self._archiving.include(attempted.first_offset, attempted.last_offset)
        attempted.transition = self._archiving
        attempted.target = RecordState.ARCHIVING
        attempted.cause = DeadLetterCause.DELIVERY_COUNT

    def _outcome_of_release(self, released: OffsetRange) -> RecordState:
        if released.delivery_count < self.settings.delivery_count_limit:
            return RecordState.AVAILABLE
        return self._end_state

    @property
    def _end_state(self) -> RecordState:
        """What becomes of a record that is not to be delivered again."""
        has_letters = self.settings.has_dead_letters
        return RecordState.ARCHIVING if has_letters else RecordState.ARCHIVED

    # Acknowledgements.

    def acknowledge(
        self,
        member_id: str,
        batches: list[AcknowledgementBatch],
        now_ms: int,
        *,
        is_renew: bool = False,
    ) -> Transition | None:
        """Begin to acknowledge what a member has acquired; None where nothing is to be written.

        `is_renew`: whether the request may renew locks.
        Raises: KafkaError INVALID_REQUEST, INVALID_RECORD_STATE; nothing has changed then.
        """
        runs = acknowledged_runs(batches, self.start_offset, self.end_offset, is_renew=is_renew)
        is_renewing = any(run.type is AcknowledgeType.RENEW for run in runs)
        if is_renewing and not self.settings.renew_acknowledge_enable:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "locks are not renewed in this group")
        if not runs:
            return None
        self._check_acquired(member_id, runs)
        transition: Transition | None = None
        lock = self.new_lock(now_ms)
        cut = self.offsets.cut_runs([(run.first_offset, run.last_offset) for run in runs])
        for run, ranges in zip(runs, cut, strict=True):
            if run.type is AcknowledgeType.RENEW:
                self.lock(ranges, lock)
                continue
            if transition is None:
                transition = Transition(run.first_offset, run.last_offset)
                self._waiting.append(transition)
            transition.last_offset = run.last_offset
            for changed in ranges:
                changed.transition = transition
                self._set_target(changed, run.type)
        return transition

    def _set_target(self, changed: OffsetRange, kind: AcknowledgeType) -> None:
        """Note what an acknowledgement makes of a range (SHR-16)."""
        cause = None
        match kind:
            case AcknowledgeType.ACCEPT:
                target = RecordState.ACKNOWLEDGED
            case AcknowledgeType.GAP:
                target = RecordState.ARCHIVED
            case AcknowledgeType.REJECT:
                target, cause = self._end_state, DeadLetterCause.REJECTED
            case _:
                target, cause = self._outcome_of_release(changed), DeadLetterCause.DELIVERY_COUNT
        changed.target = target
        changed.cause = cause if target is RecordState.ARCHIVING else None

    def _check_acquired(self, member_id: str, runs: list[AcknowledgedRun]) -> None:
        found = iter(self.offsets.touching(runs[0].first_offset, runs[-1].last_offset))
        current = next(found)
        for run in runs:
            while current.last_offset < run.first_offset:
                current = next(found)
            while True:
                if (
                    current.state is not RecordState.ACQUIRED
                    or current.member_id != member_id
                    or current.lock is None
                    or current.transition is not None
                ):
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD_STATE,
                        f"offsets {current.first_offset} to {current.last_offset} are not acquired"
                        " by this member, or are being acknowledged",
                    )
                if current.last_offset >= run.last_offset:
                    break
                current = next(found)

    # Writes.

    @property
    def needs_write(self) -> bool:
        """Whether `take_write` would give anything."""
        return self._needs_write or bool(self._waiting)

    def take_write(self) -> StateWrite | None:
        """Return all that is to be written now; None if nothing is.

        `finish_write` gets it back when its outcome is known. Only one is under way at a time.
        """
        if not self.needs_write:
            return None
        transitions, self._waiting, self._needs_write = self._waiting, [], False
        self._archiving = None
        written: list[StateBatch] = []
        complete_count = 0
        included = frozenset(transitions)
        for candidate in self.offsets:
            is_included = candidate.transition in included
            state = candidate.target if is_included else candidate.state
            count = candidate.delivery_count
            if state in FINAL:
                complete_count += candidate.size
            if not is_included:
                if not candidate.is_unwritten:
                    continue
                candidate.is_unwritten = False
                if state is RecordState.ACQUIRED:  # again, since: what was is written
                    state, count = RecordState.AVAILABLE, count - 1
            _append_batch(written, candidate, state, count)
        return StateWrite(self.start_offset, complete_count, written, transitions)

    def finish_write(self, write: StateWrite, error: KafkaError | None) -> None:
        """Make the acknowledgements of a write final, or take them back where it failed."""
        if write.transitions:
            # In one pass: very many members may each have acknowledged the first and the last.
            included = frozenset(write.transitions)
            first = min(each.first_offset for each in included)
            last = max(each.last_offset for each in included)
            for changed in self.offsets.touching(first, last):
                if changed.transition in included:
                    self._finish(changed, is_written=error is None)
            self.offsets.join(first, last)
            self.offsets.advance_start()
        for transition in write.transitions:
            transition.on_done(error)

    def _finish(self, changed: OffsetRange, *, is_written: bool) -> None:
        target, changed.transition, changed.target = changed.target, None, changed.state
        cause, changed.cause = changed.cause, None
        if is_written:
            self._unlock(changed)
            changed.member_id = None
            changed.is_unwritten = False
            self.offsets.move(changed, target)
            if cause is not None:
                self._dead_letters.append(_letters_of(changed, cause))
        elif changed.lock is None:  # it has run out meanwhile
            self._end_attempt(changed)

    @property
    def is_archiving_unwritten(self) -> bool:
        """Whether the next write contains what has ended its last attempt by itself."""
        return self._archiving is not None

    # Dead letters.

    @property
    def has_dead_letters(self) -> bool:
        """Whether `take_dead_letters` would give anything."""
        return bool(self._dead_letters)

    def take_dead_letters(self) -> list[DeadLetters]:
        """Return what is to go to the topic for dead letters, each only once, in order of offsets.

        `finish_dead_letters` gets it back when its outcome is known.
        """
        taken, self._dead_letters = self._dead_letters, []
        return sorted(taken, key=lambda one: one.first_offset)

    def finish_dead_letters(self, letters: Iterable[DeadLetters]) -> None:
        """Archive what is in the topic for dead letters, or will never be (SHR-36)."""
        offsets = self.offsets
        # Below the start it is what the log has no more.
        runs = [
            (max(one.first_offset, offsets.start_offset), one.last_offset)
            for one in letters
            if one.last_offset >= offsets.start_offset
        ]
        if not runs:
            return
        for ranges in offsets.cut_runs(runs):
            for archived in ranges:
                if archived.state is RecordState.ARCHIVING:
                    offsets.move(archived, RecordState.ARCHIVED)
                    archived.is_unwritten = True
                    self._needs_write = True
        offsets.join(runs[0][0], runs[-1][1])
        offsets.advance_start()

    def fail_waiting(self, error: KafkaError) -> None:
        """Respond to acknowledgements that will not be written: the share partition is gone."""
        waiting, self._waiting = self._waiting, []
        for transition in waiting:
            transition.on_done(error)

    # The log.

    def archive(self, first_offset: int, last_offset: int) -> None:
        """Archive offsets that are not to be delivered: the log has no such record (SHR-7).

        Those that are not Available are left; those behind the end are in flight from now on.
        """
        offsets = self.offsets
        first_offset = max(first_offset, offsets.start_offset)
        if first_offset > last_offset:
            return
        last_known = min(last_offset, offsets.end_offset)
        if first_offset <= last_known:
            for found in offsets.cut(first_offset, last_known):
                if found.state is RecordState.AVAILABLE:
                    offsets.move(found, RecordState.ARCHIVED)
                    found.is_unwritten = True
        if last_offset > offsets.end_offset:
            added = OffsetRange(offsets.end_offset + 1, last_offset, RecordState.ARCHIVED)
            added.is_unwritten = True
            offsets.append(added)
        offsets.join(first_offset, last_offset)
        offsets.advance_start()
        self._needs_write = True

    def log_start_moved(self, log_start_offset: int) -> None:
        """Let go of what the log has no more: nobody is to deliver it (SHR-7)."""
        if log_start_offset > self.start_offset:
            for gone in self.offsets.move_start(log_start_offset):
                self._unlock(gone)
            self.offsets.advance_start()


def _letters_of(archiving: OffsetRange, cause: DeadLetterCause) -> DeadLetters:
    return DeadLetters(
        archiving.first_offset, archiving.last_offset, archiving.delivery_count, cause
    )


def _append_batch(
    written: list[StateBatch], added: OffsetRange, state: RecordState, count: int
) -> None:
    """Append what is written of one range, joined with what is before it where it is the same."""
    last = written[-1] if written else None
    first_offset = added.first_offset
    if (
        last is not None
        and last.last_offset + 1 == first_offset
        and last.delivery_state == state
        and last.delivery_count == count
    ):
        first_offset = last.first_offset
        written.pop()
    written.append(StateBatch(first_offset, added.last_offset, int(state), count))
