"""What brokers ask the controller for on behalf of clients: topics on demand, producer ids."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.handlers.producer_id_block import ProducerIdBlock
from barnabas_broker.handlers.topic_creation import OFFSETS_TOPIC, TopicCreation
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from barnabas_protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tests.support.virtual_loop import run_virtual


class Channel:
    """Answers as the test says, one turn of the loop later."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        assert timeout_ms == 30_000
        self.asked.append(request)
        await asyncio.sleep(0)
        return self.answer(request)


class Ids:
    """A controller that gives blocks of five."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.next = 100

    def __call__(self, request: Any) -> AllocateProducerIdsResponse:
        if self.code is not ErrorCode.NONE:
            return AllocateProducerIdsResponse(error_code=self.code)
        first, self.next = self.next, self.next + 50
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=5)


def id_block(channel: Channel, epochs: list[int]) -> ProducerIdBlock:
    return ProducerIdBlock(
        cast(ControllerChannel, channel),
        node_id=3,
        broker_epoch=lambda: epochs[-1],
        timeout_ms=30_000,
    )


def test_a_block_is_asked_for_once_however_many_wait() -> None:
    async def work() -> None:
        channel = Channel(Ids())
        block = id_block(channel, [7])
        taken = await asyncio.gather(*(block.take() for _ in range(12)))
        assert sorted(taken) == [*range(100, 105), *range(150, 155), 200, 201]
        assert [(asked.broker_id, asked.broker_epoch) for asked in channel.asked] == [(3, 7)] * 3

    run_virtual(work())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_refused_block_is_asked_for_again_by_the_next(code: ErrorCode, told: ErrorCode) -> None:
    """A producer must not fail for good because this broker registers anew at that moment."""

    async def work() -> None:
        ids, epochs = Ids(), [7]
        channel = Channel(ids)
        block = id_block(channel, epochs)
        ids.code = code
        with pytest.raises(KafkaError) as refused:
            await block.take()
        assert refused.value.code is told
        ids.code = ErrorCode.NONE
        epochs.append(8)
        assert await block.take() == 100
        assert channel.asked[-1].broker_epoch == 8

    run_virtual(work())


class Creation:
    """Topic creation with a channel, and the tasks it has started."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.channel = Channel(answer)
        self.tasks: list[asyncio.Task[None]] = []
        config = SimpleNamespace(
            request_timeout_ms=30_000,
            offsets_topic_segment_bytes=1_000,
            offsets_topic_num_partitions=50,
            offsets_topic_replication_factor=3,
        )
        self.topics = TopicCreation(
            cast(ControllerChannel, self.channel),
            cast(Any, config),
            self._spawn,
            cast(Any, None),  # the controller is another node
            cast(Any, SimpleNamespace(mutation=None)),
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def done(self) -> None:
        await asyncio.gather(*self.tasks)


def created(code: ErrorCode = ErrorCode.NONE) -> Callable[[Any], CreateTopicsResponse]:
    return lambda request: CreateTopicsResponse(
        topics=[CreatableTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    )


def test_one_request_is_in_flight_per_topic() -> None:
    """TOP-6: clients ask again and again until the topic is there."""

    async def work() -> None:
        creation = Creation(created())
        for name in ("a", "a", "b", "a"):
            creation.topics.ensure(name)
        await creation.done()
        assert [asked.topics[0].name for asked in creation.channel.asked] == ["a", "b"]
        creation.topics.ensure("a")
        await creation.done()
        topic = creation.channel.asked[-1].topics[0]
        assert (topic.name, topic.num_partitions, topic.replication_factor) == ("a", -1, -1)

    run_virtual(work())


def test_the_offsets_topic_is_made_by_its_own_settings() -> None:
    """TOP-7."""

    async def work() -> None:
        creation = Creation(created())
        creation.topics.ensure(OFFSETS_TOPIC)
        await creation.done()
        (topic,) = creation.channel.asked[0].topics
        assert (topic.num_partitions, topic.replication_factor) == (50, 3)
        assert {config.name: config.value for config in topic.configs} == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "1000",
        }

    run_virtual(work())


def refuse(request: Any) -> Any:
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.parametrize("answer", [refuse, created(ErrorCode.INVALID_REPLICATION_FACTOR)])
def test_a_topic_that_could_not_be_made_is_logged_and_tried_again(
    answer: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        creation = Creation(answer)
        creation.topics.ensure("a")
        await creation.done()
        (record,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert "topic a could not be created" in record.getMessage()
        creation.topics.ensure("a")
        await creation.done()
        assert len(creation.channel.asked) == 2

    run_virtual(work())


def test_a_topic_that_another_broker_has_made_meanwhile_is_fine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        creation = Creation(created(ErrorCode.TOPIC_ALREADY_EXISTS))
        creation.topics.ensure("a")
        await creation.done()
        assert not caplog.records

    run_virtual(work())
