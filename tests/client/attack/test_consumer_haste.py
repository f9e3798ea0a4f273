"""A consumer in the hands of someone in a hurry, and the record in the hands of whoever leaves."""

import asyncio
import logging
import re
from collections.abc import Callable, Collection
from typing import Any

import pytest

from barnabas_client import Consumer, Producer, RebalanceListener, TopicPartition
from barnabas_client.errors import (
    AuthorizationError,
    ClosedError,
    ConfigurationError,
    IllegalStateError,
    RetriableError,
    TimedOutError,
    UsageError,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from tests.support.scripted_broker import SILENCE, scripted_brokers

Names = Callable[[str], str]
GROUP: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "group_protocol": "classic",
    "fetch_max_wait_ms": 20,
}


async def fill(bootstrap: str, topic: str, count: int = 10) -> TopicPartition:
    """Write records to partition 0."""
    async with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)
        await producer.flush()
    return TopicPartition(topic, 0)


async def committed(bootstrap: str, group: str, partition: TopicPartition) -> int | None:
    async with Consumer(bootstrap, group_id=group) as consumer:
        found = (await consumer.committed([partition]))[partition]
    return None if found is None else found.offset


async def read(consumer: Consumer, count: int) -> None:
    """Take records and leave the loop with the last of them in hand."""
    async for _ in consumer:
        count -= 1
        if not count:
            break


def test_who_leaves_the_block_in_order_has_processed_the_record_in_hand(
    bootstrap: str, unique: Names
) -> None:
    """CON-8: after `break` and the end of `async with`; not so after an exception."""

    async def attack() -> None:
        partition = await fill(bootstrap, unique("hand"))

        async def offset_after(leave: Callable[[Consumer], Any], *, subscribes: bool) -> int | None:
            group = unique("group")
            try:
                async with Consumer(bootstrap, group_id=group, **GROUP) as consumer:
                    if subscribes:
                        consumer.subscribe([partition.topic])
                    else:
                        consumer.assign([partition])
                    await leave(consumer)
            except RuntimeError:
                pass
            return await committed(bootstrap, group, partition)

        async def broken(consumer: Consumer) -> None:
            await read(consumer, 4)
            raise RuntimeError("of the program's own")

        async def by_hand(consumer: Consumer) -> None:
            await read(consumer, 4)
            await consumer.close()

        async def by_other_task(consumer: Consumer) -> None:
            await asyncio.create_task(read(consumer, 4))

        async def whole(consumer: Consumer) -> None:
            async for record in consumer:
                if record.offset == 9:
                    consumer.wakeup()

        for subscribes in (False, True):
            assert await offset_after(lambda c: read(c, 4), subscribes=subscribes) == 4
            assert await offset_after(lambda c: read(c, 10), subscribes=subscribes) == 10
            assert await offset_after(broken, subscribes=subscribes) == 3
            assert await offset_after(by_hand, subscribes=subscribes) == 3
            assert await offset_after(by_other_task, subscribes=subscribes) == 3
            assert await offset_after(whole, subscribes=subscribes) == 10

    asyncio.run(attack())


def test_an_iteration_ends_when_its_own_body_closes_the_consumer(
    bootstrap: str, unique: Names
) -> None:
    """It used to go on with what had been fetched, uncommitted."""

    async def attack() -> None:
        partition = await fill(bootstrap, unique("hand"))
        async with Consumer(bootstrap, **GROUP) as consumer:
            consumer.assign([partition])
            seen = 0
            async for _ in consumer:
                seen += 1
                await consumer.close()
            assert seen == 1
            with pytest.raises(ClosedError, match="the consumer is closed"):
                await read(consumer, 1)
            with pytest.raises(ClosedError, match="the consumer is closed"):
                await consumer.poll()

    asyncio.run(attack())


WRONG: Any = [None, "topic", ("topic", "0"), (b"topic", 0)]
SUBSCRIPTIONS: list[tuple[Callable[[Consumer], Any], str]] = [
    (lambda c: c.subscribe("topic"), "subscribe takes several topic names: ['topic']"),
    (lambda c: c.subscribe(), "give one of them"),
    (lambda c: c.subscribe(WRONG[:1]), "a topic name is text, not None"),
    (lambda c: c.subscribe(["two words"]), "no topic can be called 'two words'"),
    (lambda c: c.subscribe(pattern="("), "'(' is no pattern for topic names"),
    (lambda c: c.assign(WRONG[1:2]), "a partition is TopicPartition(topic, number), not 'topic'"),
    (lambda c: c.assign(WRONG[2:3]), "partition '0' of topic: partitions count from 0"),
    (lambda c: c.assign(WRONG[3:]), "a topic name is text"),
]


