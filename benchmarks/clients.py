"""The load: Kafka's own performance tools, small Java clients, one program per Python client.

All Java is kafka-clients 4.1.1. Each call runs one client process to its end and returns what it
measured, most together with the CPU time that the broker spent meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quiet import OthersLoad, wait_until_idle
from benchmarks.trial import Measured
from tests.support.apache_kafka import kafka_jars, write_log4j
from tests.support.java_tools import compile_java

REPOSITORY = Path(__file__).resolve().parents[1]
_SOURCES = Path(__file__).parent / "java"
_TIMEOUT_SECONDS = 600.0
_JVM = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_PRODUCED = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th"
)


class Conditions:
    """What holds for all client runs of a process, and what was found about them."""

    patience_seconds = 0.0
    others_shares: list[float] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One client run: how fast it went and what it cost the broker."""

    records_per_second: float
    mebibytes_per_second: float
    broker_cpu_seconds: float
    p99_ms: float = 0.0


def create_topic(broker: Measured, topic: str, *configs: str, partition_count: int = 1) -> None:
    """One topic, with `key=value` configs."""
    create_topics(broker, topic, 1, partition_count, *configs)


def create_topics(
    broker: Measured, prefix: str, count: int, partition_count: int, *configs: str
) -> dict[str, float]:
    """Topics by one CreateTopics call; milliseconds until created and until all have leaders."""
    arguments = [broker.bootstrap, prefix, str(count), str(partition_count), *configs]
    output, _ = _run_own(broker, "CreateTopics", arguments)
    return output


def produce(
    broker: Measured,
    topic: str,
    record_count: int,
    record_bytes: int,
    *properties: str,
    payloads: Path | None = None,
) -> Load:
    """Kafka's ProducerPerformance as fast as it goes; `payloads` is a file with a value a line."""
    content = ["--record-size", str(record_bytes)]
    if payloads is not None:
        content = ["--payload-file", str(payloads)]
    arguments = [
        *("--topic", topic),
        *("--num-records", str(record_count)),
        *content,
        *("--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap}", *properties),
    ]
    main = "org.apache.kafka.tools.ProducerPerformance"
    output, cpu_seconds = _run(broker, [kafka_jars()], main, arguments)
    found = _PRODUCED.findall(output)
    if not found or int(found[-1][0]) != record_count:
        raise RuntimeError(f"ProducerPerformance did not send {record_count}:\n{output[-3000:]}")
    return Load(
        records_per_second=float(found[-1][1]),
        mebibytes_per_second=float(found[-1][2]),
        broker_cpu_seconds=cpu_seconds,
        p99_ms=float(found[-1][7]),
    )


def consume(broker: Measured, topic: str, record_count: int) -> Load:
    """Kafka's ConsumerPerformance from the start of the topic; the rate is that of fetching."""
    arguments = [
        *("--bootstrap-server", broker.bootstrap),
        *("--topic", topic),
        *("--messages", str(record_count)),
        *("--timeout", "60000"),
    ]
    main = "org.apache.kafka.tools.ConsumerPerformance"
    output, cpu_seconds = _run(broker, [kafka_jars()], main, arguments)
    rows = [line.split(", ") for line in output.splitlines() if line.count(", ") == 9]
    if len(rows) < 2 or int(rows[-1][4]) < record_count:
        raise RuntimeError(f"ConsumerPerformance did not get {record_count}:\n{output[-3000:]}")
    values = dict(zip(rows[0], rows[-1], strict=True))
    return Load(
        records_per_second=float(values["fetch.nMsg.sec"]),
        mebibytes_per_second=float(values["fetch.MB.sec"]),
        broker_cpu_seconds=cpu_seconds,
    )


def produce_paced(
    broker: Measured, topic: str, record_count: int, per_second: int, acks: str
) -> tuple[dict[str, float], float]:
    """One record per request at an even pace; latencies in microseconds, CPU of the broker."""
    warm_up = min(record_count, per_second * 4)
    arguments = [broker.bootstrap, topic, str(record_count), "100", str(per_second), acks]
    return _run_own(broker, "PacedProducer", [*arguments, str(warm_up)])


