"""The word of a coordinator, and how long it is good for."""

import asyncio

import pytest

from barnabas_broker.coordinator.transaction.shard import Producer
from barnabas_broker.coordinator.transaction.verification import (
    Guard,
    Kind,
    Question,
    TransactionVerification,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.virtual_loop import run_virtual

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
PRODUCER = Producer(7, 3)
VERIFIES, ADDS = Kind(adds=False, knows_abortable=True), Kind(adds=True, knows_abortable=True)


class Coordinator:
    """One coordinator, what it was sent, and the codes that it answers next."""

    def __init__(self, *codes, node_id=1, verifies=True):
        self.node_id = node_id
        self.answers = list(codes)
        self.requests = []
        self.under_way = 0
        self.under_way_max = 0
        self.verification = TransactionVerification(
            self, verifies=lambda: verifies, add_retry_ms=lambda: (20, 100)
        )

    def node_of(self, transactional_id):
        return self.node_id

    def own(self, node_id):
        return None

    async def send(self, node_id, request):
        self.requests.append(request)
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if isinstance(code, OSError):
            raise code
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index, partition_error_code=code
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in one.topics
                    ],
                )
                for one in request.transactions
            ]
        )

    async def ask(self, *questions, producer=PRODUCER, kind=VERIFIES, name="tx"):
        return await self.verification.ask(name, producer, questions, kind)


class OwnCoordinator(Coordinator):
    """The coordinator is the same broker; each change that is awaited ends after 1 ms."""

    def __init__(self, *codes):
        super().__init__(*codes)
        self.asked = []

    def own(self, node_id):
        return self

    async def codes(self, transactional_id, producer, partitions, *, adds):
        self.asked.append((transactional_id, producer, partitions, adds))
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        return dict.fromkeys(partitions, code)

    async def wait_for_change(self, transactional_id, wait_ms_max):
        assert wait_ms_max == 20
        await asyncio.sleep(0.001)


def refused(verification, question, guard, producer=PRODUCER):
    with pytest.raises(KafkaError) as caught:
        verification.check(question, producer, guard)
    return caught.value.code


def test_word_is_good_for_one_append():
    """TXL-10."""

    async def scenario():
        coordinator = Coordinator()
        question = Question(A, 5, 0)
        guard = (await coordinator.ask(question))[A]
        assert isinstance(guard, Guard)
        coordinator.verification.check(question, PRODUCER, guard)
        coordinator.verification.appended(A, PRODUCER.producer_id)
        assert refused(coordinator.verification, question, guard) is ErrorCode.INVALID_TXN_STATE

    run_virtual(scenario())


def test_marker_between_word_and_append_makes_the_word_useless():
    """TXL-10: the record would hang behind a marker that has been (ABA)."""

    async def scenario():
        coordinator = Coordinator()
        question = Question(A, 5, 0)
        guard = (await coordinator.ask(question))[A]
        coordinator.verification.marker_written(A, PRODUCER, 0)
        assert refused(coordinator.verification, question, guard) is ErrorCode.INVALID_TXN_STATE

    run_virtual(scenario())


def test_marker_of_version_2_leaves_the_word_for_the_next_transaction():
    """TXL-10: it carries the epoch in which the producer goes on."""

    async def scenario():
        coordinator = Coordinator()
        question, next_one = Question(A, 5, 0), Producer(7, 4)
        guard = (await coordinator.ask(question, producer=next_one, kind=ADDS))[A]
        coordinator.verification.marker_written(A, next_one, 2)
        coordinator.verification.check(question, next_one, guard)
        coordinator.verification.marker_written(A, Producer(7, 5), 2)
        code = refused(coordinator.verification, question, guard, next_one)
        assert code is ErrorCode.INVALID_TXN_STATE

    run_virtual(scenario())


def test_older_epoch_is_refused_without_a_request():
    """TXL-9."""

    async def scenario():
        coordinator = Coordinator()
        await coordinator.ask(Question(A, 5, 0), producer=Producer(7, 4))
        outcome = await coordinator.ask(Question(A, 5, 0), producer=PRODUCER)
        assert outcome == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert len(coordinator.requests) == 1

    run_virtual(scenario())


