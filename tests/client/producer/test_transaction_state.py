"""What a transactional producer may do, and when; no broker is involved (PRD-11)."""

import asyncio
import random
import types
from typing import Any

import pytest

from barnabas_client.cluster.metadata import PartitionMetadata, TopicMetadata
from barnabas_client.errors import (
    AbortableError,
    FencedError,
    IllegalStateError,
    TimedOutError,
    error_for,
)
from barnabas_client.producer.idempotence import Identities, ProducerIdentity
from barnabas_client.producer.queues import KeptKeys, PartitionQueue, TopicQueues
from barnabas_client.producer.transaction_calls import TransactionCalls
from barnabas_client.producer.transaction_manager import TransactionManager
from barnabas_client.producer.transactions import ProducerTransaction, TransactionStatus
from barnabas_protocol.api import ApiKey
from barnabas_protocol.codec import api_key_of
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

S = TransactionStatus


def ready() -> ProducerTransaction:
    state = ProducerTransaction("id")
    state.move(S.INITIALIZING)
    state.move(S.READY)
    return state


def opened() -> ProducerTransaction:
    state = ready()
    state.begin()
    return state


def some_queues() -> list[PartitionQueue]:
    partitions = {n: PartitionMetadata(partition=n, leader_id=1) for n in range(2)}
    topic = TopicMetadata(name="t", partitions=partitions)
    return TopicQueues(topic, random.Random(0), KeptKeys(), {}).queues


def test_an_initialization_without_an_answer_can_be_repeated() -> None:
    """TimedOutError is retriable."""
    state = ProducerTransaction("id")
    state.move(S.INITIALIZING)
    state.move(S.UNINITIALIZED)
    state.move(S.INITIALIZING)


def test_records_belong_into_an_open_transaction() -> None:
    """Before, after and between there is none."""
    with pytest.raises(IllegalStateError, match="init_transactions"):
        ProducerTransaction("id").check_can_send()
    state = ready()
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        state.check_can_send()
    state.begin()
    state.check_can_send()
    state.move(S.COMMITTING)
    with pytest.raises(IllegalStateError, match="being committed"):
        state.check_can_send()


def test_a_failed_record_fails_the_transaction_until_it_is_aborted() -> None:
    """And makes a new epoch necessary (KIP-360)."""
    state = opened()
    state.record_failed(TimedOutError("too late"))
    assert state.status is S.FAILED
    with pytest.raises(AbortableError, match="too late"):
        state.move(S.COMMITTING)
    with pytest.raises(AbortableError):
        state.check_can_send()
    state.move(S.ABORTING)
    assert isinstance(state.abort_reason, AbortableError)
    assert state.needs_new_epoch
    state.end()
    assert state.error is None
    assert not state.needs_new_epoch
    state.begin()


def test_a_fenced_producer_stays_fenced() -> None:
    """Every call says so again."""
    state = opened()
    state.fail(error_for(ErrorCode.PRODUCER_FENCED, "another one"))
    for call in (state.check_can_send, state.begin, lambda: state.move(S.ABORTING)):
        with pytest.raises(FencedError, match="another one"):
            call()


def test_an_old_epoch_on_produce_leaves_the_verdict_to_the_coordinator() -> None:
    """It may be the transaction's timeout that raised the epoch."""
    state = opened()
    state.record_failed(error_for(ErrorCode.INVALID_PRODUCER_EPOCH, "old"))
    assert state.status is S.FAILED
    state.move(S.ABORTING)


def test_version_1_tells_the_coordinator_of_partitions_first() -> None:
    """AddPartitionsToTxn comes before the first record."""
    state, queues = opened(), some_queues()
    assert state.sendable(queues) == []
    assert state.wanted == [TopicPartition("t", 0), TopicPartition("t", 1)]
    state.partitions_added([TopicPartition("t", 1)])
    assert state.sendable(queues) == [queues[1]]
    assert state.wanted == [TopicPartition("t", 0)]


def test_version_2_sends_right_away() -> None:
    """Produce adds the partition; from then on the transaction must be ended."""
    state, queues = opened(), some_queues()
    state.is_version_2 = True
    assert not state.is_begun_at_broker
    assert state.sendable(queues) == queues
    assert state.is_begun_at_broker


def test_nothing_is_sent_while_aborting() -> None:
    """What waits is given up instead."""
    state = opened()
    state.move(S.ABORTING)
    assert state.sendable(some_queues()) == []
    assert state.wanted == []


def test_a_commit_that_timed_out_can_only_be_repeated() -> None:
    """It may have been carried out, so it cannot be aborted."""
    state = opened()
    state.move(S.COMMITTING)
    state.is_end_sent = True
    state.move(S.COMMITTING)
    with pytest.raises(IllegalStateError):
        state.move(S.ABORTING)


