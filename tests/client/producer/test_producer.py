"""The producer against brokers: Barnabas in `make test`, Apache Kafka too in `make interop`."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas_client.errors import (
    ClosedError,
    ConfigurationError,
    IllegalStateError,
    NotFoundError,
    RecordTooLargeError,
    SerializationError,
    UsageError,
)
from barnabas_client.producer import Delivery, Producer, RecordMetadata
from barnabas_client.producer.interceptors import ProducerRecord
from barnabas_client.producer.partitioner import RoundRobinPartitioner
from barnabas_protocol.hashing import murmur2
from tests.client.producer.reading import read_all

Unique = Callable[[str], str]


def values_of(found: dict[int, list[Any]]) -> list[bytes]:
    return sorted(record.value for records in found.values() for record in records)


async def done_within(seconds: float, work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(seconds):
        return await work


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_kind_arrive_as_they_were_sent(
    bootstrap: str, unique: Unique, codec: str
) -> None:
    """Nulls, empty and large values, headers, timestamps, through each codec."""
    topic = unique("kinds")

    async def run() -> None:
        async with Producer(bootstrap, compression_type=codec) as producer:
            sent = [
                producer.send(topic, None, key=b"tombstone", partition=0, timestamp_ms=1_000),
                producer.send(topic, b"", partition=0, timestamp_ms=2_000),
                producer.send(topic, "ü" * 300, key="", partition=0, timestamp_ms=500),
                producer.send(
                    topic, b"v" * 50_000, partition=0, headers=[("a", b"1"), ("a", None)]
                ),
                producer.send(topic, bytearray(b"copied"), partition=0),
            ]
            metadata = await asyncio.gather(*sent)
        found = (await read_all(bootstrap, topic))[0]
        assert [record.value for record in found] == [
            None,
            b"",
            ("ü" * 300).encode(),
            b"v" * 50_000,
            b"copied",
        ]
        assert [record.key for record in found] == [b"tombstone", None, b"", None, None]
        assert found[3].headers == (("a", b"1"), ("a", None))
        assert [record.offset for record in found] == [m.offset for m in metadata]
        assert [record.timestamp for record in found] == [m.timestamp_ms for m in metadata]
        assert [record.timestamp for record in found[:3]] == [1_000, 2_000, 500]
        assert metadata[0] == RecordMetadata(topic, 0, 0, 1_000, 9, -1)
        assert metadata[3].serialized_value_bytes == 50_000

    asyncio.run(run())


def test_many_records_arrive_once_and_in_order_per_partition(
    bootstrap: str, unique: Unique
) -> None:
    """The fast loop of the documentation; small batches make many requests of it (PRD-8)."""
    topic, count = unique("many"), 20_000

    async def run() -> None:
        async with Producer(bootstrap, batch_size=2000, linger_ms=1) as producer:
            for number in range(count):
                producer.send(topic, b"%d" % number)
                await producer.drain()
        found = await read_all(bootstrap, topic)
        numbers = [[int(record.value or b"") for record in records] for records in found.values()]
        assert sorted(number for part in numbers for number in part) == list(range(count))
        assert all(partition == sorted(partition) for partition in numbers)
        assert all(numbers), "batches of records without keys go to all partitions in turn (PRD-3)"

    asyncio.run(run())


def test_keys_go_where_java_puts_them(bootstrap: str, unique: Unique) -> None:
    """PRD-3: murmur2, mask, modulo; the same key always to the same partition."""
    topic = unique("keyed")

    async def run() -> None:
        async with Producer(bootstrap) as producer:
            keys = [b"key-%d" % number for number in range(50)] * 2 + [b"k" * 100]
            metadata = await asyncio.gather(*[producer.send(topic, b"v", key=key) for key in keys])
            count = len(await producer.partitions_for(topic))
        expected = [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]
        assert [entry.partition for entry in metadata] == expected

    asyncio.run(run())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_delivers(bootstrap: str, unique: Unique, acks: int | str) -> None:
    """PRD-7: acks=0 is done when it is written, with no offset to tell."""
    topic = unique("acks")

    async def run() -> None:
        async with Producer(bootstrap) as producer:
            # With acks=0 nobody would tell that a leader was not ready yet.
            await producer.send(topic, b"first", partition=0)
        async with Producer(bootstrap, acks=acks, enable_idempotence=acks == "all") as producer:
            metadata = [await producer.send(topic, b"%d" % n, partition=0) for n in range(3)]
            await producer.flush()
        offsets = [-1, -1, -1] if acks == 0 else [1, 2, 3]
        assert [entry.offset for entry in metadata] == offsets
        found: dict[int, list[Any]] = {}
        async with asyncio.timeout(20):
            while len(values_of(found)) < 4:
                found = await read_all(bootstrap, topic)
        assert values_of(found) == [b"0", b"1", b"2", b"first"]

    asyncio.run(run())


def test_what_cannot_be_sent_is_refused_at_once(bootstrap: str, unique: Unique) -> None:
    """PRD-2: argument errors raise from `send`, and the producer goes on."""
    topic = unique("refused")

    async def run() -> None:
        async with Producer(bootstrap, max_request_size=10_000) as producer:
            with pytest.raises(RecordTooLargeError, match="max_request_size=10000"):
                producer.send(topic, b"v" * 10_000)
            with pytest.raises(SerializationError, match=r"value for topic .* is a dict"):
                producer.send(topic, {"a": 1})
            with pytest.raises(SerializationError, match="key for topic"):
                producer.send(topic, b"v", key=7)
            with pytest.raises(UsageError, match="header"):
                producer.send(topic, b"v", headers=[("name", 7)])  # type: ignore[list-item]
            with pytest.raises(UsageError, match="partition -1"):
                producer.send(topic, b"v", partition=-1)
            assert (await producer.send(topic, b"v" * 9_000)).offset == 0
            with pytest.raises(NotFoundError, match="no partition 99"):
                await producer.send(topic, b"v", partition=99)
        with pytest.raises(ClosedError):
            producer.send(topic, b"v")

    asyncio.run(run())


def test_a_topic_that_is_too_small_for_a_batch_gets_it_in_parts(
    bootstrap: str, unique: Unique
) -> None:
    """PRD-8: the broker's limit is below `max_request_size`: split what can be, fail the rest."""
    topic = unique("parts")

    async def run() -> None:
        settings: dict[str, Any] = {"batch_size": 3_000_000, "max_request_size": 4_000_000}
        async with Producer(bootstrap, linger_ms=100, **settings) as producer:
            await producer.partitions_for(topic)
            sent = [producer.send(topic, b"%d" % n * 200_000, partition=0) for n in range(10)]
            await producer.flush()
            assert [delivery.result().offset for delivery in sent] == list(range(10))
            with pytest.raises(RecordTooLargeError):
                await producer.send(topic, b"v" * 2_000_000, partition=0)
            # The number of the refused record is not missed.
            assert (await producer.send(topic, b"after", partition=0)).offset == 10

    asyncio.run(run())


