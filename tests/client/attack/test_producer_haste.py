"""A producer in the hands of someone in a hurry: each mistake is one line that says what to do."""

import asyncio
import logging
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client import Producer
from barnabas_client.errors import (
    BarnabasError,
    BufferFullError,
    ClosedError,
    FencedError,
    IllegalStateError,
    SerializationError,
    UsageError,
)
from tests.client.producer.one_broker import QUICK, TOPIC, cluster
from tests.support.in_process_broker import eventually
from tests.support.scripted_broker import SILENCE

Names = Callable[[str], str]


class Whole:
    """A number that is no int, as numpy has them."""

    def __index__(self) -> int:
        return 1


MISTAKES: list[tuple[dict[str, Any], type[BarnabasError], str]] = [
    ({"timestamp_ms": 1.5}, UsageError, "timestamp_ms=1.5 is not a whole number"),
    ({"timestamp_ms": -1}, UsageError, "lies before 1970"),
    ({"timestamp_ms": 1 << 60}, UsageError, "too large"),
    ({"partition": "0"}, UsageError, "partition='0' is not a whole number"),
    ({"partition": -1}, UsageError, "partitions count from 0"),
    ({"value": {"a": 1}}, SerializationError, "set value_serializer"),
    ({"value": "\ud800"}, SerializationError, "UTF-8"),
    ({"key": 5}, SerializationError, "set key_serializer"),
    ({"headers": {"a": b"b"}}, UsageError, "a header is"),
    ({"headers": [("a", "\ud800")]}, SerializationError, "UTF-8"),
    ({"headers": [("\ud800", b"")]}, SerializationError, "UTF-8"),
    ({"topic": b"bytes"}, UsageError, "a topic name is text"),
    ({"topic": None}, UsageError, "a topic name is text"),
    ({"topic": ""}, UsageError, "1 to 249 letters"),
    ({"topic": "two words"}, UsageError, "no topic can be called 'two words'"),
    ({"topic": "\ud800"}, UsageError, "no topic can be called"),
    ({"topic": ".."}, UsageError, "no topic can be called"),
]


def test_a_wrong_argument_is_refused_and_harms_nothing_else(bootstrap: str, unique: Names) -> None:
    """A fraction as timestamp ended the producer, a topic in bytes all metadata, for good."""

    async def attack() -> None:
        topic = unique("haste")
        async with Producer(bootstrap, linger_ms=20) as producer:
            promises = [producer.send(topic, b"before")]
            for _ in range(2):  # with and without an open batch for the topic
                for change, kind, text in MISTAKES:
                    arguments = {"topic": topic, "value": b"v", **change}
                    with pytest.raises(kind, match=re.escape(text)) as caught:
                        producer.send(**arguments)
                    assert "\n" not in str(caught.value)
                await promises[0]
                promises += [producer.send(topic, b"open", partition=n) for n in range(4)]
            promises.append(producer.send(topic, b"", partition=Whole(), timestamp_ms=Whole()))  # type: ignore[arg-type]
            assert (await promises[-1]).partition == 1
            await asyncio.gather(*promises)
            with pytest.raises(UsageError, match="a topic name is text"):
                await producer.partitions_for(b"x")  # type: ignore[arg-type]

    asyncio.run(attack())


def test_calls_at_the_wrong_time_say_so(bootstrap: str) -> None:
    """Forgotten start, and use after close; closing twice, or without a start, is fine."""

    async def attack() -> None:
        producer = Producer(bootstrap)
        with pytest.raises(IllegalStateError, match=r"start\(\)"):
            producer.send("topic", b"")
        with pytest.raises(IllegalStateError, match=r"start\(\)"):
            await producer.flush()
        await producer.start()
        await asyncio.gather(producer.close(), producer.close())
        with pytest.raises(ClosedError):
            producer.send("topic", b"")
        with pytest.raises(ClosedError):
            await producer.flush()
        with pytest.raises(ClosedError):
            await producer.start()
        await Producer(bootstrap).close()

    asyncio.run(attack())


def broken(*_: Any) -> Any:
    raise RuntimeError("of the program's own")


def test_whatever_a_callback_raises_the_producer_goes_on(
    bootstrap: str, unique: Names, caplog: pytest.LogCaptureFixture
) -> None:
    """Serializers and partitioners fail their record; interceptors and callbacks are logged.

    A callback that met a cancellation used to leave the other records of its batch unsettled.
    """

    async def attack() -> None:
        topic = unique("haste")
        async with Producer(bootstrap, value_serializer=broken) as producer:
            with pytest.raises(SerializationError, match="the value serializer broken failed"):
                producer.send(topic, 1)
        for partitioner in (broken, lambda *_: "0", lambda *_: 99):
            async with Producer(bootstrap, partitioner=partitioner) as producer:
                with pytest.raises(UsageError, match="the partitioner"):
                    await producer.send(topic, b"1")
                with pytest.raises(UsageError, match="the partitioner"):
                    producer.send(topic, b"2")

        told: list[Any] = []

        class Interceptor:
            def on_send(self, record: Any) -> Any:
                raise RuntimeError("of the program's own")

            def on_acknowledgement(self, metadata: Any, error: Any) -> None:
                told.append((metadata, error))
                raise RuntimeError("of the program's own")

        async with Producer(bootstrap, interceptors=[Interceptor()], linger_ms=20) as producer:
            promises = [producer.send(topic, b"%d" % n, partition=0) for n in range(5)]
            promises[1].cancel()
            promises[2].add_done_callback(lambda _: promises[1].result())
            promises[2].add_done_callback(broken)
            assert [(await promises[n]).offset for n in (0, 2, 3, 4)] == [0, 2, 3, 4]
            await producer.flush()
        assert sorted(metadata.offset for metadata, _ in told) == [0, 1, 2, 3, 4]

    with caplog.at_level(logging.CRITICAL, "barnabas_client"):
        asyncio.run(attack())


