"""The transaction coordinator of a broker: one coroutine per API, decoded request in, response out.

Not here: what the requests do (`shard.py`, `state.py`), authorization (handlers), markers
(`markers.py`). Source: TXN-2 to TXN-5, TXN-8, TXN-10; protocol.md 12 for which code which version
of a request may be answered with.

Invariant: every coroutine returns a response; errors of the coordinator become its error codes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Set
from functools import partial
from typing import Final, Protocol, TypeVar

from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.coordinator.runtime.pipeline import PartitionWriter, RuntimeSettings, Timer
from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_broker.coordinator.transaction.markers import Destinations, MarkerSender
from barnabas_broker.coordinator.transaction.shard import (
    NeedsProducerId,
    Outcome,
    Producer,
    ShardContext,
    TransactionSettings,
    TransactionShard,
)
from barnabas_broker.coordinator.transaction.state import (
    CLASSIC,
    EPOCH_BUMP,
    Transaction,
    TransactionState,
    by_topic,
)
from barnabas_broker.env.clock import Clock
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from barnabas_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

__all__ = ["Producer", "TransactionCoordinator", "TransactionSettings"]

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"

# The first version of each request that may be answered PRODUCER_FENCED; INVALID_PRODUCER_EPOCH
# is what older clients understand.
FENCED_SINCE_INIT: Final = 4
FENCED_SINCE_OTHERS: Final = 2
EPOCH_BUMP_SINCE_END: Final = 5
# Of AddPartitionsToTxn: requests of brokers; TRANSACTION_ABORTABLE.
BROKERS_SINCE_ADD: Final = 4
ABORTABLE_SINCE_ADD: Final = 5
INTERNAL_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))

Value = TypeVar("Value")
Reply = TypeVar("Reply", covariant=True)
Command = Callable[[TransactionShard, Instant], Result[Value]]


class FreshCommand(Protocol[Reply]):
    """A command that may need a producer id that nobody has."""

    def __call__(
        self, shard: TransactionShard, now: Instant, *, fresh_producer_id: int | None
    ) -> Result[Reply]:
        """Run it. Raises: NeedsProducerId."""
        ...


class TransactionCoordinator:
    """The transactional ids whose partitions of `__transaction_state` this broker leads."""

    def __init__(
        self,
        *,
        settings: TransactionSettings,
        writer: PartitionWriter,
        clock: Clock,
        timer: Timer,
        topics: Topics,
        destinations: Destinations,
        take_producer_id: Callable[[], Awaitable[int]],
        transaction_version: Callable[[], int],
        runtime_settings: RuntimeSettings | None = None,
    ) -> None:
        """Make one; `transaction_version` is the level that the cluster has finalized."""
        self.settings = settings
        self._clock = clock
        self._topics = topics
        self._take_producer_id = take_producer_id
        self._awaited_changes: dict[str, asyncio.Event] = {}
        self.markers = MarkerSender(
            destinations,
            coordinator_epoch=lambda partition: self.runtime.leader_epoch(partition),
            complete=self._complete,
        )
        context = ShardContext(
            settings=settings, markers=self.markers, transaction_version=transaction_version
        )
        self.metrics = context.metrics
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic=TRANSACTION_STATE_TOPIC,
            partition_count=lambda: topics.partition_count(TRANSACTION_STATE_TOPIC),
            new_shard=lambda partition: TransactionShard(partition, context),
            writer=writer,
            clock=clock,
            timer=timer,
            settings=runtime_settings or RuntimeSettings(),
        )

    async def close(self) -> None:
        """Answer everything that waits with 16 and stop."""
        await self.runtime.close()
        await self.markers.close()

    # ---- requests ------------------------------------------------------------------------------

    async def init_producer_id(
        self, request: InitProducerIdRequest, api_version: int, host: str = ""
    ) -> InitProducerIdResponse:
        """Give a producer on a host the epoch that fences the one before it (TXN-2)."""
        transactional_id = request.transactional_id
        expected = Producer(request.producer_id, request.producer_epoch)
        timeout_ms = request.transaction_timeout_ms

        def init(
            shard: TransactionShard, now: Instant, *, fresh_producer_id: int | None
        ) -> Result[Outcome]:
            assert transactional_id is not None
            return shard.init_producer(
                transactional_id, timeout_ms, expected, fresh_producer_id, now, host
            )

        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if not 0 < timeout_ms <= self.settings.timeout_ms_max:
                raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            outcome = await self._execute_with_fresh_id(transactional_id, init)
        except KafkaError as error:
            outcome = Outcome(_fenced_code(error, api_version, FENCED_SINCE_INIT))
        return InitProducerIdResponse(
            error_code=outcome.code,
            producer_id=outcome.producer.producer_id,
            producer_epoch=outcome.producer.producer_epoch,
        )

    async def add_partitions(
        self,
        transaction: AddPartitionsToTxnTransaction,
        api_version: int,
        unwritable: Set[str] = frozenset(),
    ) -> dict[TopicPartition, ErrorCode]:
        """Add all partitions of a producer to its transaction, or none of them (TXN-3).

        `unwritable` are topics to which the client may not write.
        """
        return await self._add_allowed(
            transaction.transactional_id,
            Producer(transaction.producer_id, transaction.producer_epoch),
            _partitions(transaction),
            api_version,
            unwritable,
        )

    async def _add_allowed(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        api_version: int,
        unwritable: Set[str] = frozenset(),
    ) -> dict[TopicPartition, ErrorCode]:
        refused = {
            topic_partition: (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if topic_partition.topic in unwritable
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for topic_partition in partitions
            if topic_partition.topic in unwritable
            or not self._may_be_added(topic_partition, api_version)
        }
        if refused:
            return {
                topic_partition: refused.get(topic_partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
                for topic_partition in partitions
            }
        code = await self._add(
            transactional_id,
            producer,
            partitions,
            client_version=EPOCH_BUMP if api_version >= BROKERS_SINCE_ADD else CLASSIC,
            api_version=api_version,
        )
        return dict.fromkeys(partitions, code)

    async def verify_partitions(
        self, transaction: AddPartitionsToTxnTransaction, api_version: int
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the producer's transaction (TXN-3)."""
        return await self._verify(
            transaction.transactional_id,
            Producer(transaction.producer_id, transaction.producer_epoch),
            _partitions(transaction),
            api_version,
        )

    async def _verify(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        api_version: int,
    ) -> dict[TopicPartition, ErrorCode]:
        try:
            found = await self._execute(
                transactional_id,
                lambda shard, _: shard.verify(transactional_id, producer, partitions),
            )
        except KafkaError as error:
            return dict.fromkeys(partitions, append_error(error.code))
        absent = ErrorCode.TRANSACTION_ABORTABLE
        if api_version < ABORTABLE_SINCE_ADD:
            absent = ErrorCode.INVALID_TXN_STATE
        return {
            topic_partition: ErrorCode.NONE if topic_partition in found else absent
            for topic_partition in partitions
        }

    async def codes(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Add or verify what a leader on this broker asks for."""
        ask = self._add_allowed if adds else self._verify
        return await ask(transactional_id, producer, partitions, ABORTABLE_SINCE_ADD)

    async def add_partitions_of_many(
        self, request: AddPartitionsToTxnRequest, api_version: int
    ) -> AddPartitionsToTxnResponse:
        """Add or verify what a broker asks for, each transactional id for itself."""
        codes = await asyncio.gather(
            *(
                (self.verify_partitions if one.verify_only else self.add_partitions)(
                    one, api_version
                )
                for one in request.transactions
            )
        )
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=topic_results(found)
                )
                for one, found in zip(request.transactions, codes, strict=True)
            ]
        )

    async def _add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int,
        api_version: int,
    ) -> ErrorCode:
        try:
            await self._execute(
                transactional_id,
                lambda shard, now: shard.add_partitions(
                    transactional_id, producer, partitions, client_version, now
                ),
            )
        except KafkaError as error:
            return _fenced_code(error, api_version, FENCED_SINCE_OTHERS)
        self._changed(transactional_id)
        return ErrorCode.NONE

    def _may_be_added(self, topic_partition: TopicPartition, api_version: int) -> bool:
        topic, index = topic_partition
        if topic in INTERNAL_TOPICS and api_version < BROKERS_SINCE_ADD:
            return False
        return 0 <= index < self._topics.partition_count(topic)

    async def add_offsets(
        self, transactional_id: str, producer: Producer, group_id: str, api_version: int
    ) -> ErrorCode:
        """Add the partition that holds a group's offsets (TXN-4)."""
        partition_count = self._topics.partition_count(OFFSETS_TOPIC)
        if not partition_count:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        index = coordinator_partition(group_id, partition_count)
        return await self._add(
            transactional_id,
            producer,
            frozenset((TopicPartition(OFFSETS_TOPIC, index),)),
            client_version=CLASSIC,
            api_version=api_version,
        )

    async def end_transaction(self, request: EndTxnRequest, api_version: int) -> EndTxnResponse:
        """Commit or abort; returns when the outcome is committed in the log (TXN-5)."""
        transactional_id = request.transactional_id
        producer = Producer(request.producer_id, request.producer_epoch)
        version = EPOCH_BUMP if api_version >= EPOCH_BUMP_SINCE_END else CLASSIC

        def end(
            shard: TransactionShard, now: Instant, *, fresh_producer_id: int | None
        ) -> Result[Outcome]:
            return shard.end(
                transactional_id,
                producer,
                fresh_producer_id,
                now,
                commits=request.committed,
                client_version=version,
            )

        try:
            outcome = await self._execute_with_fresh_id(transactional_id, end)
        except KafkaError as error:
            outcome = Outcome(_fenced_code(error, api_version, FENCED_SINCE_OTHERS))
        return EndTxnResponse(
            error_code=outcome.code,
            producer_id=outcome.producer.producer_id,
            producer_epoch=outcome.producer.producer_epoch,
        )

    async def describe(self, transactional_id: str) -> Transaction:
        """Return what is known of one id. Raises: KafkaError 14, 15, 16, 42, 105."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return await self._execute(
            transactional_id, lambda shard, _: shard.describe(transactional_id)
        )

    def transactions(self) -> Iterator[Transaction]:
        """Yield what the active shards know. Raises: KafkaError 14 while any is loading, 15."""
        self.runtime.check_serving()
        if self.runtime.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for _, shard in self.runtime.shards():
            yield from list(shard.transactions.values())

    # ---- metrics -------------------------------------------------------------------------------

    def count_by_state(self) -> dict[TransactionState, int]:
        """Return how many transactional ids are in each state."""
        counts: Counter[TransactionState] = Counter()
        for _, shard in self.runtime.shards():
            counts += shard.count_by_state()
        return {state: counts[state] for state in TransactionState}

    def oldest_open_ms(self) -> int:
        """Return for how long the oldest open transaction has been open; 0 if none is."""
        oldest = [shard.oldest_open_ms() for _, shard in self.runtime.shards()]
        started = [started_ms for started_ms in oldest if started_ms is not None]
        return max(0, self._clock.wall_ms() - min(started)) if started else 0

    # ---- helpers -------------------------------------------------------------------------------

    async def _execute(self, transactional_id: str, command: Command[Value]) -> Value:
        self.runtime.check_serving()
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return await self.runtime.execute_for(transactional_id, command)

    async def _execute_with_fresh_id(
        self, transactional_id: str, command: FreshCommand[Value]
    ) -> Value:
        """Run a command that may need a producer id, which costs a request now and then."""
        fresh: int | None = None
        while True:
            try:
                return await self._execute(
                    transactional_id, partial(command, fresh_producer_id=fresh)
                )
            except NeedsProducerId:
                fresh = await self._take_producer_id()

    async def _complete(self, partition: int, prepared: Transaction) -> None:
        await self.runtime.execute(partition, lambda shard, now: shard.complete(prepared, now))
        self._changed(prepared.transactional_id)

    # ---- who waits for a change to be through --------------------------------------------------

    async def wait_for_change(self, transactional_id: str, wait_ms_max: int) -> None:
        """Return when the next change of an id is committed, at the latest after a while.

        Not every change is told of; who was refused because of one asks again in any case.
        """
        changed = self._awaited_changes.setdefault(transactional_id, asyncio.Event())
        try:
            async with asyncio.timeout(wait_ms_max / 1000):
                await changed.wait()
        except TimeoutError:
            return
        finally:
            if self._awaited_changes.get(transactional_id) is changed:
                del self._awaited_changes[transactional_id]

    def _changed(self, transactional_id: str) -> None:
        changed = self._awaited_changes.pop(transactional_id, None)
        if changed is not None:
            changed.set()


def _fenced_code(error: KafkaError, api_version: int, since: int) -> ErrorCode:
    """Return the code that a client of this version is answered with."""
    code = append_error(error.code)
    if code is ErrorCode.PRODUCER_FENCED and api_version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _partitions(transaction: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, index)
        for topic in transaction.topics
        for index in topic.partitions
    )


def topic_results(
    codes: Mapping[TopicPartition, ErrorCode],
) -> list[AddPartitionsToTxnTopicResult]:
    """Return the results of some partitions as a response has them."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic, index)],
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(codes).items()
    ]
