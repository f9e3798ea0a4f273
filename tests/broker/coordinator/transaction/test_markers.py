"""Markers of decided transactions: sent until they are there, and only for who still decides."""

import asyncio
from collections import defaultdict

from barnabas_broker.coordinator.transaction.markers import MarkerSender
from barnabas_broker.coordinator.transaction.state import Transaction, TransactionState
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.virtual_loop import run_virtual

A, B, C = (TopicPartition(name, 0) for name in "abc")


def prepared(name, *partitions, commits=True, epoch=3, producer_id=7):
    state = TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT
    return Transaction(
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=1,
        state=state,
        partitions=frozenset(partitions),
    )


class Brokers:
    """Leaders by partition, what they were sent, and the codes that they answer next."""

    def __init__(self, **leaders):
        self.leaders = {TopicPartition(topic, 0): leader for topic, leader in leaders.items()}
        self.sent = defaultdict(list)
        self.codes = defaultdict(list)
        self.completed = []
        self.failing_completions = []
        self.epochs = {0: 5}
        self.slow_ms = {}
        self.under_way = 0
        self.under_way_max = 0
        self.sender = MarkerSender(self, coordinator_epoch=self.epochs.get, complete=self._complete)

    def leader_of(self, topic_partition):
        return self.leaders.get(topic_partition)

    async def send(self, node_id, request):
        self.sent[node_id].append(request)
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await asyncio.sleep(self.slow_ms.get(node_id, 10) / 1000)
        self.under_way -= 1
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self._code(topic.name)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def _code(self, topic):
        code = self.codes[topic].pop(0) if self.codes[topic] else ErrorCode.NONE
        if isinstance(code, Exception):
            raise code
        return code

    async def _complete(self, partition, transaction):
        if self.failing_completions:
            failure = self.failing_completions.pop(0)
            raise failure if isinstance(failure, Exception) else KafkaError(failure)
        self.completed.append(transaction.transactional_id)


async def settled(brokers):
    async with asyncio.timeout(60):
        while brokers.sender.ending_count:
            await asyncio.sleep(0.05)


def test_markers_go_to_each_leader_and_the_transaction_is_completed_once():
    """TXN-6: with the coordinator epoch of the partition that decided."""

    async def scenario():
        brokers = Brokers(a=1, b=2, c=1)
        brokers.sender.send(0, prepared("one", A, B, C))
        await settled(brokers)
        (first,), (second,) = brokers.sent[1], brokers.sent[2]
        assert [topic.name for topic in first.markers[0].topics] == ["a", "c"]
        assert [topic.name for topic in second.markers[0].topics] == ["b"]
        assert (first.markers[0].coordinator_epoch, first.markers[0].producer_epoch) == (5, 3)
        assert first.markers[0].transaction_result is True
        assert brokers.completed == ["one"]

    run_virtual(scenario())


def test_leaders_are_sent_markers_in_the_order_of_the_partitions():
    """The order of a set of names differs from process to process; a seed's simulation must not."""

    async def scenario():
        names = "abcdefghijkl"
        brokers = Brokers(**{name: index for index, name in enumerate(names)})
        brokers.sender.send(0, prepared("one", *(TopicPartition(name, 0) for name in names)))
        await settled(brokers)
        assert list(brokers.sent) == list(range(len(names)))

    run_virtual(scenario())


def test_refused_markers_are_sent_again_to_whoever_leads_by_then():
    """TXN-6: retried for ever, each time looking the leader up."""

    async def scenario():
        brokers = Brokers(a=1, b=1)
        brokers.codes["a"] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3 + [ErrorCode.REQUEST_TIMED_OUT]
        brokers.codes["b"] = [OSError("gone")]
        brokers.sender.send(0, prepared("one", A, B))
        await asyncio.sleep(0.005)
        brokers.leaders[A] = 2
        await settled(brokers)
        assert len(brokers.sent[2]) == 4
        assert brokers.completed == ["one"]

    run_virtual(scenario())


