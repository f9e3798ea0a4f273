"""A naive model of a share partition: one entry for each offset, nothing joined, nothing clever.

Where the rules leave a choice (which records a fetch acquires), the model checks the choice;
everything else it predicts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from barnabas_broker.share.acquisition import AcquiredRecords, AcquireParameters, FetchedBatch
from barnabas_broker.share.dead_letters import DeadLetterCause
from barnabas_broker.share.record_states import AcknowledgementBatch, AcknowledgeType, RecordState
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
ARCHIVING = RecordState.ARCHIVING
FINAL = (ACKNOWLEDGED, ARCHIVED)
OUTCOMES = {0: ARCHIVED, 1: ACKNOWLEDGED}
REJECTED, DELIVERY_COUNT = DeadLetterCause.REJECTED, DeadLetterCause.DELIVERY_COUNT


@dataclass
class Entry:
    """One offset."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str | None = None
    deadline_ms: int | None = None
    token: object | None = None
    target: RecordState | None = None
    # Why it is Archiving, or will be; None once it has been handed over.
    cause: DeadLetterCause | None = None


@dataclass
class PartitionModel:
    """What a share partition must be, offset by offset."""

    start: int
    settings: ShareSettings
    entries: dict[int, Entry] = field(default_factory=dict)
    # Of what is to be Archiving without an acknowledgement, with the next write.
    own: object = field(default_factory=object)

    @property
    def end(self) -> int:
        return max(self.entries, default=self.start - 1)

    def settle(self) -> None:
        """Move the start over what is final."""
        while self.start in self.entries and self.entries[self.start].state in FINAL:
            del self.entries[self.start]
            self.start += 1

    def check(self, partition: SharePartition) -> None:
        """Compare everything that can be seen."""
        assert partition.start_offset == self.start
        assert partition.end_offset == self.end
        seen = {
            offset: one
            for one in partition.offsets
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        assert sorted(seen) == sorted(self.entries)
        for offset, entry in self.entries.items():
            one = seen[offset]
            assert one.state is entry.state, offset
            assert one.member_id == entry.member, offset
            assert (one.lock is None) == (entry.deadline_ms is None), offset
            assert (one.transition is None) == (entry.token is None), offset
            if one.lock is not None:
                assert one.lock.deadline_ms == entry.deadline_ms, offset
            if entry.state not in FINAL:
                assert one.delivery_count == entry.count, offset
        for state in RecordState:
            held = sum(entry.state is state for entry in self.entries.values())
            assert partition.offsets.counts[state] == held
        deadlines = [
            entry.deadline_ms for entry in self.entries.values() if entry.deadline_ms is not None
        ]
        assert partition.next_expiry_ms == min(deadlines, default=None)
        available = [o for o, entry in sorted(self.entries.items()) if entry.state is AVAILABLE]
        following = available[0] if available else self.end + 1
        in_window = following < self.start + self.settings.record_locks_max
        assert partition.next_fetch_offset == (following if in_window else None)

    # Acquisition: the choice is checked.

    def acquired(
        self,
        partition: SharePartition,
        parameters: AcquireParameters,
        fetch_offset: int,
        batches: Sequence[FetchedBatch],
        result: Sequence[AcquiredRecords],
        now_ms: int,
    ) -> list[int]:
        """Check what was acquired and take it over; returns the offsets."""
        counts = {o: count for first, last, count in result for o in range(first, last + 1)}
        assert list(counts) == sorted(counts)
        expected = self._expected(parameters, fetch_offset, batches)
        poisoned = [o for o in counts if self._is_poisoned(self._count_of(o))]
        if poisoned:  # SHR-12: a part of one acquired batch, alone
            assert list(counts) == poisoned == expected[: len(poisoned)]
            assert len({self._count_of(o) for o in poisoned}) == 1
            if self.settings.delivery_count_limit > 2:
                is_last = self._count_of(poisoned[0]) == self.settings.delivery_count_limit - 1
                assert len(poisoned) == 1 or not is_last
        else:
            assert list(counts) == expected
        self._take_over_archived(partition, fetch_offset, batches)
        for offset, count in counts.items():
            entry = self.entries.setdefault(offset, Entry())
            assert entry.state is AVAILABLE, f"{offset} is under two locks, or final"
            entry.state, entry.member, entry.count = ACQUIRED, parameters.member_id, entry.count + 1
            entry.deadline_ms = now_ms + self.settings.record_lock_duration_ms
            assert count == entry.count
        self.settle()
        return list(counts)

    def _count_of(self, offset: int) -> int:
        return self.entries[offset].count if offset in self.entries else 0

    def _is_poisoned(self, count: int) -> bool:
        return count >= max(2, (self.settings.delivery_count_limit + 1) // 2)

    def _expected(
        self, parameters: AcquireParameters, fetch_offset: int, batches: Sequence[FetchedBatch]
    ) -> list[int]:
        """What is to be acquired: all of it, or where it has failed often the beginning of it."""
        archived = set(range(max(fetch_offset, self.start), batches[0].base_offset))
        expected: list[int] = []
        lowest = max(fetch_offset, batches[0].base_offset, self.start)
        for batch in batches:
            if len(expected) >= parameters.records_max:
                break
            for offset in range(lowest, batch.last_offset + 1):
                if self._state_of(offset) is not AVAILABLE:
                    continue
                if batch.is_aborted:
                    archived.add(offset)
                    continue
                if offset > self._window_end(archived):
                    return expected
                if parameters.is_record_limit and len(expected) >= parameters.records_max:
                    return expected
                if (
                    expected
                    and self._is_poisoned(self._count_of(offset))
                    and not self._is_poisoned(self._count_of(expected[0]))
                ):
                    return expected
                expected.append(offset)
            lowest = max(lowest, batch.last_offset + 1)
        return expected

    def _window_end(self, archived: set[int]) -> int:
        """The last offset of the window once some offsets are archived and the start has moved."""
        start = self.start
        while (self._state_of(start) is AVAILABLE and start in archived) or (
            self._state_of(start) in FINAL
        ):
            start += 1
        return start + self.settings.record_locks_max - 1

    def _state_of(self, offset: int) -> RecordState:
        return self.entries[offset].state if offset in self.entries else AVAILABLE

    def _take_over_archived(
        self, partition: SharePartition, fetch_offset: int, batches: Sequence[FetchedBatch]
    ) -> None:
        """Archive what was found to have no record; and of what was aborted, what was passed."""
        missing = set(range(max(fetch_offset, self.start), batches[0].base_offset))
        aborted: set[int] = set()
        lowest = batches[0].base_offset
        for batch in batches:
            if batch.is_aborted:
                aborted.update(range(max(lowest, self.start), batch.last_offset + 1))
            lowest = batch.last_offset + 1
        for offset in sorted(missing | aborted):
            if self._state_of(offset) is not AVAILABLE:
                continue
            is_archived = offset < partition.start_offset or any(
                one.first_offset <= offset <= one.last_offset and one.state is ARCHIVED
                for one in partition.offsets
            )
            assert is_archived or offset in aborted
            if is_archived:
                self.entries.setdefault(offset, Entry()).state = ARCHIVED

    # Acknowledgement: predicted.

    def acknowledge(
        self,
        member: str,
        batches: Sequence[AcknowledgementBatch],
        now_ms: int,
        token: object,
        *,
        is_renew: bool,
    ) -> int:
        """Begin an acknowledgement; returns the error code, 0 for none."""
        types: dict[int, int] = {}
        for first, last, given in batches:
            if first > last or last > self.end or (types and first <= max(types)) or first < 0:
                return 42
            if len(given) not in (1, last - first + 1):
                return 42
            if any(not 0 <= one <= (4 if is_renew else 3) for one in given):
                return 42
            for index, offset in enumerate(range(first, last + 1)):
                types[offset] = given[0] if len(given) == 1 else given[index]
        types = {offset: one for offset, one in types.items() if offset >= self.start}
        if 4 in types.values() and not self.settings.renew_acknowledge_enable:
            return 121
        for offset in types:
            entry = self.entries[offset]
            if entry.state is not ACQUIRED or entry.member != member or entry.token is not None:
                return 121
        for offset, one in types.items():
            entry = self.entries[offset]
            if one == AcknowledgeType.RENEW:
                entry.deadline_ms = now_ms + self.settings.record_lock_duration_ms
            else:
                entry.token = token
                ended = self._ended if one == AcknowledgeType.REJECT else self._released(entry)
                entry.target = OUTCOMES.get(one, ended)
                if entry.target is ARCHIVING:
                    is_rejected = one == AcknowledgeType.REJECT
                    entry.cause = REJECTED if is_rejected else DELIVERY_COUNT
        return 0

    @property
    def _ended(self) -> RecordState:
        return ARCHIVING if self.settings.has_dead_letters else ARCHIVED

    def _released(self, entry: Entry) -> RecordState:
        is_at_limit = entry.count >= self.settings.delivery_count_limit
        return self._ended if is_at_limit else AVAILABLE

    def _end_attempt(self, entry: Entry) -> None:
        entry.member = None
        outcome = self._released(entry)
        if outcome is ARCHIVING:
            entry.token, entry.target, entry.cause = self.own, ARCHIVING, DELIVERY_COUNT
        else:
            entry.state = outcome

    def take_own(self) -> object:
        """What stands for the Archiving without acknowledgements of the write that begins."""
        taken, self.own = self.own, object()
        return taken

    def written(self, tokens: Sequence[object], *, has_failed: bool) -> list[int]:
        """End acknowledgements; returns the offsets that are acknowledged by that."""
        acknowledged: list[int] = []
        for offset, entry in self.entries.items():
            if entry.token is None or entry.token not in tokens:
                continue
            assert entry.target is not None
            target, entry.token, entry.target = entry.target, None, None
            if not has_failed:
                entry.state = target
                if entry.state is ACKNOWLEDGED:
                    acknowledged.append(offset)
                entry.member = entry.deadline_ms = None
                continue
            entry.cause = None
            if entry.deadline_ms is None:
                self._end_attempt(entry)
        self.settle()
        return acknowledged

    # Locks and the log.

    def expire(self, now_ms: int) -> None:
        """End the locks that have run out."""
        self._give_back(
            [
                entry
                for entry in self.entries.values()
                if entry.deadline_ms is not None and entry.deadline_ms <= now_ms
            ]
        )

    def release(self, member: str) -> None:
        """End the locks of a member."""
        self._give_back(
            [
                entry
                for entry in self.entries.values()
                if entry.member == member and entry.deadline_ms is not None
            ]
        )

    def _give_back(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            entry.deadline_ms = None
            if entry.token is None:
                self._end_attempt(entry)
        self.settle()

    # Dead letters: predicted.

    def take_dead_letters(self) -> dict[int, tuple[int, DeadLetterCause]]:
        """What is handed over now: delivery count and cause of each offset."""
        taken: dict[int, tuple[int, DeadLetterCause]] = {}
        for offset, entry in self.entries.items():
            if entry.state is ARCHIVING and entry.cause is not None:
                taken[offset] = entry.count, entry.cause
                entry.cause = None
        return taken

    def finish_dead_letters(self, offsets: Collection[int]) -> None:
        """Archive what was handed over."""
        for offset in offsets:
            if offset in self.entries:
                self.entries[offset].state = ARCHIVED
        self.settle()

    def log_start_moved(self, offset: int) -> None:
        """Forget what the log has no more."""
        if offset > self.start:
            self.entries = {o: entry for o, entry in self.entries.items() if o >= offset}
            self.start = offset
            self.settle()
