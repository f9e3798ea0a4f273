"""The same requests to a real Apache Kafka and to Barnabas get the same answers, field by field.

Each script is a coroutine that talks to one broker and records what it answered; it runs against
both. Kafka is right unless `oracle/known.py` gives a reason. What the brokers draw themselves (ids,
ports, times) is replaced by symbols before it is compared; see `oracle/plain.py`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.interop.oracle.known import KNOWN_DIFFERENCES, KnownDifference
from tests.interop.oracle.plain import differences
from tests.interop.oracle.scripts import SCRIPTS
from tests.interop.oracle.side import Ranges, Script, Side, served_ranges
from tests.support.apache_kafka import ApacheKafka, kafka_jars
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_programs import INTEROP
from tests.support.java_tools import compile_java

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

_PROPERTIES = {
    "num.partitions": "2",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "metric.reporters": "TelemetryReceiver",
}
_RECEIVER = INTEROP / "java" / "TelemetryReceiver.java"


# What the scripts of this run have compared and met.
answers_count: Counter[str] = Counter()
seen_differences: set[KnownDifference] = set()


class Pair(NamedTuple):
    """Both brokers, and the versions that both serve."""

    kafka_port: int
    barnabas_port: int
    common: Ranges


def common_ranges(left: Ranges, right: Ranges) -> Ranges:
    """The versions that both serve."""
    shared = {}
    for key in left.keys() & right.keys():
        low, high = max(left[key][0], right[key][0]), min(left[key][1], right[key][1])
        if low <= high:
            shared[key] = (low, high)
    return shared


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    root = tmp_path_factory.mktemp("oracle")
    # Without a plug-in Apache Kafka serves no telemetry of clients.
    receiver = compile_java("telemetry-receiver", [_RECEIVER], kafka_jars())
    kafka = ApacheKafka(
        root / "apache",
        properties=_PROPERTIES,
        heap="512m",
        log_level="ERROR",
        more_classes=(receiver,),
    )
    # Kafka 4.1 computes a target for each group epoch.
    at_once = {"group.consumer.assignment.interval.ms": "0"}
    barnabas = BarnabasProcess(root / "barnabas", properties={**_PROPERTIES, **at_once})
    with ThreadPoolExecutor() as pool:
        for started in [pool.submit(broker.start) for broker in (kafka, barnabas)]:
            started.result()
    try:
        left = asyncio.run(served_ranges(kafka.port))
        right = asyncio.run(served_ranges(barnabas.port))
        yield Pair(kafka.port, barnabas.port, common_ranges(left, right))
    finally:
        barnabas.stop()
        kafka.kill()


async def run_script(script: Script, sides: tuple[Side, Side]) -> None:
    """The script against both at the same time."""
    try:
        await asyncio.gather(*(script(side) for side in sides))
    finally:
        for side in sides:
            await side.close()


def compare(name: str, kafka: Side, barnabas: Side) -> list[str]:
    """One line for each difference that has no reason; the same in other versions is one line."""
    titles = [[step.title for step in side.transcript] for side in (kafka, barnabas)]
    found: dict[str, list[str]] = {}
    for expected, actual in zip(kafka.transcript, barnabas.transcript, strict=False):
        answers_count[name] += 1
        if expected.title != actual.title:
            found["the steps differ"] = [expected.title, actual.title]
            break
        for path, left, right in differences(expected.answer, actual.answer):
            reasons = [k for k in KNOWN_DIFFERENCES if k.covers(name, expected.title, path)]
            seen_differences.update(reasons)
            if not reasons:
                title, _, version = expected.title.rpartition(" v")
                line = f"{title}: {path}: kafka {left!r}, barnabas {right!r}"
                found.setdefault(line, []).append(version)
    if len(titles[0]) != len(titles[1]):
        found["the number of steps differs"] = [str(len(each)) for each in titles]
    return [f"{line} (v {' '.join(versions)})" for line, versions in found.items()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_answers_are_those_of_apache_kafka(script: Script, pair: Pair) -> None:
    """Errors, edges and texts as a real broker has them."""
    prefix = f"{script.__name__}."
    kafka = Side(pair.kafka_port, prefix, pair.common)
    barnabas = Side(pair.barnabas_port, prefix, pair.common)
    asyncio.run(run_script(script, (kafka, barnabas)))
    found = compare(script.__name__, kafka, barnabas)
    assert kafka.request_count > 0
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)


def test_known_differences_are_met() -> None:
    """A reason that explains nothing any more goes; asked of a whole run only."""
    if len(answers_count) == len(SCRIPTS):
        assert seen_differences == set(KNOWN_DIFFERENCES)
        assert answers_count.total() > 5000
