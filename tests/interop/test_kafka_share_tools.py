"""`kafka-share-groups` and the console share consumer print the same as against Apache Kafka.

As `test_kafka_tools.py` does for the other tools, by the tools and the broker of version 4.2: the
first where share groups are not early access.
"""

import difflib
import re
from collections.abc import Iterator

import pytest

from tests.interop.share_brokers import start_share_broker
from tests.interop.transcripts import Transcript
from tests.support.kafka_tools import ToolCall

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

VERSION = "4.2.0"
# Listings in the order of somebody's hash table.
UNORDERED = frozenset(
    {
        "describe the group",
        "describe after consuming",
        "describe all groups",
        "list groups",
        "list groups with states",
        "plan a reset",
        "reset to the earliest",
        "reset to the latest",
        "reset to a time",
        "describe settings of the group",
    }
)

# Kafka writes once more when a session ends, and so its start is where the last write ended; ours
# follows with the next write. Lag counts what is written either way.
START_FOLLOWS = frozenset({"describe after consuming", "describe in full", "describe all groups"})
# Of a start that an admin has set, Kafka knows no lag until records are read.
LAG_IS_KNOWN = frozenset({"describe after the reset", "describe at the end"})

# Since 4.3 Kafka lists what is below the override of a group, too.
SYNONYMS_GO_ON = frozenset({"describe settings of the group"})


def _script() -> dict[str, ToolCall]:
    """All calls by what they do, in order; `@` stands for the address."""
    where = ("--bootstrap-server", "@")

    def groups(*arguments: str) -> ToolCall:
        return ToolCall("share-groups", (*where, *arguments))

    def create(topic: str, count: int) -> ToolCall:
        arguments = ("--create", "--topic", topic, "--partitions", str(count))
        return ToolCall("topics", (*where, *arguments))

    def configs(*arguments: str) -> ToolCall:
        entity = ("--entity-type", "groups", "--entity-name", "queue")
        return ToolCall("configs", (*where, *arguments, *entity))

    def reset(*arguments: str) -> ToolCall:
        return groups("--reset-offsets", "--group", "queue", *arguments)

    def consume(count: int) -> ToolCall:
        arguments = ("--topic", "jobs", "--group", "queue", "--max-messages", str(count))
        return ToolCall("console-share-consumer", (*where, *arguments, "--timeout-ms", "20000"))

    def produce(topic: str, lines: str) -> ToolCall:
        return ToolCall("console-producer", (*where, "--topic", topic), lines)

    all_topics = ("--all-topics", "--to-earliest")
    jobs = ("--topic", "jobs")
    return {
        "create a topic": create("jobs", 1),
        "create another topic": create("tasks", 2),
        "list nothing": groups("--list"),
        "describe a missing group": groups("--describe", "--group", "nobody"),
        "delete a missing group": groups("--delete", "--group", "nobody"),
        "begin at the earliest": configs(
            "--alter", "--add-config", "share.auto.offset.reset=earliest"
        ),
        "describe settings of the group": configs("--describe"),
        "refuse a setting": configs(
            "--alter", "--add-config", "share.record.lock.duration.ms=99000"
        ),
        "produce": produce("jobs", "first\nsecond\nthird\n"),
        "consume": consume(2),
        "list groups": groups("--list"),
        "list groups with states": groups("--list", "--state"),
        "list empty groups": groups("--list", "--state", "Empty"),
        "list stable groups": groups("--list", "--state", "Stable"),
        "describe after consuming": groups("--describe", "--group", "queue"),
        "describe in full": groups("--describe", "--group", "queue", "--verbose"),
        "describe the state": groups("--describe", "--group", "queue", "--state", "--verbose"),
        "describe members": groups("--describe", "--group", "queue", "--members"),
        "describe all groups": groups("--describe", "--all-groups"),
        "plan a reset": reset("--topic", "jobs:0", "--to-earliest", "--dry-run"),
        "reset to the earliest": reset(*jobs, "--to-earliest", "--execute"),
        "describe after the reset": groups("--describe", "--group", "queue"),
        "reset to a time": reset(*jobs, "--to-datetime", "2020-01-01T00:00:00.000", "--execute"),
        "reset to the latest": reset(*jobs, "--to-latest", "--execute"),
        "describe at the end": groups("--describe", "--group", "queue"),
        "reset all topics": reset(*all_topics, "--execute"),
        "reset on a missing topic": reset("--topic", "missing", "--to-earliest", "--execute"),
        "consume what was reset": consume(3),
        "reset a new group": groups(
            *("--reset-offsets", "--group", "fresh", "--topic", "tasks", "--to-earliest"),
            "--execute",
        ),
        "delete offsets": groups("--delete-offsets", "--group", "queue", *jobs),
        "delete offsets again": groups("--delete-offsets", "--group", "queue", *jobs),
        "delete offsets of a missing topic": groups(
            "--delete-offsets", "--group", "queue", "--topic", "missing"
        ),
        "describe the group": groups("--describe", "--group", "queue"),
        "delete a group": groups("--delete", "--group", "queue"),
        "list what is left": groups("--list"),
    }


CALL_NAMES = tuple(_script())


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Transcript]]:
    """The transcripts of both; each broker runs alone."""
    result = {}
    for kind in (VERSION, "barnabas"):
        directory = tmp_path_factory.mktemp(f"share-tools-{kind}")
        broker = start_share_broker(kind, directory / "broker")
        try:
            result[kind] = Transcript(broker, directory / "calls", _script(), VERSION)
        finally:
            broker.stop()
    yield result


@pytest.mark.parametrize("name", CALL_NAMES)
def test_a_share_tool_prints_the_same(name: str, transcripts: dict[str, Transcript]) -> None:
    """SHR-39: output, errors and exit code."""
    expected, found = (
        _comparable(name, transcripts[kind].lines(name)) for kind in (VERSION, "barnabas")
    )
    if name in UNORDERED:
        expected, found = sorted(expected), sorted(found)
    difference = "\n".join(
        difflib.unified_diff(expected, found, "Apache Kafka", "Barnabas", lineterm="")
    )
    assert not difference, f"{name}:\n{difference}"


def _comparable(name: str, lines: list[str]) -> list[str]:
    """Leave out what differs on purpose."""
    if name in SYNONYMS_GO_ON:
        return [re.sub(r", DEFAULT_CONFIG:[^}]*}", "}", line) for line in lines]
    if name in START_FOLLOWS:
        return [re.sub(r"^(queue jobs 0.*) \d+ (\d+)$", r"\1 START \2", line) for line in lines]
    if name in LAG_IS_KNOWN:
        return [re.sub(r"^(queue jobs 0 \d+) (-|\d+)$", r"\1 LAG", line) for line in lines]
    return lines
