"""librdkafka's own C tests, built from its sources, against our address.

Most run in quick mode, four at a time; those that do nothing in quick mode run in full, and the
parts of the admin test one by one. Tests that emulate a bad network close descriptors of others, so
each has a process of its own. A test that fails beside others is repeated alone, and said so: many
measure time, and the machine may be small. What is not run is listed with reasons in
`left_out/librdkafka*.txt`; no other test may skip itself.
"""

import asyncio
import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas_protocol.messages.metadata import MetadataRequest
from tests.interop.left_out import left_out
from tests.interop.started_brokers import AnyBroker
from tests.support.apache_kafka import kafka_jars
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.raw_client import RawClient
from tests.support.source_suites import librdkafka_tests

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1500)]

# Some start two members at once and expect them to be assigned partitions together.
BROKER_PROPERTIES = {"group.initial.rebalance.delay.ms": "500"}
# The release that our served APIs are nearest to; it decides which tests apply.
KAFKA_VERSION = "4.1.1"
# In quick mode these return at once.
IN_FULL = (
    *("0018", "0019", "0026", "0045", "0061", "0077", "0082", "0089"),
    *("0102", "0122", "0129", "0132", "0137"),
)
# It creates topics of three replicas.
OF_THREE_BROKERS = ("0103",)
# These use the suite's socket emulation. It closes descriptors that it has closed already, which
# may be another test's by then: one that waits on a connection of somebody else waits for ever.
EMULATED = ("0049", "0075", "0076", "0086", "0088", "0094")
ADMIN = "0081"
ADMIN_PARTS = (
    "do_test_unclean_destroy",
    "do_test_CreateTopics",
    "do_test_DeleteTopics",
    "do_test_CreatePartitions",
    "do_test_AlterConfigs",
    "do_test_IncrementalAlterConfigs",
    "do_test_DescribeConfigs:",
    "do_test_DeleteRecords",
    "do_test_ListConsumerGroups",
    "do_test_DescribeConsumerGroups:",
    "do_test_DescribeTopics",
    "do_test_DescribeCluster",
    "do_test_DeleteGroups",
    "do_test_DeleteConsumerGroupOffsets",
    "do_test_ListOffsets",
    "do_test_AlterConsumerGroupOffsets",
    "do_test_ListConsumerGroupOffsets",
)
REPETITIONS = 3
_SUMMARY = re.compile(r"\|\s*(\d{4})_(\S*)\s*\|\s*(PASSED|FAILED|SKIPPED)\s*\|\s*(\S+)\s*\|(.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Tests of which some need a broker that creates no topics by itself, others no broker at all.
_OTHER_RUN = ("requires test scenario", "Filtered due to negative test flags", "not included in")

Outcomes = dict[str, tuple[str, str]]


# The assertion of the socket emulation, and glibc's, whose descriptor was closed by the program.
_CLOSED_TWICE = ("sockem", "on netlink descriptor")


class ProgramDiedError(Exception):
    """The test program ended before its summary; holds the end of its output."""


class Suite:
    """Runs the test program against one address."""

    def __init__(
        self,
        broker: AnyBroker | BarnabasCluster,
        directory: Path,
        topic_prefix: str = "rdkafkatest",
    ) -> None:
        self.broker = broker
        self.topic_prefix = topic_prefix
        self.directory = directory
        self.tests = librdkafka_tests()
        self.output = ""
        directory.mkdir(exist_ok=True)
        config = directory / "test.conf"
        config.write_text(
            f"bootstrap.servers={broker.bootstrap}\ntest.timeout.multiplier=2\n"
            f"test.topic.prefix={topic_prefix}\n"
        )
        scripts = directory / "kafka" / "bin"
        scripts.mkdir(parents=True)
        script = scripts / "kafka-topics.sh"
        options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m"
        tool = f'-cp "{kafka_jars()}/*" org.apache.kafka.tools.TopicCommand'
        script.write_text(f'#!/bin/sh\nexec java {options} {tool} "$@"\n')
        script.chmod(0o755)
        source = self.tests.parent
        # A test reads a file beside the sources by a relative path.
        self.work = directory / "run" / "tests"
        self.work.mkdir(parents=True)
        (self.work.parent / "src").symlink_to(source / "src")
        self.environment = {
            "LD_LIBRARY_PATH": f"{source}/src:{source}/src-cpp",
            "RDKAFKA_TEST_CONF": str(config),
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
            "KAFKA_PATH": str(scripts.parent),
            "BROKERS": broker.bootstrap,
            "TEST_LEVEL": "2",
        }

    def run(self, *options: str, **environment: str) -> Outcomes:
        """Outcomes by test name: state and what the summary says about it.

        Line by line, as the program aborts after a failure with its output in its buffer.
        """
        result = subprocess.run(
            ["stdbuf", "-oL", str(self.tests / "test-runner"), "-L", *options],
            cwd=self.work,
            env={**os.environ, **self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=1400,
            check=False,
        )
        self.output = _COLOUR.sub("", result.stdout.decode(errors="replace"))
        (self.directory / "last-output.txt").write_text(self.output)
        outcomes: Outcomes = {}
        for number, rest, state, _, remark in _SUMMARY.findall(self.output):
            name = f"{number}_{rest}"
            if not any(text in remark for text in _OTHER_RUN):
                outcomes[name] = (state, remark.strip(" |"))
        if not outcomes:
            raise ProgramDiedError(self.output[-3000:])
        return outcomes

    def run_with_repetition(self, *options: str, **environment: str) -> Outcomes:
        """The same; what failed beside others runs again alone, three times at most.

        So does all of it when the program died of an assertion about its own sockets: a timeout
        on a busy machine makes its socket emulation close what it has closed already.
        """
        for attempts_left in reversed(range(REPETITIONS)):
            try:
                outcomes = self.run(*options, "-p4", **environment)
                break
            except ProgramDiedError as death:
                if not attempts_left or not any(sign in str(death) for sign in _CLOSED_TWICE):
                    raise
                print(f"the test program died and was started again: {str(death)[-200:]}")
                self.delete_topics_left_behind()
        failed = [name for name, (state, _) in outcomes.items() if state == "FAILED"]
        for name in failed * REPETITIONS:
            if outcomes[name][0] == "FAILED":
                self.delete_topics_left_behind()
                state, remark = self.run(*options, "-p1", TESTS=name[:4], TESTS_SKIP="")[name]
                print(f"{name} failed beside others and was repeated: {state} {remark}")
                outcomes[name] = (state, remark)
                if state == "FAILED":
                    outcomes[name] = (state, f"{remark}\n{self.output[-3000:]}")
        return outcomes

    def delete_topics_left_behind(self) -> None:
        """What a failed run has left would match the patterns that the next run subscribes to."""
        port = int(self.broker.bootstrap.rpartition(":")[2])
        asyncio.run(_delete_topics(port, self.topic_prefix))


async def _delete_topics(port: int, prefix: str) -> None:
    async with await RawClient.connect(port) as client:
        cluster = await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        names = [topic.name for topic in cluster.topics if topic.name.startswith(prefix)]
        await client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=names))


