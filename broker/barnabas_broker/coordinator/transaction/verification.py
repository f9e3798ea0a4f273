"""Asks transaction coordinators, for the leader of a partition, who may write in a transaction.

Not here: what the coordinator answers (`shard.py`), the producer state of a log. Source: TXL-9 to
TXL-11, KIP-890.

A batch may be appended in a transaction only while that is open here, or on the word of the
coordinator that the partition is in it. The word is good for one append: a marker may come in
between, and what is appended behind it would hang for ever. So each question gets a *guard*, the
first append or marker takes it away, and an answer without its guard is worth nothing.

Invariants: one request under way to each other broker; what waits for it is bounded, one question
for each transactional id. The coordinator of this broker is called without a request, and tells
when a transaction that is ending has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas_broker.coordinator.transaction.shard import Producer
from barnabas_broker.coordinator.transaction.state import EPOCH_BUMP, by_topic
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

GUARDS_MAX: Final = 50_000
# Some milliseconds of work for a coordinator; what is more waits for the next request.
TRANSACTIONS_PER_REQUEST: Final = 100
PARTITIONS_PER_REQUEST: Final = 2_000

_UNREACHABLE: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class Kind(NamedTuple):
    """What a request wants of the coordinator, by its version.

    `adds`: put the partition into the transaction (version 2), instead of looking whether it is.
    `knows_abortable`: the client understands TRANSACTION_ABORTABLE.
    """

    adds: bool
    knows_abortable: bool


class Question(NamedTuple):
    """One partition that a producer wants to write to, and the leader epoch it is led in."""

    topic_partition: TopicPartition
    leader_epoch: int
    first_sequence: int = -1


class Guard:
    """What a producer may append by, once."""

    __slots__ = ("first_sequence", "leader_epoch", "producer_epoch")

    def __init__(self, producer_epoch: int, leader_epoch: int, first_sequence: int) -> None:
        self.producer_epoch = producer_epoch
        self.leader_epoch = leader_epoch
        self.first_sequence = first_sequence


class OwnCoordinator(Protocol):
    """The coordinator of this broker, which needs no request."""

    def codes(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> Awaitable[Mapping[TopicPartition, ErrorCode]]:
        """Add partitions to a producer's transaction, or verify that they are in it."""
        ...

    def wait_for_change(self, transactional_id: str, wait_ms_max: int) -> Awaitable[None]:
        """Return when a change of an id is through, at the latest after a while."""
        ...


class Coordinators(Protocol):
    """Where the coordinators are."""

    def node_of(self, transactional_id: str) -> int | None:
        """Return the broker that coordinates an id; None while there is none."""
        ...

    def own(self, node_id: int) -> OwnCoordinator | None:
        """Return the coordinator of this broker if that is the one."""
        ...

    def send(
        self, node_id: int, request: AddPartitionsToTxnRequest
    ) -> Awaitable[AddPartitionsToTxnResponse]:
        """Send a request to another broker. Raises: OSError, KafkaError."""
        ...


class _Pending:
    """A question that is on its way or waits for its turn."""

    __slots__ = ("future", "message", "partitions")

    def __init__(
        self, message: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition]
    ) -> None:
        self.message = message
        self.partitions = partitions
        self.future: asyncio.Future[dict[TopicPartition, ErrorCode]] = (
            asyncio.get_running_loop().create_future()
        )

    def answer(self, codes: dict[TopicPartition, ErrorCode]) -> None:
        if not self.future.done():
            self.future.set_result(codes)


