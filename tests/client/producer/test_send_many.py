"""`Producer.send_many`: the same as `send` one by one, and much faster."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.errors import ClosedError, NotFoundError, RecordTooLargeError, UsageError
from barnabas_client.producer import Producer
from barnabas_client.producer.delivery import Deliveries, DeliveryGroup
from barnabas_client.producer.key_columns import partitions_of_keys
from barnabas_client.producer.partitioner import RoundRobinPartitioner, partition_of_key
from tests.client.producer.reading import read_all

pa = pytest.importorskip("pyarrow")

Unique = Callable[[str], str]
COUNT = 20_000


def by_partition(found: dict[int, list[Any]]) -> dict[int, list[tuple[Any, ...]]]:
    return {
        number: [(each.key, each.value, each.timestamp, each.headers) for each in records]
        for number, records in found.items()
    }


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_plain_records_of_one_partition_arrive_in_order(
    bootstrap: str, unique: Unique, codec: str
) -> None:
    """Hundreds of batches; a value of every size, so that the room is used to the last byte."""
    topic = unique("bulk")
    keys = [b"%d" % number for number in range(COUNT)]
    values = [b"v" * (number % 300) for number in range(COUNT)]
    times = [1_000_000 + number for number in range(COUNT)]

    async def run() -> None:
        async with Producer(bootstrap, compression_type=codec) as producer:
            await producer.send(topic, b"first", key=b"", partition=0, timestamp_ms=5)
            deliveries = await producer.send_many(
                topic, values, keys=keys, partition=0, timestamps_ms=times
            )
            assert await deliveries == COUNT
            assert deliveries.done()
        found = (await read_all(bootstrap, topic))[0]
        assert [record.key for record in found] == [b"", *keys]
        assert [record.value for record in found] == [b"first", *values]
        assert [record.timestamp for record in found] == [5, *times]

    asyncio.run(run())


def test_records_without_keys_fill_all_partitions(bootstrap: str, unique: Unique) -> None:
    """The sticky partition changes with every batch, as it does in `send`."""
    topic = unique("spread")
    values = [b"%06d" % number for number in range(COUNT)]

    async def run() -> dict[int, list[Any]]:
        async with Producer(bootstrap, batch_size=2_000) as producer:
            await (await producer.send_many(topic, values))
        return await read_all(bootstrap, topic)

    found = asyncio.run(run())
    assert sorted(record.value for records in found.values() for record in records) == values
    assert all(records for records in found.values())
    for records in found.values():
        assert [record.value for record in records] == sorted(record.value for record in records)


def test_records_of_all_kinds_are_sent_one_by_one(bootstrap: str, unique: Unique) -> None:
    """Nulls, text, headers and keys without a partition: slower, and the same as `send`."""
    topic = unique("kinds")
    values = [None, "text", b"bytes", bytearray(b"copied")]
    keys = [b"tombstone", None, "key", b"other"]
    headers: list[Sequence[tuple[str, bytes | None]]] = [(), [("a", b"1"), ("a", None)], (), ()]

    async def run() -> dict[int, list[Any]]:
        async with Producer(bootstrap) as producer:
            sent = await producer.send_many(
                topic, values, keys=keys, timestamps_ms=[1, 2, 3, 4], headers=headers
            )
            assert await sent == 4
        return await read_all(bootstrap, topic)

    found = asyncio.run(run())
    records = [record for rows in by_partition(found).values() for record in rows]
    assert sorted(records, key=lambda row: row[2]) == [
        (b"tombstone", None, 1, ()),
        (None, b"text", 2, (("a", b"1"), ("a", None))),
        (b"key", b"bytes", 3, ()),
        (b"other", b"copied", 4, ()),
    ]


def test_a_partitioner_is_asked_for_every_record(bootstrap: str, unique: Unique) -> None:
    """What makes `send` take its long way does so here, too."""
    topic = unique("round-robin")

    async def run() -> dict[int, list[Any]]:
        async with Producer(bootstrap, partitioner=RoundRobinPartitioner()) as producer:
            await (await producer.send_many(topic, [b"value"] * 100))
        return await read_all(bootstrap, topic)

    sizes = [len(records) for records in asyncio.run(run()).values()]
    assert sum(sizes) == 100
    assert max(sizes) - min(sizes) <= 1


def test_more_than_the_memory_holds_is_sent_piece_by_piece(bootstrap: str, unique: Unique) -> None:
    """`send_many` waits for room, so a caller may give it any number of records."""
    topic = unique("memory")

    async def run() -> int:
        async with Producer(bootstrap, buffer_memory=100_000, batch_size=10_000) as producer:
            sent = await producer.send_many(topic, [b"v" * 1_000] * 3_000, partition=0)
            return await sent

    assert asyncio.run(run()) == 3_000


def test_what_cannot_be_sent_is_said(bootstrap: str, unique: Unique) -> None:
    """A record too large, a partition that is not there, columns of two lengths, a closed one."""
    topic = unique("errors")

    async def run() -> None:
        async with Producer(bootstrap, max_block_ms=3_000) as producer:
            with pytest.raises(RecordTooLargeError):
                await producer.send_many(topic, [b"small", b"v" * (1 << 21)], partition=0)
            missing = await producer.send_many(topic, [b"value"] * 3, partition=999)
            with pytest.raises(NotFoundError, match="no partition 999"):
                await missing
            with pytest.raises(UsageError, match="1 keys for 2 values"):
                await producer.send_many(topic, [b"a", b"b"], keys=[b"k"])
            with pytest.raises(UsageError, match="before 1970"):
                await producer.send_many(topic, [b"a"], timestamps_ms=[-5])
            assert await (await producer.send_many(topic, [])) == 0
        with pytest.raises(ClosedError):
            await producer.send_many(topic, [b"late"])

    asyncio.run(run())


def test_the_failure_of_a_part_of_a_split_batch_is_seen() -> None:
    """Records move into other batches; the promise follows each of them."""

    async def run() -> None:
        whole, first, second = (DeliveryGroup("topic", 0) for _ in range(3))
        deliveries = Deliveries(10)
        deliveries.add(whole)
        deliveries.add(whole)
        whole.move([(0, first, 0), (5, second, 0)])
        waiting = asyncio.ensure_future(_awaited(deliveries))
        await asyncio.sleep(0)
        first.finish(0, -1)
        assert not deliveries.done()
        second.fail(RecordTooLargeError("too large"))
        with pytest.raises(RecordTooLargeError):
            await waiting
        assert deliveries.done()

    asyncio.run(run())


async def _awaited(deliveries: Deliveries) -> int:
    return await deliveries


@given(
    st.lists(st.none() | st.binary(max_size=40), max_size=30),
    st.integers(min_value=1, max_value=1000),
    st.integers(min_value=0, max_value=3),
)
def test_keys_in_columns_go_where_single_ones_go(
    keys: list[bytes | None], partition_count: int, skipped: int
) -> None:
    """Two producers of one topic must agree on the partition of a key, however they hash it."""
    column = pa.array(keys, pa.binary())[skipped:]
    expected = [-1 if key is None else partition_of_key(key, partition_count) for key in keys]
    assert partitions_of_keys(column, partition_count).tolist() == expected[skipped:]