def test_a_full_buffer_slows_down_and_loses_nothing(bootstrap: str, unique: Unique) -> None:
    """PRD-4, PRD-5: exhausted memory makes everything ready; `drain` waits for room."""
    topic = unique("full")

    async def run() -> None:
        settings: dict[str, Any] = {"buffer_memory": 40_000, "batch_size": 10_000}
        async with Producer(bootstrap, linger_ms=60_000, request_timeout_ms=1000, **settings) as p:
            for number in range(2000):
                p.send(topic, b"%d" % number + b"." * 100, partition=number % 4)
                await p.drain()
            assert p.buffered_bytes <= 40_000
            await p.flush()
            assert p.buffered_bytes == 0
        found = await read_all(bootstrap, topic)
        assert len(values_of(found)) == 2000

    asyncio.run(run())


def test_flush_waits_for_what_was_sent_and_close_for_the_rest(
    bootstrap: str, unique: Unique
) -> None:
    """PRD-11, with a linger that would keep records for a minute."""
    topic = unique("flush")

    async def run() -> None:
        producer = Producer(bootstrap, linger_ms=60_000)
        await producer.start()
        first = producer.send(topic, b"1")
        await done_within(20, producer.flush())
        assert first.done()
        second = producer.send(topic, b"2")
        assert not second.done()
        await done_within(20, producer.close())
        assert second.result().topic == topic
        await producer.close()
        assert values_of(await read_all(bootstrap, topic)) == [b"1", b"2"]

    asyncio.run(run())


async def wait_for(delivery: Delivery) -> RecordMetadata:
    return await delivery


def test_promises_can_be_awaited_gathered_cancelled_and_called_back(
    bootstrap: str, unique: Unique
) -> None:
    """PRD-10: callbacks come in the order of offsets; a cancelled wait is not a cancelled send."""
    topic = unique("promises")

    async def run() -> None:
        called: list[int] = []
        async with Producer(bootstrap) as producer:
            sent = [producer.send(topic, b"%d" % n, partition=0) for n in range(5)]
            for delivery in reversed(sent):
                delivery.add_done_callback(lambda done: called.append(done.result().offset))
            waiting = asyncio.create_task(wait_for(sent[0]))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(asyncio.InvalidStateError):
                sent[4].result()
            first, *_ = await asyncio.gather(*sent)
            assert first.offset == 0
            assert called == [0, 1, 2, 3, 4]
            assert await sent[0] == first, "awaiting again gives the same"
            late: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
            sent[0].add_done_callback(late.set_result)
            assert (await late) is sent[0]
            assert "acknowledged" in repr(sent[0])

    asyncio.run(run())


