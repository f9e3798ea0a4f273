"""Java's consumers as members of a group, in one process for each version of the client.

The program (`java/GroupReader.java`) tells what each member is assigned, when, and what it reads.
One process holds many members, because starting one takes longer than a rebalance.
"""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import Ownership
from tests.support.java_tools import compile_java, java_command, maven_jars

DEADLINE_SECONDS = 60


class Timeline(Ownership):
    """Ownership over processes: what counts is when the listeners were called."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[int, str, str, TopicPartition]] = []

    def take(self, name: str, partitions: Collection[TopicPartition]) -> None:
        self.note(time.time_ns() // 1_000_000, name, "take", partitions)

    def give_up(self, name: str, partitions: Collection[TopicPartition]) -> None:
        self.note(time.time_ns() // 1_000_000, name, "give", partitions)

    def note(
        self, now_ms: int, name: str, what: str, partitions: Collection[TopicPartition]
    ) -> None:
        for partition in partitions:
            self.events.append((now_ms, name, what, partition))
            if what == "take":
                self.owners[partition] = name
            elif self.owners.get(partition) == name:
                del self.owners[partition]

    def check(self) -> None:
        """Every partition was given up before, or in the same millisecond as, it was taken."""
        held: dict[TopicPartition, tuple[int, str]] = {}
        gone: dict[tuple[str, TopicPartition], int] = {}
        # Within a millisecond what was given up comes first.
        for now_ms, name, what, partition in sorted(
            self.events, key=lambda event: (event[0], event[2] == "take")
        ):
            if what == "give":
                gone[name, partition] = now_ms
                if partition in held and held[partition][1] == name:
                    del held[partition]
                continue
            assert partition not in held, f"{partition}: {name} beside {held[partition]}"
            held[partition] = (now_ms, name)


class MemberProcess:
    """A program that holds members of groups, each a thread, and speaks as `GroupReader` does."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._hearers: dict[str, Callable[[str, str], None]] = {}

    async def tell(self, *words: str) -> None:
        """Give a command to the process, which starts when it is first told something."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            self._task = asyncio.create_task(self._listen(self._process))
        assert self._process.stdin is not None
        self._process.stdin.write(("\t".join(words) + "\n").encode())
        await self._process.stdin.drain()

    def hear(self, member: str, hearer: Callable[[str, str], None]) -> None:
        """Have the hearer called with the kind and the rest of each line about the member."""
        self._hearers[member] = hearer

    async def stop(self) -> None:
        """End the process in an orderly way."""
        if self._process is None or self._task is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._process.wait()
            await self._task
        assert self._process.returncode == 0

    async def kill(self) -> None:
        """End the process, and with it all of its members, without a word to anybody."""
        assert self._process is not None
        assert self._task is not None
        self._process.kill()
        await self._process.wait()
        await self._task
        self._process = None

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            member, _, line = raw.decode().rstrip("\n").partition("\t")
            kind, _, rest = line.partition("\t")
            if member in self._hearers:
                self._hearers[member](kind, rest)
            else:
                print(f"{self._command[0]}: {raw.decode()}", end="")


class JavaProcess(MemberProcess):
    """Java's consumers of one version of the client."""

    def __init__(self, version: str) -> None:
        jars = maven_jars(
            f"kafka-clients-{version}",
            [f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36"],
        )
        source = Path(__file__).parent / "java" / "GroupReader.java"
        classes = compile_java("group-reader", [source], jars)
        super().__init__(java_command([classes, jars], "GroupReader", []))


class JavaReader:
    """A Java consumer; the interface of `Reader`."""

    def __init__(
        self,
        process: JavaProcess,
        bootstrap: str,
        name: str,
        timeline: Timeline,
        topic: str,
        **more: str,
    ) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self._settings = [f"{key}={value}" for key, value in settings.items()]
        self._process = process
        # Members of other groups may have the same name.
        self._member = f"{name}-in-{more['group_id']}"
        self._topic = topic
        self._name = name
        self._timeline = timeline
        self._left = asyncio.Event()
        self.values: list[int] = []

    async def start(self) -> "JavaReader":
        self._process.hear(self._member, self._hear)
        await self._process.tell("join", self._member, self._topic, *self._settings)
        return self

    async def stop(self) -> None:
        """Leave the group in an orderly way."""
        if not self._left.is_set():
            await self._process.tell("leave", self._member)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._left.wait()

    def died(self) -> None:
        """The process was killed: whatever the member had may be given to others."""
        self._left.set()
        now_ms = time.time_ns() // 1_000_000
        owners = self._timeline.owners
        mine = [partition for partition, owner in owners.items() if owner == self._name]
        self._timeline.note(now_ms, self._name, "give", mine)

    def _hear(self, kind: str, rest: str) -> None:
        if kind == "record":
            self.values.append(int(rest))
        elif kind in ("assigned", "revoked", "lost"):
            at, _, numbers = rest.partition("\t")
            partitions = [TopicPartition(self._topic, int(n)) for n in numbers.split(",") if n]
            what = "take" if kind == "assigned" else "give"
            self._timeline.note(int(at), self._name, what, partitions)
        elif kind == "left":
            self._left.set()
        else:
            print(f"{self._name}: {kind} {rest}")