async def told(consumer: Consumer, partition: TopicPartition, text: str) -> None:
    """Wait until the error of `position` says so: the metadata may still be on their way."""
    consumer.assign([partition])
    said = ""
    async with asyncio.timeout(20):
        while text not in said:
            with pytest.raises(TimedOutError) as caught:
                await consumer.position(partition, timeout_ms=50)
            said = str(caught.value)


def test_mistakes_are_told_in_one_line(bootstrap: str, unique: Names) -> None:
    """Names, partitions and settings are checked where they are given."""

    async def attack() -> None:
        for call, text in SUBSCRIPTIONS:
            async with Consumer(bootstrap, group_id=unique("group")) as consumer:
                with pytest.raises(UsageError, match=re.escape(text)) as caught:
                    call(consumer)
                assert "\n" not in str(caught.value)
                with pytest.raises(UsageError, match="a topic name is text"):
                    await consumer.end_offsets([TopicPartition(b"x", 0)])  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="did you mean auto_offset_reset"):
            Consumer(bootstrap, auto_offset_rest="earliest")  # type: ignore[call-arg]
        topic = unique("haste")
        await fill(bootstrap, topic)
        settings: dict[str, Any] = {"allow_auto_create_topics": False}
        async with Consumer(bootstrap, **settings) as consumer:
            missing = TopicPartition(unique("missing"), 0)
            await told(consumer, missing, "there is no topic")
            await told(consumer, TopicPartition(topic, 99), "has only 4 partitions")

    asyncio.run(attack())


class Scripted(RebalanceListener):
    """Does what a test says."""

    def __init__(self, **calls: Callable[[], Any]) -> None:
        self._calls = calls

    def _call(self, name: str) -> Any:
        return self._calls[name]() if name in self._calls else None

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Any:
        return self._call("assigned")

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Any:
        return self._call("revoked")


def test_a_listener_may_commit_seek_and_close_but_not_poll(
    bootstrap: str, unique: Names, caplog: pytest.LogCaptureFixture
) -> None:
    """Re-entrancy, CON-11: also within the close that revokes, where commits used to be refused."""

    async def attack() -> None:
        partition = await fill(bootstrap, unique("listen"))
        group = unique("group")
        settings = {**GROUP, "enable_auto_commit": False}
        errors: list[BaseException] = []

        async def poll_within() -> None:
            with pytest.raises(IllegalStateError, match="but not read") as caught:
                await consumer.poll()
            errors.append(caught.value)

        async with Consumer(bootstrap, group_id=group, **settings) as consumer:
            commits = Scripted(
                assigned=poll_within,
                revoked=lambda: consumer.commit_soon(),
            )
            consumer.subscribe([partition.topic], listener=commits)
            await read(consumer, 5)
            await consumer.unsubscribe()
            consumer.subscribe([partition.topic], listener=commits)
            await read(consumer, 3)
        assert await committed(bootstrap, group, partition) == 8
        assert len(errors) == 2

        async with asyncio.timeout(20):
            consumer = Consumer(bootstrap, group_id=unique("group"), **settings)
            await consumer.start()
            consumer.subscribe(
                [partition.topic],
                listener=Scripted(assigned=consumer.close, revoked=consumer.close),
            )
            with pytest.raises(ClosedError):
                for _ in range(100):
                    await consumer.poll()
            await consumer.close()

    with caplog.at_level(logging.CRITICAL, "barnabas_client"):
        asyncio.run(attack())


