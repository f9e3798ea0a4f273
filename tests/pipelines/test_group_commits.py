"""Offsets to groups in the background: what brokers being away, or refusing, does to them."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas_client import Consumer, OffsetAndMetadata, TopicPartition
from barnabas_client.admin import Admin, NewTopic
from barnabas_pipelines.group_commits import GroupCommits
from tests.support.barnabas_process import BarnabasProcess

TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)
QUICKLY = {"default_api_timeout_ms": 1_000, "request_timeout_ms": 500}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    with BarnabasProcess(tmp_path) as running:
        yield running


async def create_topic(broker: BarnabasProcess) -> None:
    async with Admin(broker.bootstrap) as admin:
        topic = NewTopic(name=TOPIC, partition_count=2, replication_factor=1)
        (await admin.topics.create([topic])).unwrap()


async def committed(broker: BarnabasProcess, group_id: str) -> dict[TopicPartition, str]:
    async with Admin(broker.bootstrap) as admin:
        found = (await admin.group_offsets.list([group_id])).unwrap()[group_id]
        return {key: f"{one.offset} {one.metadata}" for key, one in found.items() if one}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def test_offsets_are_committed_and_newer_ones_win(broker: BarnabasProcess) -> None:
    """What is offered while a commit is under way comes after it."""

    async def run() -> None:
        await create_topic(broker)
        commits = GroupCommits({"bootstrap_servers": broker.bootstrap})
        commits.start()
        commits.offer("g", {PLACE: OffsetAndMetadata(3, metadata="old")})
        await asyncio.sleep(0)
        commits.offer("g", {PLACE: OffsetAndMetadata(5, metadata="new")})
        commits.offer("empty", {})
        async with asyncio.timeout(20):
            await commits.settle()
        assert commits.waiting_groups == []
        assert await committed(broker, "g") == {PLACE: "5 new"}
        await commits.close()

    asyncio.run(run())


def test_a_broker_that_is_away_is_tried_again_and_told_of_once(
    broker: BarnabasProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A query goes on for hours without its group: one line in the log, and one when it is over."""
    caplog.set_level(logging.WARNING, "barnabas_pipelines.group_commits")
    heard: list[str] = []

    async def run() -> None:
        await create_topic(broker)
        broker.stop()
        commits = GroupCommits(
            {"bootstrap_servers": broker.bootstrap, **QUICKLY}, retry_seconds=0.1
        )
        commits.start()
        for offset in range(3):
            commits.offer("g", {PLACE: OffsetAndMetadata(offset)})
            await until(lambda: bool(caplog.messages))
        assert commits.waiting_groups in ([], ["g"])
        heard.extend(caplog.messages)
        broker.start()
        async with asyncio.timeout(30):
            await commits.settle()
        assert await committed(broker, "g") == {PLACE: "2 "}
        await commits.close()

    asyncio.run(run())
    assert len(heard) == 1
    assert "group g does not show progress" in heard[0]
    assert caplog.messages[1:] == ["group g shows progress again"]


def test_what_a_broker_refuses_is_dropped_until_the_next_offsets(
    broker: BarnabasProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A live group keeps its own offsets; `settle` does not wait for what cannot be."""
    caplog.set_level(logging.WARNING, "barnabas_pipelines.group_commits")

    async def run() -> None:
        await create_topic(broker)
        commits = GroupCommits({"bootstrap_servers": broker.bootstrap, **QUICKLY})
        commits.start()
        async with Consumer(broker.bootstrap, group_id="g", enable_auto_commit=False) as member:
            member.subscribe([TOPIC])
            while not member.assignment():
                await member.poll(timeout_ms=100)
            commits.offer("g", {PLACE: OffsetAndMetadata(3)})
            async with asyncio.timeout(20):
                await commits.settle()
            assert await committed(broker, "g") == {}
        commits.offer("g", {PLACE: OffsetAndMetadata(4)})
        async with asyncio.timeout(20):
            await commits.settle()
        assert await committed(broker, "g") == {PLACE: "4 "}
        await commits.close()

    asyncio.run(run())
    assert "the group has members" in caplog.messages[0]
    assert caplog.messages[1:] == ["group g shows progress again"]