def test_records_may_be_sent_from_callbacks(bootstrap: str, unique: Names) -> None:
    """Re-entrancy: a callback that sends the next record never overtakes nor loses one."""

    async def attack() -> None:
        topic = unique("haste")
        async with Producer(bootstrap, linger_ms=0) as producer:
            done = asyncio.get_running_loop().create_future()
            offsets: list[int] = []

            def next_one(delivery: Any) -> None:
                offsets.append(delivery.result().offset)
                if len(offsets) < 100:
                    producer.send(topic, b"v", partition=0).add_done_callback(next_one)
                else:
                    done.set_result(None)

            producer.send(topic, b"v", partition=0).add_done_callback(next_one)
            await asyncio.wait_for(done, 20)
            assert offsets == list(range(100))

    asyncio.run(attack())


@pytest.mark.parametrize("drains", [False, True])
def test_memory_stays_bounded_while_the_broker_is_silent(drains: bool) -> None:
    """`send` refuses, or `drain` waits, before small records take many times buffer_memory."""
    buffer_memory = 1 << 18

    async def fill(producer: Producer) -> None:
        while True:
            producer.send(TOPIC, b"v")
            await producer.drain()

    async def attack() -> None:
        settings: dict[str, Any] = {"buffer_memory": buffer_memory, "max_block_ms": 60_000}
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, request_timeout_ms=30_000, **QUICK, **settings) as p,
        ):

            async def is_backlogged() -> bool:
                return p.internals.admission.is_backlogged

            await p.send(TOPIC, b"0")
            node.next_answers = [SILENCE] * 100
            tracemalloc.start()
            try:
                if drains:
                    filling = asyncio.ensure_future(fill(p))
                    await eventually(is_backlogged)
                    assert not filling.done()
                    filling.cancel()
                    await asyncio.wait([filling])
                else:
                    with pytest.raises(BufferFullError):
                        while True:
                            p.send(TOPIC, b"v")
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak_bytes < 12 * buffer_memory
            assert p.internals.admission.is_backlogged
            await p.close(0)

    with_logging_off = logging.getLogger("barnabas_client.producer.delivery")
    with_logging_off.disabled = True
    try:
        asyncio.run(attack())
    finally:
        with_logging_off.disabled = False


def test_who_drains_goes_on_when_nothing_may_be_sent_any_more() -> None:
    """When the producer gives up, as one that was fenced does: `drain` used to wait forever."""

    async def attack() -> None:
        settings: dict[str, Any] = {"buffer_memory": 3000, "batch_size": 1000}
        async with cluster() as (node,), Producer(node.broker.bootstrap, **QUICK, **settings) as p:
            await p.send(TOPIC, b"0")
            node.next_answers = [SILENCE] * 6
            promises = []
            while not p.internals.admission.is_backlogged:
                promises.append(p.send(TOPIC, b"v" * 400))
                await asyncio.sleep(0)
            waiting = asyncio.ensure_future(p.drain())
            await asyncio.sleep(0)
            assert not waiting.done()
            p.internals.sender.abort_incomplete_batches(
                FencedError("another producer has taken over")
            )
            await asyncio.wait_for(waiting, 20)
            results = await asyncio.gather(*promises, return_exceptions=True)
            assert all(isinstance(result, FencedError) for result in results)

    asyncio.run(attack())


def test_a_second_close_may_shorten_the_first() -> None:
    """PRD-11: who loses patience while the broker is silent is not held up by the first call."""

    async def attack() -> None:
        async with cluster() as (node,):
            producer = Producer(node.broker.bootstrap, **QUICK)
            await producer.start()
            await producer.send(TOPIC, b"0")
            node.next_answers = [SILENCE] * 6
            promise = producer.send(TOPIC, b"1")
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await producer.close(10)
                await closing
            with pytest.raises(ClosedError):
                await promise

    asyncio.run(attack())


def test_a_program_that_ends_without_close_is_told_what_it_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The loop cancels the sender then; the records used to vanish without a word."""

    async def attack() -> None:
        async with cluster() as (node,):
            producer = Producer(node.broker.bootstrap, **{**QUICK, "linger_ms": 500})
            await producer.start()
            await producer.send(TOPIC, b"0")
            for _ in range(3):
                producer.send(TOPIC, b"1")
            sending = producer.internals.sender_task
            sending.cancel()
            await asyncio.wait([sending])
            await producer.close(0)

    with caplog.at_level(logging.ERROR, "barnabas_client"):
        asyncio.run(attack())
    assert "so 3 records may be lost" in caplog.text