class TransactionVerification:
    """The guards of all partitions that this broker leads, and the questions about them."""

    def __init__(
        self,
        coordinators: Coordinators,
        *,
        verifies: Callable[[], bool],
        add_retry_ms: Callable[[], tuple[int, int]],
    ) -> None:
        """Make one.

        `verifies`: `transaction.partition.verification.enable`. `add_retry_ms`: after how long, and
        for how long in all, an addition is repeated while the transaction before it is ending.
        """
        self._coordinators = coordinators
        self._verifies = verifies
        self._add_retry_ms = add_retry_ms
        self._guards: dict[tuple[TopicPartition, int], Guard] = {}
        self._waiting: dict[int, dict[str, _Pending]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self.asked_count = 0
        self.failed_count = 0

    # ---- guards --------------------------------------------------------------------------------

    async def ask(
        self,
        transactional_id: str,
        producer: Producer,
        questions: Sequence[Question],
        kind: Kind,
    ) -> dict[TopicPartition, Guard | ErrorCode]:
        """Return for each partition what to append by, or why a producer may not."""
        if not kind.adds and not self._verifies():
            return {
                question.topic_partition: self._guard(producer, question) for question in questions
            }
        outcome: dict[TopicPartition, Guard | ErrorCode] = {}
        guards: dict[TopicPartition, Guard] = {}
        for question in questions:
            known = self._guards.get((question.topic_partition, producer.producer_id))
            if known is not None and known.producer_epoch > producer.producer_epoch:
                outcome[question.topic_partition] = ErrorCode.INVALID_PRODUCER_EPOCH
            else:
                guards[question.topic_partition] = self._guard(producer, question)
        if guards:
            codes = await self._codes(transactional_id, producer, frozenset(guards), kind)
            for topic_partition, guard in guards.items():
                code = codes.get(topic_partition, ErrorCode.NETWORK_EXCEPTION)
                if code is ErrorCode.NONE:
                    outcome[topic_partition] = guard
                else:
                    outcome[topic_partition] = _told(code, kind)
        return outcome

    def check(self, question: Question, producer: Producer, guard: Guard) -> None:
        """Verify that an append by a guard is still right; nothing may be awaited afterwards.

        Raises: KafkaError 48 if an append or a marker has come before it; 45 if what the producer
        had sent before it has not come yet.
        """
        held = self._guards.get((question.topic_partition, producer.producer_id))
        if held is not guard:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "the transaction has ended since it was verified"
            )
        if question.first_sequence > guard.first_sequence >= 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {guard.first_sequence} was asked for before {question.first_sequence}",
            )

    def appended(self, topic_partition: TopicPartition, producer_id: int) -> None:
        """Take the guard away: from here on the open transaction speaks for the producer."""
        self._guards.pop((topic_partition, producer_id), None)

    def marker_written(
        self, topic_partition: TopicPartition, producer: Producer, transaction_version: int
    ) -> None:
        """Take the guard away: what was verified was in the transaction that ends here.

        A marker of version 2 has the epoch of the next transaction, whose guard stays.
        """
        key = topic_partition, producer.producer_id
        guard = self._guards.get(key)
        if guard is None:
            return
        is_of_next = guard.producer_epoch >= producer.producer_epoch
        if transaction_version < EPOCH_BUMP or not is_of_next:
            del self._guards[key]

    def _guard(self, producer: Producer, question: Question) -> Guard:
        key = question.topic_partition, producer.producer_id
        guard = self._guards.get(key)
        if (
            guard is None
            or guard.producer_epoch != producer.producer_epoch
            or guard.leader_epoch != question.leader_epoch
        ):
            if len(self._guards) >= GUARDS_MAX:
                del self._guards[next(iter(self._guards))]  # its producer asks again
            guard = Guard(producer.producer_epoch, question.leader_epoch, question.first_sequence)
            self._guards.pop(key, None)
            self._guards[key] = guard
        elif question.first_sequence < guard.first_sequence:
            guard.first_sequence = question.first_sequence
        return guard

    # ---- questions -----------------------------------------------------------------------------

    async def _codes(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        kind: Kind,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Ask; while the transaction before is ending, an addition is repeated for a moment."""
        backoff_ms, left_ms = self._add_retry_ms()
        while True:
            codes = await self._ask_once(transactional_id, producer, partitions, kind)
            is_ending = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if not (kind.adds and is_ending) or left_ms <= 0:
                return codes
            await self._wait_for_end(transactional_id, backoff_ms)
            left_ms -= backoff_ms

    async def _wait_for_end(self, transactional_id: str, wait_ms_max: int) -> None:
        """Wait until asking again makes sense: another broker does not tell when that is."""
        node_id = self._coordinators.node_of(transactional_id)
        own = None if node_id is None else self._coordinators.own(node_id)
        if own is None:
            await asyncio.sleep(wait_ms_max / 1000)
        else:
            await own.wait_for_change(transactional_id, wait_ms_max)

    async def _ask_once(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        kind: Kind,
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.asked_count += 1
        node_id = self._coordinators.node_of(transactional_id)
        if node_id is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        own = self._coordinators.own(node_id)
        if own is not None:
            return await own.codes(transactional_id, producer, partitions, adds=kind.adds)
        message = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=not kind.adds,
            topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        pending = _Pending(message, partitions)
        waiting = self._waiting.setdefault(node_id, {})
        replaced = waiting.get(transactional_id)
        if replaced is not None:
            is_older = replaced.message.producer_epoch < producer.producer_epoch
            code = ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION
            replaced.answer(dict.fromkeys(replaced.partitions, code))
        waiting[transactional_id] = pending
        if node_id not in self._senders:
            task = asyncio.get_running_loop().create_task(self._send_all(node_id))
            self._senders[node_id] = task
        return await pending.future

    async def _send_all(self, node_id: int) -> None:
        """Send what waits for one coordinator, until nothing does."""
        waiting = self._waiting[node_id]
        try:
            while waiting:
                batch: list[_Pending] = []
                room = PARTITIONS_PER_REQUEST
                while waiting and room > 0 and len(batch) < TRANSACTIONS_PER_REQUEST:
                    pending = waiting.pop(next(iter(waiting)))
                    room -= len(pending.partitions)
                    batch.append(pending)
                await self._send(node_id, batch)
        finally:
            del self._senders[node_id]
            for pending in waiting.values():
                _fail(pending, ErrorCode.NETWORK_EXCEPTION)
            waiting.clear()

    async def _send(self, node_id: int, batch: Sequence[_Pending]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[pending.message for pending in batch])
        failure = ErrorCode.NETWORK_EXCEPTION
        results: dict[str, dict[TopicPartition, ErrorCode]] = {}
        try:
            response = await self._coordinators.send(node_id, request)
        except (OSError, KafkaError):
            self.failed_count += 1
        else:
            if response.error_code:
                failure = ErrorCode(response.error_code)
            results = {
                result.transactional_id: {
                    TopicPartition(topic.name, partition.partition_index): ErrorCode(
                        partition.partition_error_code
                    )
                    for topic in result.topic_results
                    for partition in topic.results_by_partition
                }
                for result in response.results_by_transaction
            }
        finally:
            for pending in batch:
                codes = results.get(pending.message.transactional_id)
                if codes is None:
                    _fail(pending, failure)
                else:
                    pending.answer(codes)

    async def close(self) -> None:
        """Stop; who waits is told that nobody answers."""
        tasks = list(self._senders.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _fail(pending: _Pending, code: ErrorCode) -> None:
    pending.answer(dict.fromkeys(pending.partitions, code))


def _told(code: ErrorCode, kind: Kind) -> ErrorCode:
    """Return what the producer gets for a code of the coordinator (TXL-11)."""
    if code in _UNREACHABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return code if kind.adds else ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not kind.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
