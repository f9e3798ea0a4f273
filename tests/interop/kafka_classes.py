"""Kafka's own test classes of its clients, from Maven, against Barnabas in place of its brokers.

    python -m tests.interop.kafka_classes                            # all, about an hour
    python -m tests.interop.kafka_classes ShareConsumerTest          # one class
    python -m tests.interop.kafka_classes ShareConsumerTest#testClose  # one test

Their classes start Kafka's brokers in the same JVM by an extension of JUnit. An extension of ours
takes its place (`java/kafka_classes`): each test gets a cluster of its own, with the settings that
the test asks for, as processes. What cannot run so, as it looks into the objects of a broker, is
listed with the reason in `left_out/kafka_classes.txt`; no other test may fail or skip itself.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.interop.kafka_class_brokers import ClassBrokers
from tests.interop.left_out import left_out
from tests.support.apache_kafka import write_log4j
from tests.support.java_tools import compile_java, java_command, maven_jars

VERSION = "4.3.1"
_SOURCES = Path(__file__).resolve().parent / "java" / "kafka_classes"
_CLIENTS = "org.apache.kafka.clients."
CLASSES = {
    name.rpartition(".")[2]: _CLIENTS + name
    for name in (
        "TransactionsExpirationTest",
        "TransactionsWithMaxInFlightOneTest",
        "producer.ProducerIntegrationTest",
        "producer.ProducerIdExpirationTest",
        "admin.AdminFenceProducersTest",
        "admin.DescribeProducersWithBrokerIdTest",
        "admin.DynamicGroupConfigIntegrationTest",
        "consumer.ShareConsumerRackAwareTest",
        "consumer.ShareConsumerTest",
        "consumer.ConsumerIntegrationTest",
        "consumer.PlaintextConsumerTest",
        "consumer.PlaintextConsumerAssignTest",
        "consumer.PlaintextConsumerCallbackTest",
        "consumer.PlaintextConsumerCloseTest",
        "consumer.PlaintextConsumerCommitTest",
        "consumer.PlaintextConsumerFetchTest",
        "consumer.PlaintextConsumerPollTest",
        "consumer.PlaintextConsumerSubscriptionTest",
    )
}


class Outcome(NamedTuple):
    """Of one run of a test; a test has one for each cluster configuration that it names."""

    test: str
    number: int
    state: str
    milliseconds: int
    error: str


def kafka_test_jars() -> Path:
    """The folder with Kafka's test classes and all that they need."""
    kafka = "org.apache.kafka:"
    return maven_jars(
        f"kafka-tests-{VERSION}",
        [
            f"{kafka}kafka-clients-integration-tests:{VERSION}:test",
            f"{kafka}kafka-test-common-runtime:{VERSION}",
            f"{kafka}kafka_2.13:{VERSION}",
            f"{kafka}kafka_2.13:{VERSION}:test",
            f"{kafka}kafka-clients:{VERSION}:test",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
        ],
    )


def kafka_test_runner() -> Path:
    """The folder with our extension and runner."""
    return compile_java("kafka-classes", sorted(_SOURCES.glob("*.java")), kafka_test_jars())


def run_tests(names: Sequence[str], directory: Path, timeout_seconds: float) -> list[Outcome]:
    """Outcomes of classes, or of `Class#method`; those left out are among them."""
    classes = list(dict.fromkeys(name.partition("#")[0] for name in names))
    extensions = directory / "extensions"
    services = extensions / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.junit.jupiter.api.extension.Extension").write_text("ClusterTests\n")
    outcomes, excluded, only = (directory / name for name in ("outcomes", "excluded", "only"))
    excluded.write_text("".join(f"{name}\n" for name in left_out("kafka_classes")))
    methods = [name for name in names if "#" in name]
    only.write_text("".join(f"{name}\n" for name in methods))
    with ClassBrokers(directory / "brokers") as brokers:
        command = java_command(
            [extensions, kafka_test_runner(), kafka_test_jars()],
            "KafkaClasses",
            [str(outcomes), str(excluded), str(only) if methods else "-"]
            + [CLASSES[name] for name in classes],
            heap="512m",
        )
        command[1:1] = [
            f"-Dlog4j2.configurationFile={write_log4j(directory, 'OFF')}",
            f"-Dbarnabas.control.port={brokers.port}",
        ]
        with (directory / "output.log").open("w") as output:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_seconds,
                env={**os.environ, "TZ": "UTC"},
                check=False,
            )
    if ended.returncode != 0:
        told = (directory / "output.log").read_text()[-3000:]
        raise RuntimeError(f"exit {ended.returncode} of the test program: {told}")
    return [_outcome(line) for line in outcomes.read_text().splitlines()]


def failures(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that have neither passed nor been left out."""
    return [one for one in outcomes if one.state not in ("passed", "left out")]


def _outcome(line: str) -> Outcome:
    test, number, state, milliseconds, error = line.split("\t")
    return Outcome(test, int(number), state, int(milliseconds), error.replace("\\n", "\n"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.kafka_classes")
    parser.add_argument("tests", nargs="*", default=list(CLASSES), metavar="CLASS[#METHOD]")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.tests if name.partition("#")[0] not in CLASSES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(CLASSES)}")
    is_bad = False
    by_class: dict[str, list[str]] = {}
    for name in arguments.tests:
        by_class.setdefault(name.partition("#")[0], []).append(name)
    for kafka_class, names in by_class.items():
        with tempfile.TemporaryDirectory(prefix="barnabas-classes-") as directory:
            outcomes = run_tests(names, Path(directory), 3600)
        counts = Counter(one.state for one in outcomes)
        seconds = sum(one.milliseconds for one in outcomes) / 1000
        counted = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        print(f"{kafka_class}: {counted}, {seconds:.0f} s", flush=True)
        for one in failures(outcomes):
            print(f"{one.test} [{one.number}] {one.state}: {one.error[:3000]}\n", flush=True)
        is_bad = is_bad or bool(failures(outcomes))
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
