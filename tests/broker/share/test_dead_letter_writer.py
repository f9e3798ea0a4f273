"""The writer of dead letters: which topics it takes, what it tries again, what it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.share.dead_letter_writer import (
    LOGGED_LOSSES,
    DeadLetterSettings,
    DeadLetterTopic,
    TopicDeadLetterWriter,
)
from barnabas_broker.share.dead_letters import DeadLetterCause, DeadLetters
from barnabas_broker.share.share_metrics import ShareMetrics
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.record import Record, decode_records
from tests.broker.share.share_bench import GROUP, ShareBench, key, share

TOPIC = DeadLetterTopic("dlq.g", b"d" * 16, True, 1 << 20, (3, 4))
LETTERS = [DeadLetters(0, 1, 1, DeadLetterCause.REJECTED)]


class Topics:
    """One topic, or none, whose leaders do what a test wants."""

    def __init__(self) -> None:
        self.given = DeadLetterSettings(topic="dlq.g")
        self.topic: DeadLetterTopic | None = TOPIC
        self.failures: list[Exception | None] = []
        self.appended: list[tuple[int, int, list[Record]]] = []
        self.attempt_ms: list[int] = []
        self.created: list[str] = []
        self.now_ms: Callable[[], int] = lambda: 0
        self.on_attempt: Callable[[], None] = lambda: None

    def settings(self, group_id: str) -> DeadLetterSettings:
        return self.given

    def find(self, name: str) -> DeadLetterTopic | None:
        return self.topic if self.topic is not None and self.topic.name == name else None

    def create(self, name: str) -> None:
        self.created.append(name)

    async def append(self, node_id: int, topic: DeadLetterTopic, index: int, batch: bytes) -> None:
        self.attempt_ms.append(self.now_ms())
        self.on_attempt()
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        self.appended.append((node_id, index, decode_records(batch)))


class World:
    """A writer over a log with four records."""

    def __init__(self, bench: ShareBench) -> None:
        self.bench = bench
        self.topics = Topics()
        self.topics.now_ms = bench.node.clock.monotonic_ms
        self.metrics = ShareMetrics()
        self.is_wanted = True

        async def run(function: Callable[[], Any]) -> Any:
            await asyncio.sleep(0)
            return function()

        self.writer = TopicDeadLetterWriter(
            self.topics,
            clock=bench.node.clock,
            counts=self.metrics.dead_letters_of,
            reads=asyncio.Semaphore(1),
            run=run,
        )
        bench.produce(4)

    async def write(self, letters: list[DeadLetters] = LETTERS, index: int = 0) -> None:
        partition = self.bench.node.partition(index)
        await self.writer.write(key(index), partition, letters, is_wanted=lambda: self.is_wanted)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Records written, requests, failed requests, records lost."""
        of = self.metrics.dead_letters_of(GROUP)
        return of.record_count, of.request_count, of.failed_request_count, of.lost_count


def write(scenario: Callable[[World], Coroutine[Any, Any, None]], partitions: int = 1) -> None:
    share(lambda bench: scenario(World(bench)), partitions=partitions)


def test_dead_letters_go_to_the_partition_of_their_source_modulo() -> None:
    """SHR-36: to its leader."""

    async def scenario(world: World) -> None:
        world.bench.produce(1, index=2)
        world.bench.produce(1, index=1)
        await world.write()
        await world.write([DeadLetters(0, 0, 1, DeadLetterCause.REJECTED)], index=1)
        await world.write([DeadLetters(0, 0, 1, DeadLetterCause.REJECTED)], index=2)
        assert [(node, index) for node, index, _ in world.topics.appended] == [
            (3, 0),
            (4, 1),
            (3, 0),
        ]
        assert world.counts == (4, 3, 0, 0)

    write(scenario, partitions=3)


def test_a_copy_has_what_the_log_has() -> None:
    """SHR-37: only where the group wants it."""

    async def scenario(world: World) -> None:
        await world.write()
        world.topics.given = replace(world.topics.given, copies=True)
        await world.write()
        values = [[one.value for one in records] for _, _, records in world.topics.appended]
        assert values == [[None, None], [b"v", b"v"]]

    write(scenario)


@pytest.mark.parametrize(
    ("settings", "topic"),
    [
        (DeadLetterSettings(topic=""), TOPIC),
        (DeadLetterSettings(topic="__dlq"), TOPIC._replace(name="__dlq")),
        (DeadLetterSettings(topic="dlq.g"), TOPIC._replace(is_permitted=False)),
        (DeadLetterSettings(topic="other"), TOPIC._replace(name="other")),
        (DeadLetterSettings(topic="dlq.g", prefix="dead."), TOPIC),
        (DeadLetterSettings(topic="dlq.g"), None),
    ],
)
def test_a_topic_that_is_not_permitted_gets_nothing(
    settings: DeadLetterSettings, topic: DeadLetterTopic | None
) -> None:
    """SHR-35: the records are lost at once, which is counted; nobody makes a topic."""

    async def scenario(world: World) -> None:
        world.topics.given, world.topics.topic = settings, topic
        before = world.bench.node.clock.monotonic_ms()
        await world.write()
        assert not world.topics.appended
        assert not world.topics.created
        assert world.counts == (0, 0, 0, 2)
        assert world.bench.node.clock.monotonic_ms() == before

    write(scenario)