def test_lowest_sequence_that_was_asked_for_comes_first():
    """TXL-10: a retriable failure must not let the second batch in before the first."""

    async def scenario():
        coordinator = Coordinator(ErrorCode.NOT_COORDINATOR)
        first, second = Question(A, 5, 0), Question(A, 5, 9)
        assert (await coordinator.ask(first))[A] is ErrorCode.NOT_ENOUGH_REPLICAS
        guard = (await coordinator.ask(second))[A]
        code = refused(coordinator.verification, second, guard)
        assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        guard = (await coordinator.ask(first))[A]
        coordinator.verification.check(first, PRODUCER, guard)

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (OSError("gone"), VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, VERIFIES, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, VERIFIES, ErrorCode.TRANSACTION_ABORTABLE),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            Kind(adds=False, knows_abortable=False),
            ErrorCode.INVALID_TXN_STATE,
        ),
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ADDS,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
    ],
)
def test_each_failure_is_told_as_what_a_producer_can_act_on(code, kind, told):
    """TXL-11."""

    async def scenario():
        assert await Coordinator(code).ask(Question(A, 5, 0), kind=kind) == {A: told}

    run_virtual(scenario())


def test_addition_is_repeated_while_the_transaction_before_is_ending():
    """TXL-11: every 20 ms, for 100 ms; what is verified only is the producer's to repeat."""

    async def scenario():
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator = Coordinator(busy, busy)
        guard = (await coordinator.ask(Question(A, 5, 0), kind=ADDS))[A]
        assert isinstance(guard, Guard)
        assert len(coordinator.requests) == 3
        coordinator = Coordinator(*[busy] * 20)
        assert await coordinator.ask(Question(A, 5, 0), kind=ADDS) == {A: busy}
        assert len(coordinator.requests) == 6

    run_virtual(scenario())


def test_coordinator_of_the_same_broker_is_called_without_a_request():
    """A message, a task and two futures each time cost more than what they are for."""

    async def scenario():
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator = OwnCoordinator(busy, busy)
        began = asyncio.get_running_loop().time()
        guard = (await coordinator.ask(Question(A, 5, 0), kind=ADDS))[A]
        assert isinstance(guard, Guard)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.002)
        assert coordinator.asked == [("tx", PRODUCER, {A}, True)] * 3
        assert coordinator.requests == []
        coordinator = OwnCoordinator(*[busy] * 20)
        assert await coordinator.ask(Question(A, 5, 0), kind=ADDS) == {A: busy}
        assert len(coordinator.asked) == 6

    run_virtual(scenario())


def test_one_request_at_a_time_carries_what_waits():
    async def scenario():
        coordinator = Coordinator()
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                producer = Producer(number, 0)
                group.create_task(
                    coordinator.ask(Question(A, 5, 0), producer=producer, name=f"tx-{number}")
                )
        assert coordinator.under_way_max == 1
        assert len(coordinator.requests) <= 2
        assert sum(len(request.transactions) for request in coordinator.requests) == 50

    run_virtual(scenario())


def test_newer_question_of_an_id_takes_the_place_of_one_that_waits():
    """TXL-11."""

    async def scenario():
        coordinator = Coordinator()
        first = asyncio.create_task(coordinator.ask(Question(A, 5, 0), name="other"))
        await asyncio.sleep(0)
        old = asyncio.create_task(coordinator.ask(Question(A, 5, 0), producer=PRODUCER))
        await asyncio.sleep(0)
        new = asyncio.create_task(coordinator.ask(Question(B, 5, 0), producer=Producer(7, 4)))
        await first
        assert await old == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert isinstance((await new)[B], Guard)

    run_virtual(scenario())


def test_nothing_is_asked_where_verification_is_off_but_additions_are():
    async def scenario():
        coordinator = Coordinator(verifies=False)
        assert isinstance((await coordinator.ask(Question(A, 5, 0)))[A], Guard)
        assert coordinator.requests == []
        await coordinator.ask(Question(A, 5, 0), kind=ADDS)
        assert len(coordinator.requests) == 1

    run_virtual(scenario())


def test_closing_answers_who_waits():
    async def scenario():
        coordinator = Coordinator()
        asking = asyncio.create_task(coordinator.ask(Question(A, 5, 0)))
        await asyncio.sleep(0.005)
        await coordinator.verification.close()
        assert await asking == {A: ErrorCode.NOT_ENOUGH_REPLICAS}

    run_virtual(scenario())