def ping_pong(
    broker: Measured, topic: str, round_count: int, acks: str
) -> tuple[dict[str, float], float]:
    """One record there and back, again and again; microseconds, CPU of the broker."""
    arguments = [broker.bootstrap, topic, str(round_count), "100", acks]
    return _run_own(broker, "PingPong", [*arguments, str(round_count // 4)])


def commit_transactions(
    broker: Measured, topic: str, partition_count: int, count: int
) -> tuple[dict[str, float], float]:
    """Transactions of 100 records of 100 bytes, one after the other; the broker's CPU."""
    sizes = [str(partition_count), str(count), "100", "100", str(count // 2)]
    return _run_own(broker, "TransactionalProducer", [broker.bootstrap, topic, *sizes])


@contextmanager
def paced_failover(
    broker: Measured, topic: str, partition_count: int, per_second: int, record_count_max: int
) -> Iterator[PacedLoad]:
    """Records of 100 bytes at an even pace until the block ends; its phases are then told."""
    arguments = [str(partition_count), "100", str(per_second), str(record_count_max)]
    command = _java(broker, "FailoverProducer", [broker.bootstrap, topic, *arguments])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as client:
        load = PacedLoad(client)
        try:
            load.wait_until_measuring()
            yield load
            load.end()
        except BaseException:
            client.kill()
            raise


class PacedLoad:
    """A `FailoverProducer` at work; `result` is there once it has ended."""

    def __init__(self, client: subprocess.Popen[str]) -> None:
        self._client = client
        self._lines: list[str] = []
        self.result: dict[str, Any] = {}

    def wait_until_measuring(self) -> None:
        """Return when the first record is about to be sent."""
        assert self._client.stdout is not None
        for line in self._client.stdout:
            self._lines.append(line)
            if line.strip() == "measuring":
                return
        raise RuntimeError(f"FailoverProducer ended:\n{''.join(self._lines)[-3000:]}")

    def mark(self, name: str) -> None:
        """Begin a phase."""
        self._say(f"mark {name}")

    def end(self) -> None:
        """End the last phase and wait until every record is acknowledged or has failed."""
        self._say("end")
        output, _ = self._client.communicate(timeout=_TIMEOUT_SECONDS)
        if self._client.returncode != 0:
            raise RuntimeError(f"FailoverProducer failed:\n{output[-3000:]}")
        self.result = json.loads(output.strip().splitlines()[-1])

    def _say(self, line: str) -> None:
        assert self._client.stdin is not None
        self._client.stdin.write(line + "\n")
        self._client.stdin.flush()


def _run_own(
    broker: Measured, main_class: str, arguments: Sequence[str]
) -> tuple[dict[str, float], float]:
    """One of the clients in `java/`; its last line is JSON."""
    command = _java(broker, main_class, arguments)
    output, cpu_seconds = _run_command(broker, main_class, command)
    result: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return result, cpu_seconds


def run_python(
    broker: Measured, python: str, module: str, arguments: Sequence[str]
) -> dict[str, float]:
    """A program of `python_clients/` with the interpreter of its client; its last line is JSON."""
    command = [python, "-m", f"benchmarks.python_clients.{module}", *arguments]
    environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    output, _ = _run_command(broker, module, command, environment)
    result: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return result


def _run(
    broker: Measured, class_path: Sequence[Path], main_class: str, arguments: Sequence[str]
) -> tuple[str, float]:
    """Output of a Java client, and the CPU of the broker meanwhile."""
    return _run_command(broker, main_class, _jvm(broker, class_path, main_class, arguments))


def _java(broker: Measured, main_class: str, arguments: Sequence[str]) -> list[str]:
    """The command of one of the clients in `java/`."""
    jars = kafka_jars()
    classes = compile_java("benchmarks", sorted(_SOURCES.glob("*.java")), jars)
    return _jvm(broker, [jars, classes], main_class, arguments)


def _jvm(
    broker: Measured, class_path: Sequence[Path], main_class: str, arguments: Sequence[str]
) -> list[str]:
    log4j = write_log4j(broker.directory, "ERROR")
    path = os.pathsep.join(f"{p}/*" if any(p.glob("*.jar")) else str(p) for p in class_path)
    return [
        *("java", *_JVM, f"-Dlog4j2.configurationFile={log4j}"),
        *("-cp", path, main_class, *arguments),
    ]


def _run_command(
    broker: Measured, name: str, command: Sequence[str], environment: dict[str, str] | None = None
) -> tuple[str, float]:
    """Output of the client, and the CPU of the broker from the line "measuring" (or the start)."""
    lines: list[str] = []
    wait_until_idle(Conditions.patience_seconds)
    others = OthersLoad()
    cpu_started = cpu_before = broker.cpu_seconds()
    client_before = _children_cpu_seconds()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, **(environment or {})},
    ) as client:  # fmt: skip
        assert client.stdout is not None
        try:
            for line in client.stdout:
                if line.strip() == "measuring":
                    cpu_before = broker.cpu_seconds()
                lines.append(line)
            client.wait(_TIMEOUT_SECONDS)
        except BaseException:
            client.kill()
            raise
    cpu_now = broker.cpu_seconds()
    own = cpu_now - cpu_started + _children_cpu_seconds() - client_before
    Conditions.others_shares.append(others.share(own))
    cpu_seconds = cpu_now - cpu_before
    output = "".join(lines)
    if client.returncode != 0:
        raise RuntimeError(f"{name} ended with {client.returncode}:\n{output[-3000:]}")
    return output, cpu_seconds


def _children_cpu_seconds() -> float:
    """Processor time of the clients that have ended; a broker counts only when it has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