def test_whatever_a_callback_raises_the_consumer_goes_on(
    bootstrap: str, unique: Names, caplog: pytest.LogCaptureFixture
) -> None:
    """A listener's error comes once, from the poll; those of others are logged."""

    class Broken:
        def on_consume(self, records: Any) -> Any:
            raise RuntimeError("of the program's own")

        def on_commit(self, offsets: Any) -> Any:
            raise RuntimeError("of the program's own")

    def broken(*_: Any) -> Any:
        raise RuntimeError("of the program's own")

    async def broken_later() -> None:
        raise RuntimeError("of the program's own")

    async def attack() -> None:
        partition = await fill(bootstrap, unique("listen"))
        for failing in (broken, broken_later):
            group = unique("group")
            listener = Scripted(assigned=failing, revoked=failing)
            consumer = Consumer(bootstrap, group_id=group, interceptors=[Broken()], **GROUP)
            await consumer.start()
            consumer.subscribe([partition.topic], listener=listener)
            with pytest.raises(RuntimeError, match="of the program's own"):
                while True:
                    assert not await consumer.poll()
            seen = 0
            while seen < 10:
                seen += len(await consumer.poll())
            answered = asyncio.Event()

            def tell(*_: Any, event: asyncio.Event = answered) -> None:
                event.set()
                raise RuntimeError("of the program's own")

            consumer.commit_soon(callback=tell)
            await asyncio.wait_for(answered.wait(), 20)
            with pytest.raises(RuntimeError, match="of the program's own"):
                await consumer.close()
            assert await committed(bootstrap, group, partition) == 10

    with caplog.at_level(logging.CRITICAL, "barnabas_client"):
        asyncio.run(attack())


def test_a_second_task_is_told_and_the_first_goes_on(bootstrap: str, unique: Names) -> None:
    """CON-1: two tasks that poll or close at the same time."""

    async def attack() -> None:
        partition = await fill(bootstrap, unique("two"))
        async with Consumer(bootstrap, **GROUP) as consumer:
            consumer.assign([partition])
            consumer.seek_to_end()
            first = asyncio.ensure_future(consumer.poll(timeout_ms=20_000))
            await asyncio.sleep(0)
            for call in (consumer.poll, lambda: read(consumer, 1)):
                with pytest.raises(IllegalStateError, match="in use by the task"):
                    await call()
            with pytest.raises(IllegalStateError, match="in use by the task"):
                consumer.seek(partition, 0)
            await asyncio.gather(consumer.close(), consumer.close())
            with pytest.raises(ClosedError):
                await first

    asyncio.run(attack())


def test_a_topic_that_cannot_be_read_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """No right to it is an error of the poll; one that is not there is logged, and waited for."""

    async def attack() -> None:
        async with scripted_brokers(1) as (broker,):
            broker.topics = [
                MetadataResponseTopic(
                    name="secret", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
            ]
            broker.script[ApiKey.FIND_COORDINATOR] = lambda _: SILENCE
            settings: dict[str, Any] = {"group_id": "g", "retry_backoff_ms": 5}
            async with Consumer(broker.bootstrap, **settings) as consumer:
                consumer.subscribe(["secret"])
                with pytest.raises(AuthorizationError, match="topic secret may not be read"):
                    await consumer.poll(timeout_ms=20_000)
                broker.topics = [
                    MetadataResponseTopic(
                        name="missing", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                ]
                await consumer.unsubscribe()
                consumer.subscribe(["missing"])
                async with asyncio.timeout(20):
                    while "topic missing cannot be read" not in caplog.text:
                        await consumer.poll(timeout_ms=20)
                await consumer.close(0)

    with caplog.at_level(logging.WARNING, "barnabas_client"):
        asyncio.run(attack())


def test_no_call_waits_longer_than_it_may_for_a_coordinator_that_is_silent() -> None:
    """`poll`, `commit`, `committed` and `close` used to last for the whole request timeout."""

    async def attack() -> None:
        async with scripted_brokers(1) as (broker,):
            broker.topics = [
                MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=1)])
            ]
            broker.script[ApiKey.FIND_COORDINATOR] = lambda _: SILENCE
            partition = TopicPartition("t", 0)
            async with asyncio.timeout(10):
                async with Consumer(broker.bootstrap, group_id="g") as consumer:
                    consumer.subscribe(["t"])
                    assert await consumer.poll(timeout_ms=20) == []
                    await consumer.close(50)
                async with Consumer(broker.bootstrap, group_id="g") as consumer:
                    consumer.assign([partition])
                    consumer.seek(partition, 5)
                    for call in (
                        consumer.commit(timeout_ms=20),
                        consumer.committed([partition], timeout_ms=20),
                    ):
                        with pytest.raises(RetriableError):
                            await call
                    await consumer.close(50)

    asyncio.run(attack())