def test_partition_without_a_leader_is_waited_for_and_one_that_is_gone_is_not():
    """TXN-6: a topic that was deleted needs no marker."""

    async def scenario():
        brokers = Brokers(a=-1)
        brokers.sender.send(0, prepared("one", A, B))
        await asyncio.sleep(5)
        assert brokers.completed == []
        brokers.leaders[A] = 1
        await settled(brokers)
        assert [m.topics[0].name for r in brokers.sent[1] for m in r.markers] == ["a"]
        assert brokers.completed == ["one"]

    run_virtual(scenario())


def test_nothing_to_mark_is_completed_at_once():
    async def scenario():
        brokers = Brokers()
        brokers.sender.send(0, prepared("one"))
        await settled(brokers)
        assert brokers.completed == ["one"]
        assert not brokers.sent

    run_virtual(scenario())


def test_who_is_told_that_somebody_newer_decides_stops():
    """TXN-6: codes 47 and 52; nothing is completed by who has no say."""

    async def scenario():
        for code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
            brokers = Brokers(a=1, b=2)
            brokers.codes["a"] = [code]
            brokers.sender.send(0, prepared("one", A, B))
            await settled(brokers)
            await asyncio.sleep(5)
            assert brokers.completed == []
            assert len(brokers.sent[1]) == 1

    run_virtual(scenario())


def test_forgotten_partition_sends_nothing_more_and_the_next_coordinator_begins_anew():
    async def scenario():
        brokers = Brokers(a=1)
        brokers.codes["a"] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        brokers.sender.send(0, prepared("one", A))
        await asyncio.sleep(0.02)
        brokers.sender.forget(0)
        before = len(brokers.sent[1])
        await asyncio.sleep(5)
        assert len(brokers.sent[1]) == before
        assert brokers.completed == []
        brokers.sender.send(0, prepared("one", A))
        await settled(brokers)
        assert brokers.completed == ["one"]

    run_virtual(scenario())


def test_many_transactions_share_requests_one_under_way_to_each_broker():
    async def scenario():
        brokers = Brokers(a=1)
        for number in range(1200):
            brokers.sender.send(0, prepared(f"id-{number}", A, producer_id=number))
        await settled(brokers)
        assert brokers.under_way_max == 1
        assert len(brokers.sent[1]) == 12
        assert len(brokers.completed) == 1200

    run_virtual(scenario())


def test_marker_under_way_is_not_sent_again_because_another_broker_fails():
    """TXN-6: of version 1, the second could end the next transaction of its producer."""

    async def scenario():
        brokers = Brokers(a=1, b=2)
        brokers.codes["a"] = [OSError("gone")] * 2
        brokers.slow_ms[2] = 500
        brokers.sender.send(0, prepared("one", A, B))
        await asyncio.sleep(0.6)
        await settled(brokers)
        await asyncio.sleep(5)
        assert len(brokers.sent[1]) == 3
        assert len(brokers.sent[2]) == 1
        assert brokers.completed == ["one"]

    run_virtual(scenario())


def test_fault_of_a_request_or_a_completion_does_not_end_the_sending(caplog):
    """TXN-6: a decided outcome is never given up, whatever happens on the way."""

    async def scenario():
        brokers = Brokers(a=1)
        brokers.codes["a"] = [ValueError("a response that cannot be read")]
        brokers.failing_completions = [ValueError("a fault")]
        brokers.sender.send(0, prepared("one", A))
        await settled(brokers)
        assert brokers.completed == ["one"]

    run_virtual(scenario())
    assert sum(record.exc_info is not None for record in caplog.records) == 2


def test_completion_that_fails_is_written_again():
    """TXN-6: retried on 15."""

    async def scenario():
        brokers = Brokers(a=1)
        brokers.failing_completions = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        brokers.sender.send(0, prepared("one", A))
        await settled(brokers)
        assert brokers.completed == ["one"]
        assert len(brokers.sent[1]) == 1

    run_virtual(scenario())
