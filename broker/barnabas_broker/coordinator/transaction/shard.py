"""The transactional ids of one partition of `__transaction_state`, and what is done with them.

Pure, driven by the runtime (`coordinator/runtime/shard.py`). Not here: the markers (`markers.py`),
requests and their versions (`coordinator.py`). Source: TXN-1 to TXN-8, TXN-10, TXN-13.

Invariants: one change per transactional id at a time, until it is known whether the log has it;
markers are sent only for an outcome that is committed in the log; nothing is answered that is not.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

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
from barnabas_broker.coordinator.transaction.holdings import (
    PARTITIONS_FEW,
    Holdings,
    ShardHoldings,
)
from barnabas_broker.coordinator.transaction.records import (
    read_key,
    read_transaction,
    transaction_record,
    transaction_tombstone,
)
from barnabas_broker.coordinator.transaction.state import (
    CLASSIC,
    EPOCH_BUMP,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    Transaction,
    TransactionState,
)
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

IDS_PER_STEP: Final = 100
"""Transactional ids that one step of a clean-up looks at or changes: some milliseconds of work."""
STEP_PAUSE_MS: Final = 1
OLDEST_AMONG: Final = 5_000
ID_BYTES_MAX: Final = 1024
"""Of a new transactional id, or few of them would take all memory; the record takes 32,767."""
RECORD_BYTES_MAX: Final = 800_000
"""Of what an open transaction is stored as: its end takes some bytes more, and must have room."""
PARTITIONS_NOT_COUNTED: Final = 1000
"""So many are smaller than that, whatever the names of their topics are."""

_TIMEOUTS_KEY: Final = "timeouts"
_EXPIRY_KEY: Final = "expiry"
_MARKERS_KEY: Final = "markers"
_OPEN: Final = TransactionState.ONGOING
_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """What the transaction coordinator may be told."""

    timeout_ms_max: int = 900_000
    timeouts_interval_ms: int = 10_000
    expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    expiry_interval_ms: int = 60 * 60 * 1000
    # Kafka bounds none of them; an id takes a kilobyte of memory, a partition 100 bytes.
    ids_max: int = 200_000
    ids_per_host_max: int = 40_000
    partitions_max: int = 1_000_000
    partitions_per_host_max: int = 200_000

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionSettings:
        """Return the settings that the broker's configuration gives."""
        return cls(
            timeout_ms_max=config.transaction_max_timeout_ms,
            timeouts_interval_ms=(
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            ),
            expiration_ms=config.transactional_id_expiration_ms,
            expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )


@dataclass(slots=True)
class TransactionMetrics:
    """Counters of all shards of one broker."""

    committed_count: int = 0
    aborted_count: int = 0
    timed_out_count: int = 0
    fenced_count: int = 0
    expired_count: int = 0
    skipped_record_count: int = 0
    append_failure_count: int = 0
    id_count: int = 0


class NeedsProducerId(Exception):
    """The command needs a producer id that nobody has: run it again with one."""


class Producer(NamedTuple):
    """A producer id and its epoch, as a request names them; -1 for what it does not say."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Outcome(NamedTuple):
    """The reply to who begins or ends: an error code, and the producer that is valid now."""

    code: ErrorCode
    producer: Producer = Producer()


class Markers(Protocol):
    """Who writes the markers of transactions whose outcome is decided."""

    def send(self, partition: int, transaction: Transaction) -> None:
        """Write the markers of a prepared transaction, however long that takes."""
        ...

    def forget(self, partition: int) -> None:
        """Stop for all transactions of a partition: another coordinator goes on with them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """What all shards of one broker share."""

    settings: TransactionSettings
    markers: Markers
    transaction_version: Callable[[], int]
    metrics: TransactionMetrics = field(default_factory=TransactionMetrics)
    holdings: Holdings = field(default_factory=Holdings)


def _may_begin(known: Transaction, expected: Producer) -> bool:
    """Whether a producer may go on: it names nothing, is the newest, or has lost a response."""
    if expected.producer_id == NO_PRODUCER_ID or known.is_of(expected.producer_id):
        return True
    return (
        expected.producer_id == known.previous_producer_id
        and expected.producer_epoch >= PRODUCER_EPOCH_MAX - 1
    )


