"""Where records go without being told (PRD-3)."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from barnabas_client.cluster.metadata import PartitionMetadata, TopicMetadata
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.partitioner import (
    RoundRobinPartitioner,
    choose_sticky,
    partition_of_key,
)
from barnabas_client.producer.queues import KeptKeys, TopicQueues


def topic_of(leaders: list[int]) -> TopicMetadata:
    partitions = {
        number: PartitionMetadata(partition=number, leader_id=leader)
        for number, leader in enumerate(leaders)
    }
    return TopicMetadata(name="t", partitions=partitions)


def queues_of(leaders: list[int]) -> TopicQueues:
    return TopicQueues(topic_of(leaders), random.Random(1), KeptKeys(), {})


@pytest.mark.parametrize(
    ("key", "partition"),
    # Java: Utils.toPositive(Utils.murmur2(key)) % 100, from the hashes that Kafka's tests list.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_placed_by_the_hashes_that_java_has(key: bytes, partition: int) -> None:
    """A sign bit is masked, not subtracted."""
    assert partition_of_key(key, 100) == (partition & 0x7FFFFFFF) % 100


def test_a_key_stays_where_it_is_while_leaders_come_and_go() -> None:
    """The hash counts all partitions, available or not; only a new count moves keys."""
    queues = queues_of([1, -1, 1])
    keys = [b"%d" % number for number in range(50)]
    places = [queues.queue_of_key(key).partition for key in keys]
    queues.update(topic_of([-1, 1, 1]))
    assert [queues.queue_of_key(key).partition for key in keys] == places
    queues.update(topic_of([1, 1, 1, 1]))
    assert [queues.by_key.get(key) for key in keys] == [None] * 50
    assert [queues.queue_of_key(key).partition for key in keys] == [
        partition_of_key(key, 4) for key in keys
    ]


def test_what_is_remembered_of_keys_is_bounded() -> None:
    """Random keys must not fill the memory, nor long ones."""
    queues = queues_of([1, 1])
    for number in range(20_000):
        queues.queue_of_key(b"%d" % number)
    assert len(queues.by_key) <= 1 << 14
    queues.queue_of_key(b"k" * 1000)
    assert b"k" * 1000 not in queues.by_key


def test_round_robin_begins_anywhere_and_leaves_out_what_has_no_leader() -> None:
    """Classic behaviour; each topic has a turn of its own."""
    chooser = RoundRobinPartitioner(random.Random(4))
    turns = [chooser("a", None, b"", 3, [0, 1, 2]) for _ in range(6)]
    assert turns[:3] == turns[3:]
    assert sorted(turns[:3]) == [0, 1, 2]
    assert {chooser("b", b"key", b"", 4, [1, 3]) for _ in range(4)} == {1, 3}
    assert {chooser("c", None, b"", 2, []) for _ in range(2)} == {0, 1}


def test_busy_partitions_are_filled_less_often() -> None:
    """KIP-794: a slow broker's queue grows, so less goes there."""
    lengths = {0: 9, 1: 0, 2: 0, 3: 0}
    randomness = random.Random(2)
    chosen = Counter(
        choose_sticky(randomness, [0, 1, 2, 3], lengths.__getitem__) for _ in range(999)
    )
    assert chosen[0] == 0
    assert min(chosen[partition] for partition in (1, 2, 3)) > 200
    even = Counter(choose_sticky(randomness, [0, 1, 2, 3], lambda _: 0) for _ in range(1000))
    assert min(even.values()) > 180
    assert choose_sticky(randomness, [7], lambda _: 0) == 7


def sticky_batch(queues: TopicQueues, room_bytes: int) -> ProducerBatch:
    batch = ProducerBatch("t", 0, room_bytes=room_bytes, reserved_bytes=100, created_ms=0)
    queues.sticky.open_batch = batch
    queues.sticky_batch_begins(batch)
    return batch


def test_a_partition_is_kept_until_a_batch_worth_of_bytes_went_there() -> None:
    """KIP-794: batches that linger away half empty do not spread records thin."""
    queues = queues_of([1] * 50)
    first = queues.sticky
    half = sticky_batch(queues, 60)
    queues.sticky.open_batch = None
    queues.batch_ends(half)
    assert queues.sticky_for_new_batch(100) is first
    more = sticky_batch(queues, 40)
    queues.sticky.open_batch = None
    queues.batch_ends(more)
    assert queues.sticky_for_new_batch(100) is not first


def test_a_full_batch_moves_on_at_once() -> None:
    """The record at hand had no room."""
    queues = queues_of([1] * 50)
    first = queues.sticky
    sticky_batch(queues, 5)
    assert queues.sticky_for_new_batch(100) is not first


def test_a_partition_that_loses_its_leader_is_not_filled_any_more() -> None:
    """Unless none has one: then records wait for any of them."""
    queues = queues_of([1, 1])
    leaders = [1, 1]
    leaders[queues.sticky.partition] = -1
    queues.update(topic_of(leaders))
    assert queues.sticky.leader_id == 1
    queues.update(topic_of([-1, -1]))
    assert queues.sticky in queues.queues


def test_a_topic_made_anew_with_fewer_partitions_drops_the_others() -> None:
    """Nothing is put where nobody will ever take it; numbers begin anew with the new logs."""

    def made(topic_id: bytes, count: int) -> TopicMetadata:
        return replace(topic_of([1] * count), topic_id=topic_id)

    queues = TopicQueues(made(b"a" * 16, 4), random.Random(1), KeptKeys(), {})
    keys = [b"%d" % number for number in range(50)]
    former = {queues.queue_of_key(key) for key in keys}
    numbered = queues.queues[0].sequences
    queues.update(made(b"b" * 16, 2))
    assert [queue.partition for queue in queues.queues] == [0, 1]
    assert {queue.partition for queue in former if queue.is_gone} == {2, 3}
    assert {queues.queue_of_key(key).partition for key in keys} == {0, 1}
    assert not queues.sticky.is_gone
    assert queues.queues[0].sequences is numbered


def test_a_broker_that_knows_of_fewer_partitions_takes_none_away() -> None:
    """Partitions of one topic id are added and never removed: it has not heard of the others."""
    queues = queues_of([1, 1, 1])
    numbers = [queue.sequences for queue in queues.queues]
    queues.update(topic_of([1]))
    assert [queue.sequences for queue in queues.queues] == numbers
    assert [queue.leader_id for queue in queues.queues] == [1, -1, -1]
