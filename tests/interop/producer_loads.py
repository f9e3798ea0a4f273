"""Idempotent producers (Java, librdkafka, ours) as programs that live through faults of brokers.

They number their records per partition and note in a file where each was acknowledged.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.interop.clients.steps import read_items
from tests.support.apache_kafka import kafka_jars
from tests.support.cache import python_environment
from tests.support.client_programs import CLIENT_ENVIRONMENT, INTEROP, REPOSITORY, all_clients
from tests.support.history import read_acknowledged, violations
from tests.support.java_tools import compile_java, java_command


class Load:
    """One producer program at work."""

    def __init__(self, command: list[str], topic: str, path: Path) -> None:
        self.topic = topic
        self.path = path
        self._counts: Counter[int] = Counter()
        self._position = 0
        path.touch()
        self.process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **CLIENT_ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def acknowledged_counts(self) -> Counter[int]:
        """How many records of each partition were acknowledged; reads what has been added."""
        with self.path.open() as file:
            file.seek(self._position)
            while (line := file.readline()).endswith("\n"):
                self._counts[int(line.partition(" ")[0])] += 1
                self._position += len(line)
        return self._counts.copy()

    @property
    def count(self) -> int:
        """How many records were acknowledged."""
        return self.acknowledged_counts().total()

    def check(self) -> None:
        """It must not have given up."""
        assert self.process.poll() is None, f"{self.topic}: {self.process.communicate()[0]}"

    def end(self) -> None:
        """Let it deliver what it has, and end."""
        output, _ = self.process.communicate(timeout=180)
        assert self.process.returncode == 0, f"{self.topic}: {output}"

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def java_load(
    bootstrap: str, topic: str, partition_count: int, path: Path, *, pause_ms: int = 2
) -> Load:
    """Java's producer with its defaults."""
    jars = kafka_jars()
    classes = compile_java("steady-load", [INTEROP / "java" / "SteadyLoad.java"], jars)
    arguments = [bootstrap, topic, str(partition_count), str(path), str(pause_ms)]
    return Load(java_command([classes, jars], "SteadyLoad", arguments), topic, path)


def librdkafka_load(
    bootstrap: str, topic: str, partition_count: int, path: Path, *, pause_ms: int = 0
) -> Load:
    """The producer of librdkafka."""
    python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    module = ["-m", "tests.interop.clients.steady_load"]
    arguments = [bootstrap, topic, str(partition_count), str(path), str(pause_ms)]
    return Load([str(python), *module, *arguments], topic, path)


def own_load(
    bootstrap: str, topic: str, partition_count: int, path: Path, *, pause_ms: int = 0
) -> Load:
    """Our own producer."""
    module = ["-m", "tests.interop.clients.barnabas_steady_load"]
    arguments = [bootstrap, topic, str(partition_count), str(path), str(pause_ms)]
    return Load([sys.executable, *module, *arguments], topic, path)


def load_violations(bootstrap: str, load: Load, directory: Path) -> list[str]:
    """What is wrong with what is there, given what was acknowledged to the load."""
    client = all_clients()[0]
    (ends,) = client.run(bootstrap, [["offsets", load.topic]], directory)
    total = sum(int(entry.split(":")[2]) for entry in ends.split(","))
    path = directory / f"{load.topic}-everything.txt"
    client.run(bootstrap, [["read", load.topic, str(total), str(path)]], directory)
    found: dict[int, list[tuple[int, int]]] = {}
    for item in read_items(str(path)):
        assert item.key is not None
        found.setdefault(item.partition, []).append((item.offset, int(item.key)))
    return violations(read_acknowledged(load.path.read_text().splitlines()), found)
