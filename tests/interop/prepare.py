"""Downloads and builds what the interop tests use, before they ask for it.

    python -m tests.interop.prepare

Each piece is one of the cache (`tests/support/cache.py`): a test that finds it missing makes it.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

from tests.interop.java_readers import JavaProcess
from tests.interop.kafka_classes import kafka_test_runner
from tests.interop.transactional_copy import CLIENTS
from tests.support.apache_kafka import kafka_jars
from tests.support.cache import require_commands
from tests.support.client_programs import JAVA_VERSIONS, all_clients
from tests.support.helm import built_helm
from tests.support.source_suites import (
    KAFKA_PYTHON_VERSIONS,
    franz_go_tests,
    kafka_python_source,
    librdkafka_tests,
)

Piece = tuple[str, Callable[[], object]]


def pieces() -> list[Piece]:
    """Everything that takes longer than a few seconds, each with a name."""
    made: list[Piece] = [("Apache Kafka", kafka_jars), ("librdkafka's tests", librdkafka_tests)]
    made.append(("franz-go's tests", franz_go_tests))
    made.append(("Kafka's test classes", kafka_test_runner))
    made += [(client.name, client.prepare) for client in all_clients()]
    made += [(f"Java's groups {name}", partial(JavaProcess, name)) for name in JAVA_VERSIONS]
    made += [(f"the copier {name}", command) for name, command in CLIENTS.items()]
    for version in KAFKA_PYTHON_VERSIONS:
        made.append((f"kafka-python {version}'s tests", partial(kafka_python_source, version)))
    for command, package in {"etcd": "etcd-server", "prometheus": "prometheus"}.items():
        made.append((command, partial(require_commands, {command: package})))
    made.append(("helm", built_helm))
    return made


def main() -> None:
    for name, make in pieces():
        began = time.monotonic()
        make()
        sys.stdout.write(f"{name}: {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
