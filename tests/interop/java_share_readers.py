"""Java's share consumers, in one process for each version of the client.

The program is `java/ShareReader.java`. Source: KIP-932.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.interop.java_readers import DEADLINE_SECONDS, MemberProcess
from tests.support.java_tools import compile_java, java_command, maven_jars


class Delivery(NamedTuple):
    """One delivery of a record: where it is, the how manyth delivery it was, the value."""

    partition: int
    offset: int
    count: int
    value: str


class JavaShareProcess(MemberProcess):
    """Share consumers of one version of the client."""

    def __init__(self, version: str) -> None:
        jars = maven_jars(
            f"kafka-clients-{version}",
            [f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36"],
        )
        source = Path(__file__).parent / "java" / "ShareReader.java"
        classes = compile_java("share-reader", [source], jars)
        super().__init__(java_command([classes, jars], "ShareReader", []))


class JavaShareReader:
    """A Java share consumer, and what it has told."""

    def __init__(self, process: JavaShareProcess, name: str) -> None:
        self._process = process
        self._name = name
        self._left = asyncio.Event()
        self.deliveries: list[Delivery] = []
        self.acknowledged: set[tuple[int, int]] = set()
        self.refused: list[str] = []

    async def start(self, bootstrap: str, topic: str, group: str, **more: str) -> "JavaShareReader":
        """Join a group; more settings have underscores for dots."""
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self._process.hear(self._name, self._hear)
        words = [f"{key}={value}" for key, value in settings.items()]
        await self._process.tell("join", self._name, topic, *words)
        return self

    async def stop(self) -> None:
        """Leave the group in an orderly way."""
        await self._process.tell("leave", self._name)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._left.wait()

    @property
    def counts(self) -> Counter[str]:
        """How often each value was delivered."""
        return Counter(each.value for each in self.deliveries)

    def _hear(self, kind: str, rest: str) -> None:
        if kind == "record":
            place, _, value = rest.partition("\t")
            partition, offset, count = map(int, place.split(":"))
            self.deliveries.append(Delivery(partition, offset, count, value))
        elif kind == "acknowledged":
            for each in rest.rstrip(",").split(","):
                partition, _, text = each.partition(":")
                self.acknowledged.add((int(partition), int(text)))
        elif kind == "refused":
            self.refused.append(rest)
        elif kind == "left":
            self._left.set()
        else:
            print(f"{self._name}: {kind} {rest}")
