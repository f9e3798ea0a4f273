"""The smallest shard: named counters, one record per change."""

from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.coordinator.runtime.shard import (
    AppendHook,
    CoordinatorRecord,
    Instant,
    Result,
    TimerAction,
)
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.records.record import Record


class CountingShard:
    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.timers = ShardTimers[TimerAction]()
        self.counts: dict[str, int] = {}
        self.pending: dict[int, list[tuple[str, int]]] = {}
        self.closed_with: ErrorCode | None = None
        self.journal = UndoJournal()
        self.journal.start()

    def replay(self, record: Record, producer_id: int) -> None:
        assert record.key is not None
        assert record.value is not None
        change = record.key.decode(), int(record.value)
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append(change)
        else:
            self.counts[change[0]] = change[1]

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        changes = self.pending.pop(producer_id, [])
        if is_committed:
            self.counts.update(changes)

    def loaded(self, now: Instant) -> Result[None]:
        return Result(reply=None)

    def close(self, code: ErrorCode) -> None:
        self.closed_with = code
        self.timers.clear()

    def add(
        self, name: str, count: int = 1, *, hook: AppendHook | None = None, padding: int = 0
    ) -> Result[int]:
        before = self.counts.get(name, 0)
        self.journal.note(self.counts.__setitem__, name, before)
        self.counts[name] = before + count
        value = str(before + count).zfill(padding).encode()
        record = CoordinatorRecord(name.encode(), value)
        return Result(reply=before + count, records=[record], on_append=hook)

    def get(self, name: str) -> Result[int]:
        return Result(reply=self.counts.get(name, 0), waits_for_commit=True)