def check(outcomes: Outcomes, least: int) -> None:
    """Every test has passed, and there were at least that many."""
    bad = {name: outcome for name, outcome in outcomes.items() if outcome[0] != "PASSED"}
    assert not bad, "\n".join(f"{name}: {state}: {why}" for name, (state, why) in bad.items())
    assert len(outcomes) >= least, sorted(outcomes)
    print(f"librdkafka: {len(outcomes)} passed")


@pytest.fixture
def suite(broker: AnyBroker, tmp_path: Path) -> Suite:
    return Suite(broker, tmp_path)


def test_the_quick_tests_of_librdkafka_pass(suite: Suite) -> None:
    wholly = [name for name in left_out("librdkafka") if name.isdigit()]
    skipped: Sequence[str] = (*wholly, *IN_FULL, *OF_THREE_BROKERS, ADMIN, *EMULATED)
    outcomes = suite.run_with_repetition("-Q", TESTS_SKIP=",".join(skipped))
    for name in list(outcomes):
        if name[:4] in skipped or outcomes[name][1] == "Test skipped due to quick mode":
            del outcomes[name]
    check(outcomes, 60 - len(EMULATED))


def test_the_tests_with_emulated_sockets_pass(broker: AnyBroker, tmp_path: Path) -> None:
    def run(number: str) -> Outcomes:
        suite = Suite(broker, tmp_path / number, f"emulated-{number}")
        return suite.run_with_repetition("-Q", TESTS=number)

    with ThreadPoolExecutor(3) as threads:
        for number, outcomes in zip(EMULATED, threads.map(run, EMULATED), strict=True):
            assert [name[:4] for name in outcomes] == [number]
            check(outcomes, 1)


@pytest.mark.long
def test_the_tests_that_have_no_quick_form_pass(suite: Suite) -> None:
    outcomes = suite.run_with_repetition(TESTS=",".join(IN_FULL))
    check(outcomes, len(IN_FULL))


@pytest.mark.long
def test_transactions_pass_on_three_brokers(tmp_path: Path) -> None:
    """TXN-2 to TXN-5, TXN-9: fencing, offsets, aborts, and what follows each error."""
    # Two of its producers write to a topic that nobody has created.
    properties = {**BROKER_PROPERTIES, "auto.create.topics.enable": "true"}
    with BarnabasCluster(tmp_path / "cluster", properties=properties) as cluster:
        suite = Suite(cluster, tmp_path / "suite")
        outcomes = suite.run_with_repetition(TESTS=",".join(OF_THREE_BROKERS))
        check(outcomes, len(OF_THREE_BROKERS))


@pytest.mark.parametrize("part", ADMIN_PARTS)
def test_a_part_of_the_admin_test_passes(part: str, suite: Suite) -> None:
    check(suite.run("-p1", "-Q", TESTS=ADMIN, SUBTESTS=part), 1)
    assert f"[ {part}" in suite.output, f"{part} did not run"
