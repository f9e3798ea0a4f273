"""A topic copied in transactions under kills of brokers and copiers, and what came of it.

    python -m tests.interop.transactional_copy --client own --records 1000000 --kills 50

Three copiers in one group, three brokers. At random moments one of them is killed and started
again, a copier with its transactional id. In the end readers of committed records must find each
record once, in the order of the partition that it was copied from.
"""

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from barnabas_client import Producer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.records.record import Record
from tests.client.producer.reading import read_all
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.cache import python_environment
from tests.support.client_programs import CLIENT_ENVIRONMENT, INTEROP, JAVA_VERSIONS, REPOSITORY
from tests.support.go_tools import go_program
from tests.support.java_tools import compile_java, java_command, maven_jars

Command = Callable[[], list[str]]

SOURCE: Final = "source"
COPY: Final = "copy"
GROUP: Final = "copiers"
PARTITIONS: Final = 6
COPIERS: Final = 3
BROKERS: Final = 3
END_SECONDS: Final = 300
"""Without a kill for so long, everything must have been copied."""


def _own() -> list[str]:
    return [sys.executable, "-m", "tests.interop.copiers.own_copier"]


def _librdkafka() -> list[str]:
    python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    return [str(python), "-m", "tests.interop.copiers.librdkafka_copier"]


def _java() -> list[str]:
    version = JAVA_VERSIONS[-1]
    jars = maven_jars(
        f"kafka-clients-{version}",
        [f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36"],
    )
    source = INTEROP / "java" / "TransactionalCopier.java"
    classes = compile_java("transactional-copier", [source], jars)
    return java_command([classes, jars], "TransactionalCopier", [])


def _franz_go() -> list[str]:
    return [str(go_program(INTEROP / "copiers" / "franz_go"))]


CLIENTS: Final[Mapping[str, Command]] = {
    "own": _own,
    "librdkafka": _librdkafka,
    "java": _java,
    "franz-go": _franz_go,
}


class Copier:
    """One copying process, started again whenever it has ended."""

    def __init__(self, command: list[str], arguments: list[str], log_path: Path) -> None:
        self._command = [*command, *arguments]
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self.failed_count = 0

    def ensure_runs(self) -> None:
        """Start it, unless it runs; one that has ended by itself has failed."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self.failed_count += 1
            self._close_input()
        self._start()

    def kill(self) -> None:
        """SIGKILL, and start it again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close_input()
        self._start()

    def end(self) -> None:
        """Let it end in order, by closing its standard input."""
        if self._process is None:
            return
        self._close_input()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _close_input(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def log_tail(self) -> str:
        """The end of what it printed."""
        return self._log_path.read_text(errors="replace")[-2000:]

    def _start(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=REPOSITORY,
                env={**CLIENT_ENVIRONMENT, **os.environ},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )


class Copying:
    """Brokers, a topic to copy, and the copiers."""

    def __init__(self, client: str, directory: Path, records: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._records = records
        self._cluster = BarnabasCluster(directory / "cluster", BROKERS)
        command = CLIENTS[client]()
        self._copiers = [
            Copier(
                command,
                [self._cluster.bootstrap, GROUP, SOURCE, COPY, f"copier-{number}"],
                directory / f"copier-{number}.log",
            )
            for number in range(COPIERS)
        ]

    async def run(self, kills: int) -> list[str]:
        """Copy all of it under so many kills; what is wrong with the copy."""
        with self._cluster:
            async with Admin(self._cluster.bootstrap) as admin:
                await self._cluster.until_formed(admin)
                await self._cluster.create_topics(
                    admin,
                    NewTopic(name=SOURCE, partition_count=PARTITIONS),
                    NewTopic(name=COPY, partition_count=PARTITIONS),
                )
                await self._fill()
                try:
                    await self._copy(admin, kills)
                finally:
                    for copier in self._copiers:
                        copier.end()
            wanted = await read_all(self._cluster.bootstrap, SOURCE)
            found = await self._read_copy()
        return [
            f"partition {partition}: {difference(values(records), values(found[partition]))}"
            for partition, records in wanted.items()
            if values(records) != values(found[partition])
        ]

    async def _read_copy(self) -> dict[int, list[Record]]:
        """Read the copy when it is whole; the markers of its last transactions may be on their way.

        After a while, whatever is there.
        """
        deadline = time.monotonic() + END_SECONDS
        while True:
            found = await read_all(self._cluster.bootstrap, COPY, is_committed=True)
            is_whole = sum(map(len, found.values())) >= self._records
            if is_whole or time.monotonic() > deadline:
                return found

    async def _fill(self) -> None:
        async with Producer(self._cluster.bootstrap) as producer:
            for number in range(self._records):
                producer.send(SOURCE, b"%d" % number, partition=number % PARTITIONS)
                if number % 1000 == 0:
                    await producer.drain()
            await producer.flush()

    async def _copy(self, admin: Admin, kills: int) -> None:
        for copier in self._copiers:
            copier.ensure_runs()
        for number in range(kills):
            await self._until_copied(admin, self._records * (number + 1) // (kills + 1))
            killed = await self._kill()
            print(f"kill {number + 1} of {kills}: {killed}", file=sys.stderr, flush=True)
        await self._until_copied(admin, self._records)

    async def _until_copied(self, admin: Admin, count: int) -> None:
        """Wait until the group has committed so many records of the topic."""
        deadline = time.monotonic() + END_SECONDS
        while await self._copied_count(admin) < count:
            for copier in self._copiers:
                copier.ensure_runs()
            if time.monotonic() > deadline:
                told = "\n".join(copier.log_tail() for copier in self._copiers)
                raise TimeoutError(f"{await self._copied_count(admin)} of {count} copied:\n{told}")
            await asyncio.sleep(0.05)

    async def _copied_count(self, admin: Admin) -> int:
        found = (await admin.group_offsets.list([GROUP])).unwrap()[GROUP]
        return sum(offset.offset for offset in found.values() if offset is not None)

    async def _kill(self) -> str:
        """Kill a copier or a broker, and start it again; returns which."""
        if self._random.random() < 0.5:
            number = self._random.randrange(COPIERS)
            self._copiers[number].kill()
            return f"copier {number}"
        node_id = self._random.choice(list(self._cluster.brokers))
        broker = self._cluster.brokers[node_id]
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start, END_SECONDS)
        return f"broker {node_id}"

    @property
    def failed_count(self) -> int:
        """How often a copier could not go on, and was started again."""
        return sum(copier.failed_count for copier in self._copiers)


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def difference(wanted: list[bytes | None], found: list[bytes | None]) -> str:
    """What is wrong with a copy, in a line."""
    missing = len(set(wanted) - set(found))
    doubled = len(found) - len(set(found))
    return f"{len(found)} of {len(wanted)} copied, {missing} missing, {doubled} doubled"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.transactional_copy")
    parser.add_argument("--client", choices=[*CLIENTS, "all"], default="all")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    is_wrong = False
    for client in CLIENTS if arguments.client == "all" else [arguments.client]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="barnabas-copy-") as directory:
            copying = Copying(client, Path(directory), arguments.records, arguments.seed)
            wrong = asyncio.run(copying.run(arguments.kills))
        is_wrong = is_wrong or bool(wrong)
        verdict = "; ".join(wrong) or "each record once, in order"
        print(
            f"{client}: {arguments.records} records, {arguments.kills} kills,"
            f" seed {arguments.seed}, {copying.failed_count} copiers gave up,"
            f" {time.monotonic() - began:.0f} s: {verdict}",
            flush=True,
        )
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
