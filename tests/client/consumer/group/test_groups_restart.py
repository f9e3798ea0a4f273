"""A broker that restarts under a group: coordinator, connections and group state all come back."""

import asyncio
from pathlib import Path

import pytest

from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import (
    CLASSIC,
    Ownership,
    Reader,
    create_topic,
    produce,
    until,
)
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_brokers import PROPERTIES


@pytest.mark.parametrize(
    "strategy", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.interop)]
)
def test_members_read_on_after_the_broker_was_killed(tmp_path: Path, strategy: str) -> None:
    """GRP-20, CLI-5: members that are heard of in time keep their partitions; nothing is lost."""

    async def run(broker: BarnabasProcess) -> None:
        await create_topic(broker.bootstrap, "t", 4)
        ownership = Ownership()
        settings = {
            **CLASSIC,
            "group_id": "g",
            "partition_assignment_strategy": [strategy],
            "auto_commit_interval_ms": 100,
        }
        members = [Reader(broker.bootstrap, f"m{at}", ownership, ["t"], **settings) for at in "ab"]
        for member in members:
            await member.start()
        await until(lambda: ownership.counts() == [2, 2])
        await produce(broker.bootstrap, "t", range(40), 4)
        await until(lambda: sum(len(member.values) for member in members) == 40)
        before = [member.consumer.assignment() for member in members]
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await produce(broker.bootstrap, "t", range(40, 80), 4)
        await until(lambda: {n for m in members for n in m.values} == set(range(80)))
        assert [member.consumer.assignment() for member in members] == before
        assert "lost" not in [call for member in members for call, _ in member.notes.calls]
        for member in members:
            await member.stop()
        last = await Reader(broker.bootstrap, "last", ownership, ["t"], **settings).start()
        await until(lambda: ownership.counts() == [4])
        await last.pause()
        committed = await last.consumer.committed([TopicPartition("t", at) for at in range(4)])
        assert [offset.offset for offset in committed.values() if offset is not None] == [20] * 4
        await last.stop()
        assert not ownership.violations

    with BarnabasProcess(tmp_path, properties=PROPERTIES) as broker:
        asyncio.run(run(broker))