class _Coordinator:
    """Notes which ends it is asked for."""

    def __init__(self, state: ProducerTransaction) -> None:
        self.state = state
        self.ends: list[bool] = []

    async def end(self, *, is_committed: bool) -> None:
        self.ends.append(is_committed)
        self.state.end()


def test_a_transaction_cancelled_within_its_commit_is_ended() -> None:
    """Readers of committed records would wait for the transaction's timeout."""

    async def run() -> None:
        state = ready()
        coordinator: Any = _Coordinator(state)
        may_flush = asyncio.Event()

        async def flush() -> None:
            await may_flush.wait()

        calls = TransactionCalls(state, coordinator, flush)

        async def program() -> None:
            async with calls.transaction():
                state.is_begun_at_broker = True

        task = asyncio.create_task(program())
        while state.status is not S.COMMITTING:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert coordinator.ends == [], "who was cancelled is not kept"
        may_flush.set()
        await calls.close()
        assert coordinator.ends == [False]

    asyncio.run(run())


class _Client:
    """A coordinator that refuses everything and so knows of no transaction (version 1)."""

    def backoff_ms(self, attempt: int) -> int:
        return 1

    environment = types.SimpleNamespace(clock=types.SimpleNamespace(monotonic_ms=lambda: 0))

    async def coordinator(self, *_: object, timeout_ms: int | None = None) -> int:
        return 1

    async def version(self, node_id: int, api: ApiKey, *, maximum: int | None = None) -> int:
        return maximum or 4

    def finalized_features(self, node_id: int) -> dict[str, int]:
        return {}

    async def request(self, node_id: int, request: object, **_: object) -> object:
        match request:
            case AddPartitionsToTxnRequest():
                part = AddPartitionsToTxnPartitionResult(
                    partition_index=0, partition_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[part])
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
            case EndTxnRequest():
                return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        assert isinstance(request, InitProducerIdRequest)
        return InitProducerIdResponse(producer_id=7, producer_epoch=1)


def test_aborting_what_never_began_leaves_a_producer_that_works() -> None:
    """Its only partition was refused: EndTxn is, too, and there is nothing to abort."""

    async def run() -> None:
        state, identities = ready(), Identities(is_transactional=True)
        identities.current = ProducerIdentity(7, 0)
        settings: Any = types.SimpleNamespace(transaction_timeout_ms=60_000, max_block_ms=5_000)
        client: Any = _Client()
        coordinator = TransactionManager(client, settings, state, identities)

        async def flush() -> None:
            return

        calls = TransactionCalls(state, coordinator, flush)
        calls.begin()
        state.sendable(some_queues()[:1])
        await coordinator.acquire()
        assert state.status is S.FAILED
        await calls.abort()
        assert state.status is S.READY
        assert identities.current == ProducerIdentity(7, 1)

    asyncio.run(run())


class _BusyClient(_Client):
    """Its coordinator is still ending the transaction before, and takes no partition."""

    def __init__(self) -> None:
        self.epoch = 0
        self.asked: list[ApiKey] = []

    async def request(self, node_id: int, request: object, **_: object) -> object:
        self.asked.append(api_key_of(type(request)))
        match request:
            case AddPartitionsToTxnRequest():
                is_old = request.v3_and_below_producer_epoch < self.epoch
                code = ErrorCode.PRODUCER_FENCED if is_old else ErrorCode.CONCURRENT_TRANSACTIONS
                part = AddPartitionsToTxnPartitionResult(
                    partition_index=0, partition_error_code=code
                )
                topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[part])
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
            case EndTxnRequest():
                return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        assert isinstance(request, InitProducerIdRequest)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)


def test_what_an_aborted_transaction_asked_for_is_not_repeated() -> None:
    """Its partitions were asked for again and again: the next epoch made that a fenced producer."""

    async def run() -> None:
        state, identities = ready(), Identities(is_transactional=True)
        identities.current = ProducerIdentity(7, 0)
        settings: Any = types.SimpleNamespace(transaction_timeout_ms=60_000, max_block_ms=5_000)
        client = _BusyClient()
        untyped: Any = client
        coordinator = TransactionManager(untyped, settings, state, identities)

        async def flush() -> None:
            return

        calls = TransactionCalls(state, coordinator, flush)
        calls.begin()
        state.sendable(some_queues()[:1])
        acquiring = asyncio.create_task(coordinator.acquire())
        while not client.asked:
            await asyncio.sleep(0)
        await calls.abort()
        await asyncio.wait([acquiring], timeout=5)
        assert acquiring.done()
        assert state.status is S.READY
        calls.begin()
        assert state.wanted == []
        assert client.asked[-2:] == [ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID]

    asyncio.run(run())
