"""Kafka Streams on Barnabas: a word count with exactly_once_v2, killed and begun anew.

Its topics of its own (a repartition topic and a changelog), its group and its transactions are what
Kafka's own client makes of them.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas_client.admin import Admin, NewTopic
from barnabas_client.consumer import Consumer
from barnabas_client.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.support.barnabas_process import BarnabasProcess
from tests.support.java_tools import compile_java, java_command, maven_jars
from tests.support.processes import ManagedProcess

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

VERSION = "4.4.0"
LINES = [f"messenger {('castle', 'village', 'bridge inn')[number % 3]}" for number in range(300)]
PARTITIONS = 3
DEADLINE_SECONDS = 120


def word_count(bootstrap: str, directory: Path, name: str) -> ManagedProcess:
    """The program, with a folder for its state that nobody has used before."""
    jars = maven_jars(
        f"kafka-streams-{VERSION}",
        [f"org.apache.kafka:kafka-streams:{VERSION}", "org.slf4j:slf4j-nop:1.7.36"],
    )
    source = Path(__file__).parent / "java" / "WordCount.java"
    classes = compile_java("word-count", [source], jars)
    arguments = [bootstrap, "lines", "counts", str(directory / name)]
    command = java_command([classes, jars], "WordCount", arguments)
    return ManagedProcess(command, directory / f"{name}.log", {})


async def write(bootstrap: str, lines: Sequence[str]) -> None:
    async with Producer(bootstrap) as producer:
        for line in lines:
            producer.send("lines", line.encode())


async def counts(bootstrap: str, expected: Counter[str], program: ManagedProcess) -> None:
    """Read the committed counts until each word has the expected one; each comes once, in order."""
    seen: defaultdict[str, list[int]] = defaultdict(list)
    async with Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition("counts", partition) for partition in range(PARTITIONS)])
        async with asyncio.timeout(DEADLINE_SECONDS):
            while {word: values[-1] for word, values in seen.items()} != expected:
                assert program.is_running(), program.log_tail()
                for record in await consumer.poll(timeout_ms=1_000):
                    assert record.key is not None
                    assert record.value is not None
                    seen[record.key.decode()].append(int(record.value))
    for word, values in seen.items():
        assert values == list(range(1, expected[word] + 1)), word


def test_a_word_count_that_is_killed_counts_each_word_once(tmp_path: Path) -> None:
    """Its second process has nothing but what the first committed: offsets and the changelog."""
    half = len(LINES) // 2
    with BarnabasProcess(tmp_path / "broker") as broker:
        asyncio.run(create_topics(broker.bootstrap))
        asyncio.run(write(broker.bootstrap, LINES[:half]))
        first = word_count(broker.bootstrap, tmp_path, "first")
        try:
            words = Counter(" ".join(LINES[:half]).split())
            asyncio.run(counts(broker.bootstrap, words, first))
            asyncio.run(write(broker.bootstrap, LINES[half:]))
        finally:
            first.kill()
        second = word_count(broker.bootstrap, tmp_path, "second")
        try:
            words = Counter(" ".join(LINES).split())
            asyncio.run(counts(broker.bootstrap, words, second))
        finally:
            second.stop()


async def create_topics(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        topics = [NewTopic(name=name, partition_count=PARTITIONS) for name in ("lines", "counts")]
        (await admin.topics.create(topics)).unwrap()
