"""What a coordinator's state machine looks like to the runtime that drives it.

A shard is the state of one partition of an internal topic. It is pure: no clock, no input or
output, no event loop. A command is a method of the shard that changes its state at once and
returns the records that make the change durable; the runtime appends them and hands out the reply
when they are committed (architecture, "Coordinators").

Invariants: an in-memory state is changed by exactly the records that replay would change: a shard
that replays all records that its commands returned has the same durable state, and a rolled back
command leaves durable state as if it had never run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.control import TransactionMarker
from barnabas_protocol.records.record import Record

Reply = TypeVar("Reply", covariant=True)
Value = TypeVar("Value")


class Instant(NamedTuple):
    """One reading of both clocks: the monotonic one for timers, wall time for what is stored."""

    monotonic_ms: int
    wall_ms: int


class CoordinatorRecord(NamedTuple):
    """One record to append; a null value is a tombstone."""

    key: bytes
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """An upper bound of its size in a batch."""
        return len(self.key) + (0 if self.value is None else len(self.value)) + 32


class TransactionWrite(NamedTuple):
    """The transaction that a command writes in, or ends with a marker."""

    producer_id: int
    producer_epoch: int
    # What ends the transaction in this partition: the command has no records then.
    marker: TransactionMarker | None = None
    # Called right before the append, when all that was written before is in the log. Raises
    # KafkaError if the transaction is not what the command took it for.
    check: Callable[[], None] | None = None


# Gets how the append of a command's records ended (None: committed), or of those before it where
# it only waits for them; may change more.
AppendHook = Callable[[KafkaError | None, Instant], "Result[None]"]
# Gets the first and the last offset of the batch with all of a command's records, once it is
# committed: after the hook, before the reply. Not for what is spread over several batches.
CommitHook = Callable[[int, int], None]
# Called when the outcome is not known in time; the append hook still follows when it is.
TimeoutHook = Callable[[KafkaError, Instant], "Result[None]"]


# What a timer of a shard does when it is due.
TimerAction = Callable[[Instant], "Result[None]"]


@dataclass(slots=True, kw_only=True)
class Result(Generic[Reply]):
    """What a command gives back to the runtime."""

    reply: Reply
    records: list[CoordinatorRecord] = field(default_factory=list)
    on_append: AppendHook | None = None
    on_timeout: TimeoutHook | None = None
    on_commit: CommitHook | None = None
    # The reply shows state that may not be committed yet: hold it back until that is.
    waits_for_commit: bool = False
    # All records in one batch or none of them; tombstones may be spread over several.
    is_atomic: bool = True
    # A batch of its own, with a producer's id and epoch.
    transaction: TransactionWrite | None = None

    @property
    def writes(self) -> bool:
        """Whether anything is to be appended."""
        return bool(self.records) or (
            self.transaction is not None and self.transaction.marker is not None
        )


def no_change() -> Result[None]:
    """Return the result of a command that changes nothing durable and replies nothing."""
    return Result(reply=None)


def with_reply(result: Result[None], reply: Value) -> Result[Value]:
    """Return the same change with a reply."""
    return Result(
        reply=reply,
        records=result.records,
        on_append=result.on_append,
        on_timeout=result.on_timeout,
        on_commit=result.on_commit,
        waits_for_commit=result.waits_for_commit,
        is_atomic=result.is_atomic,
        transaction=result.transaction,
    )


class Shard(Protocol):
    """The state machine of one partition."""

    timers: ShardTimers[TimerAction]
    # What takes back the durable changes of commands; kept from `loaded` on.
    journal: UndoJournal

    def replay(self, record: Record, producer_id: int) -> None:
        """Take over a record of the log; a producer id >= 0 says it is in an open transaction."""
        ...

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Take over a marker of the log."""
        ...

    def loaded(self, now: Instant) -> Result[None]:
        """Become active after the last replayed record."""
        ...

    def close(self, code: ErrorCode) -> None:
        """Fail everything parked with the code; the shard is not used again."""
        ...