def _outcome(known: Transaction) -> Outcome:
    return Outcome(ErrorCode.NONE, Producer(known.producer_id, known.producer_epoch))


class TransactionShard:
    """The state machine of one partition."""

    def __init__(self, partition: int, context: ShardContext) -> None:
        self.partition = partition
        self.timers = ShardTimers[TimerAction]()
        self.transactions: dict[str, Transaction] = {}
        self._context = context
        self._metrics = context.metrics
        self._holdings = ShardHoldings(context.holdings)
        self._open: dict[str, None] = {}  # those that a time-out may end
        self._prepared: dict[str, None] = {}
        self._pending: set[str] = set()  # their newest change may still fail
        # How many there are in each state: metrics are read often, and ids may be very many.
        self._counts: Counter[TransactionState] = Counter()
        self._is_active = False  # replay is not undone, and counts for nothing yet
        self.journal = UndoJournal()

    # ---- a producer begins ---------------------------------------------------------------------

    def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer,
        fresh_producer_id: int | None,
        now: Instant,
        host: str = "",
    ) -> Result[Outcome]:
        """Give a producer its id and epoch, and fence the one before it (TXN-2).

        `host` is where the request comes from: each may make so many ids. An open transaction is
        aborted first: the reply is CONCURRENT_TRANSACTIONS then, and the producer asks again.
        Raises: KafkaError 15, 51, 90; NeedsProducerId.
        """
        self._check_not_pending(transactional_id)
        known = self.transactions.get(transactional_id)
        if known is None:
            return self._create(transactional_id, timeout_ms, fresh_producer_id, now, host)
        if not _may_begin(known, expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        is_newest = expected.producer_epoch in (NO_PRODUCER_EPOCH, known.producer_epoch)
        if known.state is _OPEN:
            if not is_newest:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            self._metrics.fenced_count += 1
            return self._change(
                self._fenced(known, now), Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
            )
        if known.is_exhausted and is_newest:
            if fresh_producer_id is None:
                raise NeedsProducerId
            begun = known.with_producer_id(
                fresh_producer_id, timeout_ms, expected.producer_epoch, now.wall_ms
            )
        elif is_newest:
            begun = known.with_next_epoch(timeout_ms, expected.producer_epoch, now.wall_ms)
        elif expected.producer_epoch == known.last_producer_epoch:
            # The response to the same request was lost.
            return Result(reply=_outcome(known), waits_for_commit=True)
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._change(begun, _outcome(begun))

    def _create(
        self,
        transactional_id: str,
        timeout_ms: int,
        producer_id: int | None,
        now: Instant,
        host: str,
    ) -> Result[Outcome]:
        if len(transactional_id.encode()) > ID_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a transactional id has {ID_BYTES_MAX} bytes at most",
            )
        settings = self._context.settings
        if (
            self._metrics.id_count >= settings.ids_max
            or self._holdings.ids_of(host) >= settings.ids_per_host_max
        ):
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "there are too many transactional ids"
            )
        if producer_id is None:
            raise NeedsProducerId
        begun = Transaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            updated_ms=now.wall_ms,
        )
        result = self._change(begun, _outcome(begun))
        self._holdings.made(transactional_id, host)
        return result

    # ---- it writes -----------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now: Instant,
    ) -> Result[None]:
        """Add partitions to the open transaction, or open one with them (TXN-3).

        Raises: KafkaError 10, 15, 49, 51, 90.
        """
        self._check_not_pending(transactional_id)
        known = self._of(transactional_id, producer)
        if known.state is _OPEN and partitions <= known.partitions:
            return Result(reply=None, waits_for_commit=True)
        opened = known.with_partitions(partitions, client_version, now.wall_ms)
        is_large = len(opened.partitions) > PARTITIONS_NOT_COUNTED
        if is_large and transaction_record(opened, 1).size_bytes > RECORD_BYTES_MAX:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "it has too many partitions")
        if len(opened.partitions) > PARTITIONS_FEW:
            settings = self._context.settings
            of_all, of_host = self._holdings.partitions_beside(transactional_id)
            added = len(opened.partitions) - len(known.partitions)
            if (
                of_all + added > settings.partitions_max
                or of_host + added > settings.partitions_per_host_max
            ):
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many partitions are in transactions"
                )
        return self._change(opened, None)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Result[frozenset[TopicPartition]]:
        """Return which of some partitions are in the open transaction (TXN-3).

        Waits for what is on its way into the log: what a leader appends on our word must be found
        by the next coordinator too. Raises: KafkaError 49, 51, 90.
        """
        known = self._of(transactional_id, producer)
        return Result(reply=partitions & known.partitions, waits_for_commit=True)

    def _of(self, transactional_id: str, producer: Producer) -> Transaction:
        """Return the transaction that a producer may write in. Raises: KafkaError 49, 51, 90."""
        known = self.transactions.get(transactional_id)
        if known is None or not known.is_of(producer.producer_id):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # The id that takes the place of an exhausted one has to wait for the markers of that.
        is_next = known.producer_id != producer.producer_id
        if known.producer_epoch != producer.producer_epoch and not is_next:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return known

    # ---- it ends -------------------------------------------------------------------------------

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        fresh_producer_id: int | None,
        now: Instant,
        *,
        commits: bool,
        client_version: int,
    ) -> Result[Outcome]:
        """Commit or abort (TXN-5, TXN-13); the markers follow when that is committed in the log.

        Raises: KafkaError 48, 49, 51, 90; NeedsProducerId.
        """
        self._check_not_pending(transactional_id)
        known = self.transactions.get(transactional_id)
        bumps = client_version >= EPOCH_BUMP
        is_repeated = bumps and known is not None and known.is_repeated_end(*producer)
        if known is None or not (known.is_of(producer.producer_id) or is_repeated):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_current = known.producer_epoch == producer.producer_epoch
        if known.state is _OPEN:
            if not is_current:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            return self._end(known, commits, client_version, fresh_producer_id, now)
        if known.state.is_prepared:
            # Of the next transaction, perhaps: its end comes after that of this one.
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state in _COMPLETE and (is_repeated or (not bumps and is_current)):
            if commits != (known.state is TransactionState.COMPLETE_COMMIT):
                raise KafkaError(ErrorCode.INVALID_TXN_STATE)
            if known.producer_epoch == PRODUCER_EPOCH_MAX:
                # It was aborted by the coordinator at its last epoch, and may not write with this
                # one; beginning anew gives it another producer id.
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            return Result(reply=_outcome(known), waits_for_commit=True)
        if not is_current:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if commits or not bumps:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        # An abort of nothing: a partition was perhaps on its way into the transaction.
        return self._end(known, commits, client_version, fresh_producer_id, now)

    def _end(
        self,
        known: Transaction,
        commits: bool,
        client_version: int,
        fresh_producer_id: int | None,
        now: Instant,
    ) -> Result[Outcome]:
        next_producer_id = NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP and known.is_exhausted:
            if fresh_producer_id is None:
                raise NeedsProducerId
            next_producer_id = fresh_producer_id
        ended = known.ended(
            commits=commits,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now.wall_ms,
        )
        return self._change(ended, Outcome(ErrorCode.NONE, Producer(*ended.producer_after_end)))

    def complete(self, prepared: Transaction, now: Instant) -> Result[None]:
        """All markers of a prepared transaction are written (TXN-6).

        Does nothing if the transactional id has gone on. Raises: KafkaError 51 while a change of
        it is under way.
        """
        transactional_id = prepared.transactional_id
        # First, as this very change may be on its way and be refused.
        self._check_not_pending(transactional_id)
        if self.transactions.get(transactional_id) != prepared:
            return no_change()
        if prepared.state is TransactionState.PREPARE_COMMIT:
            self._metrics.committed_count += 1
        else:
            self._metrics.aborted_count += 1
        return self._change(prepared.completed(now.wall_ms), None)

    def _fenced(self, known: Transaction, now: Instant) -> Transaction:
        version = EPOCH_BUMP if self._context.transaction_version() >= EPOCH_BUMP else CLASSIC
        return known.fenced(client_version=version, now_ms=now.wall_ms)

    # ---- time ----------------------------------------------------------------------------------

    def _abort_timed_out(self, now: Instant, rest: list[str] | None = None) -> Result[None]:
        """Abort what has been open for too long (TXN-7), some in each step."""
        ids = list(self._open) if rest is None else rest
        late = [
            self._fenced(self.transactions[transactional_id], now)
            for transactional_id in ids[:IDS_PER_STEP]
            if transactional_id in self._open
            and self.transactions[transactional_id].deadline_ms < now.wall_ms
            and transactional_id not in self._pending
        ]
        left = ids[IDS_PER_STEP:]
        self._schedule(_TIMEOUTS_KEY, now, left, self._context.settings.timeouts_interval_ms)
        self._metrics.timed_out_count += len(late)
        for known in late:
            logger.info("transaction of %s is aborted: timed out", known.transactional_id)
        return self._change_all(late, None)

    def _expire(self, now: Instant, rest: list[str] | None = None) -> Result[None]:
        """Forget ids that nobody has used for long (TXN-7), some in each step."""
        ids = list(self.transactions) if rest is None else rest
        since_ms = now.wall_ms - self._context.settings.expiration_ms
        tombstones: list[CoordinatorRecord] = []
        for transactional_id in ids[:IDS_PER_STEP]:
            known = self.transactions.get(transactional_id)
            if (
                known is not None
                and known.state.is_settled
                and known.updated_ms <= since_ms
                and transactional_id not in self._pending
            ):
                self._put(transactional_id, None)
                tombstones.append(transaction_tombstone(transactional_id))
        self._metrics.expired_count += len(tombstones)
        left = ids[IDS_PER_STEP:]
        self._schedule(_EXPIRY_KEY, now, left, self._context.settings.expiry_interval_ms)
        return Result(reply=None, records=tombstones, is_atomic=False)

    def _schedule(self, key: str, now: Instant, left: list[str], interval_ms: int) -> None:
        """Go on with what a clean-up has left, or begin the next one after the interval.

        Others have their turn in between, so what is left is not due at once.
        """
        clean_up = self._abort_timed_out if key == _TIMEOUTS_KEY else self._expire
        delay_ms = STEP_PAUSE_MS if left else interval_ms
        action = partial(clean_up, rest=left or None)
        self.timers.schedule(key, now.monotonic_ms + delay_ms, action)

    # ---- what tools ask ------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Result[Transaction]:
        """Return what is known of one id. Raises: KafkaError 105."""
        known = self.transactions.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return Result(reply=known, waits_for_commit=True)

    def count_by_state(self) -> Counter[TransactionState]:
        """Return how many transactional ids are in each state."""
        return self._counts

    def oldest_open_ms(self) -> int | None:
        """Return since when the oldest transaction has been open; None without one.

        It is looked for among the first that are known, which were open before the others, except
        that what was loaded is in the order in which it was written last.
        """
        first = islice(self._open, OLDEST_AMONG)
        return min((self.transactions[one].started_ms for one in first), default=None)

    # ---- changes -------------------------------------------------------------------------------

    def _check_not_pending(self, transactional_id: str) -> None:
        if transactional_id in self._pending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _change(self, changed: Transaction, reply: Reply) -> Result[Reply]:
        return self._change_all([changed], reply)

    def _change_all(self, changed: Sequence[Transaction], reply: Reply) -> Result[Reply]:
        """Change some ids, each of which takes no other change until the outcome is known."""
        if not changed:
            return Result(reply=reply)
        level = self._context.transaction_version()
        # First, as nothing may have changed if one cannot be written.
        records = [transaction_record(transaction, level) for transaction in changed]
        ids = [transaction.transactional_id for transaction in changed]
        for transaction in changed:
            self._put(transaction.transactional_id, transaction)
        self._pending.update(ids)

        def on_append(error: KafkaError | None, now: Instant) -> Result[None]:
            self._pending.difference_update(ids)
            if error is not None:
                self._metrics.append_failure_count += 1
                return no_change()
            for transaction in changed:
                if transaction.state.is_prepared:
                    self._context.markers.send(self.partition, transaction)
            return no_change()

        return Result(
            reply=reply,
            records=records,
            on_append=on_append,
            is_atomic=len(changed) == 1,
        )

    def _put(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Set or forget what is known of an id, in a way that can be undone."""
        before = self.transactions.get(transactional_id)
        self.journal.note(self._restore, transactional_id, before)
        self._set(transactional_id, before, transaction)

    def _restore(self, transactional_id: str, before: Transaction | None) -> None:
        self._set(transactional_id, self.transactions.get(transactional_id), before)

    def _set(
        self, transactional_id: str, before: Transaction | None, transaction: Transaction | None
    ) -> None:
        if self._is_active:
            self._metrics.id_count += (transaction is not None) - (before is not None)
        more = (0 if transaction is None else len(transaction.partitions)) - (
            0 if before is None else len(before.partitions)
        )
        if more:
            self._holdings.changed(transactional_id, more)
        if transaction is None:
            self._holdings.gone(transactional_id)
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if before is not None:
            self._counts[before.state] -= 1
        if transaction is not None:
            self._counts[transaction.state] += 1
        state = None if transaction is None else transaction.state
        for ids, belongs in (
            (self._open, state is _OPEN),
            (self._prepared, state is not None and state.is_prepared),
        ):
            if belongs:
                ids[transactional_id] = None
            else:
                ids.pop(transactional_id, None)

    # ---- the log -------------------------------------------------------------------------------

    def replay(self, record: Record, producer_id: int) -> None:
        """Take over a record; what cannot be read is skipped, counted and logged."""
        try:
            self._replay(record)
        except ParseError as error:
            self._skip(record, str(error))

    def _replay(self, record: Record) -> None:
        transactional_id = None if record.key is None else read_key(record.key)
        if transactional_id is None:
            self._skip(record, "unknown key type")
            return
        transaction = None
        if record.value is not None:
            transaction = read_transaction(transactional_id, record.value)
            if transaction is None:
                self._skip(record, "unknown value version")
                return
        self._set(transactional_id, self.transactions.get(transactional_id), transaction)

    def _skip(self, record: Record, reason: str) -> None:
        self._metrics.skipped_record_count += 1
        logger.warning(
            "__transaction_state-%d: record %d skipped: %s", self.partition, record.offset, reason
        )

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Nothing: no transaction writes to this topic."""

    def loaded(self, now: Instant) -> Result[None]:
        """Go on where the coordinator before was: markers of what is prepared (TXN-6)."""
        self._is_active = True
        self.journal.start()
        self._metrics.id_count += len(self.transactions)
        self._holdings.activate()
        self._send_markers(now, list(self._prepared))
        settings = self._context.settings
        self._schedule(_TIMEOUTS_KEY, now, [], settings.timeouts_interval_ms)
        self._schedule(_EXPIRY_KEY, now, [], settings.expiry_interval_ms)
        return no_change()

    def _send_markers(self, now: Instant, ids: list[str]) -> Result[None]:
        """Send the markers of some that were prepared before, and of the rest in further steps."""
        for transactional_id in ids[:IDS_PER_STEP]:
            self._context.markers.send(self.partition, self.transactions[transactional_id])
        if left := ids[IDS_PER_STEP:]:
            due_ms = now.monotonic_ms + STEP_PAUSE_MS
            self.timers.schedule(_MARKERS_KEY, due_ms, partial(self._send_markers, ids=left))
        return no_change()

    def close(self, code: ErrorCode) -> None:
        """Let go of everything: another broker coordinates from now on, or a fresh shard here."""
        self.timers.clear()
        self._context.markers.forget(self.partition)
        if self._is_active:
            self._metrics.id_count -= len(self.transactions)
        self._is_active = False
        self._holdings.close()
        self.transactions.clear()
        self._open.clear()
        self._prepared.clear()
        self._counts.clear()
        self._pending.clear()