def test_asyncio_takes_promises_for_futures(bootstrap: str, unique: Unique) -> None:
    """No task is made of each; one that is cancelled is sent all the same."""
    topic = unique("futures")

    async def run() -> None:
        async with Producer(bootstrap, linger_ms=60_000) as producer:
            await producer.partitions_for(topic)
            sent = [producer.send(topic, b"%d" % n, partition=0) for n in range(4)]
            assert all(asyncio.isfuture(delivery) for delivery in sent)
            with pytest.raises(TimeoutError):
                # Cancels the promise itself until Python 3.11, later the task that awaits it.
                await asyncio.wait_for(sent[0], 0.01)
            assert sent[1].cancel()
            assert sent[1].done()
            with pytest.raises(asyncio.CancelledError):
                await sent[1]
            gathered = asyncio.gather(sent[2], sent[3])
            await producer.flush()
            assert [metadata.offset for metadata in await gathered] == [2, 3]
            assert not sent[2].cancel()
            done, pending = await asyncio.wait(sent)
            assert (len(done), len(pending)) == (4, 0)
        assert values_of(await read_all(bootstrap, topic)) == [b"0", b"1", b"2", b"3"]

    asyncio.run(run())


def test_serializers_and_interceptors_see_every_record(bootstrap: str, unique: Unique) -> None:
    """PRD-10: in order, each with what the one before made; their exceptions change nothing."""
    topic = unique("seen")
    seen: list[object] = []

    class Adding:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value={**record.value, "added": True})

    class Failing:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("of no consequence")

        def on_acknowledgement(self, metadata: object, error: object) -> None:
            raise RuntimeError("of no consequence")

    class Watching:
        def on_acknowledgement(self, metadata: object, error: object) -> None:
            seen.append(metadata if error is None else type(error))

    async def run() -> None:
        async with Producer(
            bootstrap,
            key_serializer=str.encode,
            value_serializer=lambda value: json.dumps(value).encode(),
            interceptors=[Adding(), Failing(), Watching()],
        ) as producer:
            delivery = producer.send(topic, {"n": 1}, key="k")
            delivery.add_done_callback(lambda done: seen.append("callback"))
            metadata = await delivery
            with pytest.raises(SerializationError, match=r"key serializer str\.encode failed"):
                producer.send(topic, {"n": 1}, key=7)
            assert seen == [metadata, "callback", SerializationError]
        assert values_of(await read_all(bootstrap, topic)) == [b'{"n": 1, "added": true}']

    asyncio.run(run())


def test_partitioners_can_be_chosen(bootstrap: str, unique: Unique) -> None:
    """Round robin, any function, and the refusal of what is no partition (PRD-3)."""
    topic = unique("chosen")

    async def run() -> None:
        async with Producer(bootstrap, partitioner=RoundRobinPartitioner()) as producer:
            sent = [await producer.send(topic, b"v", key=b"same") for _ in range(8)]
        assert sorted(entry.partition for entry in sent) == [0, 0, 1, 1, 2, 2, 3, 3]
        async with Producer(bootstrap, partitioner=lambda *given: 2) as producer:
            assert (await producer.send(topic, b"v")).partition == 2
        async with Producer(bootstrap, partitioner=lambda *given: 4) as producer:
            with pytest.raises(UsageError, match="partition 4"):
                await producer.send(topic, b"v")
        async with Producer(bootstrap, partitioner_ignore_keys=True, linger_ms=200) as producer:
            await producer.partitions_for(topic)
            same = [producer.send(topic, b"v", key=b"%d" % n) for n in range(20)]
            await producer.flush()
            assert len({delivery.result().partition for delivery in same}) == 1

    asyncio.run(run())


def test_a_producer_says_how_it_is_to_be_used(bootstrap: str) -> None:
    """Wrong settings and calls out of order name what to do (PRD-9)."""
    with pytest.raises(ConfigurationError, match="acks"):
        Producer(bootstrap, acks=1)
    producer = Producer(bootstrap)
    with pytest.raises(IllegalStateError, match="start"):
        producer.send("t", b"v")

    async def run() -> None:
        async with producer:
            with pytest.raises(IllegalStateError, match="transactional_id"):
                await producer.begin_transaction()
            await producer.start()  # does nothing, as with consumer and admin
        with pytest.raises(ClosedError):
            await producer.start()

    asyncio.run(run())