def test_an_empty_prefix_permits_every_name() -> None:
    """SHR-35."""

    async def scenario(world: World) -> None:
        world.topics.given = DeadLetterSettings(topic="graveyard", prefix="")
        world.topics.topic = TOPIC._replace(name="graveyard")
        await world.write()
        assert world.counts == (2, 1, 0, 0)

    write(scenario)


def test_a_missing_topic_is_made_where_the_cluster_permits_it() -> None:
    """SHR-35: and written to when it is there."""

    async def scenario(world: World) -> None:
        world.topics.given = replace(world.topics.given, creates_topics=True)
        world.topics.topic = None
        writing = asyncio.ensure_future(world.write())
        await asyncio.sleep(0.5)
        assert world.topics.created == ["dlq.g"]
        world.topics.topic = TOPIC
        await writing
        assert world.counts == (2, 1, 0, 0)

    write(scenario)


@pytest.mark.parametrize(
    "failure",
    [
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS),
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        OSError("the connection is lost"),
    ],
)
def test_what_may_pass_is_tried_again_five_times(failure: Exception) -> None:
    """SHR-36: after 1 s, doubled; then the records are lost."""

    async def scenario(world: World) -> None:
        world.topics.failures = [failure, failure, failure, failure, None]
        await world.write()
        waits = [
            after - before
            for before, after in zip(
                world.topics.attempt_ms, world.topics.attempt_ms[1:], strict=False
            )
        ]
        assert [round(wait / 1000) for wait in waits] == [1, 2, 4, 8]
        assert world.counts == (2, 5, 4, 0)
        world.topics.failures = [failure] * 5
        await world.write()
        assert world.counts == (2, 10, 9, 2)

    write(scenario)


def test_a_leader_that_is_away_is_waited_for() -> None:
    """SHR-36: the topic is looked at anew for each attempt."""

    async def scenario(world: World) -> None:
        world.topics.topic = TOPIC._replace(leaders=(-1, -1))
        writing = asyncio.ensure_future(world.write())
        await asyncio.sleep(2)
        world.topics.topic = TOPIC._replace(leaders=(9, 9))
        await writing
        assert [node for node, _, _ in world.topics.appended] == [9]
        assert world.counts == (2, 3, 2, 0)

    write(scenario)


def test_a_batch_that_is_refused_is_lost_alone() -> None:
    """SHR-36: and at once; what comes behind it is written."""

    async def scenario(world: World) -> None:
        world.topics.topic = TOPIC._replace(batch_bytes_max=400)
        world.topics.failures = [KafkaError(ErrorCode.MESSAGE_TOO_LARGE)]
        await world.write()
        assert world.counts == (1, 2, 1, 1)

    write(scenario)


def test_what_is_given_up_takes_the_rest_along() -> None:
    """SHR-36: each batch of very many would else take as long."""

    async def scenario(world: World) -> None:
        world.topics.topic = TOPIC._replace(batch_bytes_max=400)
        world.topics.failures = [None, *[OSError()] * 5]
        await world.write([DeadLetters(0, 3, 1, DeadLetterCause.REJECTED)])
        assert world.counts == (1, 6, 5, 3)

    write(scenario)


def test_who_speaks_for_nothing_any_more_tries_no_more() -> None:
    """SHR-33, SHR-36: the next leader writes them; nothing is lost."""

    async def scenario(world: World) -> None:
        world.topics.failures = [OSError()] * 5

        def fence() -> None:
            world.is_wanted = False

        world.topics.on_attempt = fence
        await world.write()
        assert world.counts == (0, 1, 1, 0)

    write(scenario)


def test_a_setting_that_changes_holds_for_the_next_attempt() -> None:
    """SHR-35."""

    async def scenario(world: World) -> None:
        world.topics.failures = [OSError()] * 5

        def forbid() -> None:
            world.topics.topic = TOPIC._replace(is_permitted=False)

        world.topics.on_attempt = forbid
        await world.write()
        assert world.counts == (0, 1, 1, 2)

    write(scenario)


def test_losses_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """SHR-36: the first ones of a group are told, then each thousandth; all are counted."""

    async def scenario(world: World) -> None:
        world.topics.topic = None
        for _ in range(1_000):
            await world.write()
        assert world.counts == (0, 0, 0, 2_000)

    write(scenario)
    lost = [one for one in caplog.messages if "are lost" in one]
    assert len(lost) == LOGGED_LOSSES + 1
    assert "2000 of its group by now" in lost[-1]
