"""An idempotent producer whose first batches were refused has to repeat them in order."""

from __future__ import annotations

import pytest

from barnabas_broker.replication.leader.refused_batches import REFUSED_MAX, RefusedBatches
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.replication.led_partition import Leader, lead
from tests.support.replica_nodes import TOPIC_ID, TP

NEW_TOPIC = TopicPartition("new", 0)
PRODUCER = 7


def batch(sequence: int, *, producer_id: int = PRODUCER, producer_epoch: int = 0) -> memoryview:
    encoded = encode_batch(
        [Record(0, 1_700_000_000_000, None, b"v")],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )
    return memoryview(bytearray(encoded))


def send(leader: Leader, sequence: int, place: TopicPartition = TP, **producer: int) -> ErrorCode:
    """What a Produce request with one batch is answered; ids stand for a topic without a name."""
    codes: list[ErrorCode] = []
    leader.node.replicas.leader_append.produce(
        [(place, TOPIC_ID, batch(sequence, **producer))],
        acks=1,
        timeout_ms=1_000,
        now_ms=leader.node.clock.wall_ms(),
        done=lambda results: codes.extend(
            ErrorCode.NONE if one.error is None else one.error.code for one in results
        ),
    )
    leader.node.turn.finish()
    return codes[0]


@pytest.mark.parametrize("place", [TP, TopicPartition("", TP.partition)])
def test_what_follows_a_refused_batch_is_refused_until_that_comes_again(
    place: TopicPartition,
) -> None:
    """The leadership comes between two requests under way: the second must not be the first."""

    async def test(leader: Leader) -> None:
        await leader.state(0, 1, 2, leader=1, leader_epoch=1)
        refused = ErrorCode.UNKNOWN_TOPIC_ID if not place.topic else None
        assert send(leader, 0, place) == (refused or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await leader.state(0, 1, 2, leader=0, leader_epoch=2)
        assert send(leader, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(leader, 0, producer_id=PRODUCER + 1) == ErrorCode.NONE
        assert [send(leader, sequence) for sequence in (0, 1, 2)] == [ErrorCode.NONE] * 3

    lead(test)


def test_a_new_epoch_of_the_producer_begins_anew() -> None:
    """KIP-360: it has given the refused records up, and says so."""

    async def test(leader: Leader) -> None:
        await leader.state(0, 1, 2, leader=1, leader_epoch=1)
        send(leader, 3)
        await leader.state(0, 1, 2, leader=0, leader_epoch=2)
        assert send(leader, 5, producer_epoch=1) == ErrorCode.NONE
        assert send(leader, 6, producer_epoch=1) == ErrorCode.NONE

    lead(test)


def test_where_nothing_was_refused_any_first_sequence_will_do() -> None:
    """KIP-360: the producer's state may have expired."""

    async def test(leader: Leader) -> None:
        assert send(leader, 9) == ErrorCode.NONE

    lead(test)


def test_only_so_many_refusals_are_remembered() -> None:
    """Whoever sends batches for topics that do not exist must not fill the memory."""
    refused = RefusedBatches()
    for producer_id in range(2 * REFUSED_MAX):
        refused.note(NEW_TOPIC, TOPIC_ID, batch(0, producer_id=producer_id), None)
    assert len(refused.by_producer) == REFUSED_MAX

    async def test(leader: Leader) -> None:
        partition: Partition = leader.partition
        refused.note(TP, TOPIC_ID, batch(0, producer_id=1), partition)
        with pytest.raises(KafkaError, match="sequence 1"):
            refused.check(partition, batch(1, producer_id=1))

    lead(test)


def test_what_is_no_batch_of_an_idempotent_producer_is_not_remembered() -> None:
    refused = RefusedBatches()
    for records in (None, memoryview(b""), memoryview(b"\x00" * 40), batch(-1, producer_id=-1)):
        refused.note(NEW_TOPIC, TOPIC_ID, records, None)
    assert not refused.by_producer


def test_a_failover_leaves_nothing_behind_of_producers_that_the_replica_knows() -> None:
    """What is remembered is compared with every batch, so it must not pile up."""

    async def test(leader: Leader) -> None:
        assert send(leader, 0) == ErrorCode.NONE
        await leader.state(0, 1, 2, leader=1, leader_epoch=1)
        assert send(leader, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not leader.node.replicas.leader_append._refused_batches.by_producer
        await leader.state(0, 1, 2, leader=0, leader_epoch=2)
        assert send(leader, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [send(leader, sequence) for sequence in (1, 2)] == [ErrorCode.NONE] * 2

    lead(test)
