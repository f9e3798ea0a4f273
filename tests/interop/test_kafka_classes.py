"""Some of Kafka's own test classes against Barnabas; `kafka_classes.py` runs them all.

These have a broker for each test, most of them with settings of its own.
"""

from pathlib import Path

import pytest

from tests.interop.kafka_classes import CLASSES, failures, run_tests
from tests.interop.left_out import left_out

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

# Those that take seconds.
HERE = (
    "AdminFenceProducersTest",
    "DescribeProducersWithBrokerIdTest",
    "DynamicGroupConfigIntegrationTest",
    "TransactionsWithMaxInFlightOneTest",
)


def test_some_classes_of_kafka_pass(tmp_path: Path) -> None:
    outcomes = run_tests(HERE, tmp_path, 800)
    bad = failures(outcomes)
    assert not bad, "\n".join(f"{one.test} [{one.number}]: {one.error[:2000]}" for one in bad)
    assert {one.test.partition("#")[0] for one in outcomes} == set(HERE)


def test_tests_left_out_are_of_classes_that_run() -> None:
    assert {name.partition("#")[0] for name in left_out("kafka_classes")} <= set(CLASSES)
