"""Kafka's command line tools print the same against Barnabas as against Apache Kafka.

One script of calls runs against both. Ids, times, ports, paths and measured numbers are replaced
by placeholders; everything else, errors and exit codes included, must be equal line by line.
"""

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.started_brokers import PROPERTIES, start_broker
from tests.interop.transcripts import Transcript
from tests.support.kafka_tools import ToolCall

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_RECORDS = "".join(f"key-{n}:value number {n}\n" for n in range(12))
_HEADED = "trace:abc,from:test\tkey-a\tvalue with headers\nplain:\tkey-b\tlast value\n"
# Listings in the order of somebody's hash table.
UNORDERED = frozenset(
    {
        "describe overrides",
        "describe every topic's configs",
        "describe all by settings",
        "describe all subscriptions",
        "list client metrics",
        "list groups",
        "list groups with states",
        "list groups with types",
        "describe all groups",
        "list what is left",
    }
)
_PRINT = ("timestamp=false", "partition=true", "offset=true", "key=true", "headers=true")


def _call(tool: str, *arguments: str, lines: str | None = None) -> ToolCall:
    return ToolCall(tool, arguments, lines)


def _topic_calls() -> dict[str, ToolCall]:
    def topics(*arguments: str) -> ToolCall:
        return _call("topics", "--bootstrap-server", "@", *arguments)

    create = ("--create", "--topic")
    return {
        "create a topic": topics(*create, "orders", "--partitions", "3"),
        "create with configs": topics(
            *(*create, "events", "--partitions", "1", "--replication-factor", "1"),
            *("--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete"),
        ),
        "create with assignments": topics(*create, "assigned", "--replica-assignment", "1,1"),
        "create again": topics(*create, "orders"),
        "create if it does not exist": topics(*create, "orders", "--if-not-exists"),
        "create a bad name": topics(*create, "bad/name"),
        "create a name that collides": topics(*create, "a.name_here"),
        "create without partitions": topics(*create, "none", "--partitions", "0"),
        "create with too many replicas": topics(*create, "three", "--replication-factor", "3"),
        "create with an unknown config": topics(*create, "unknown", "--config", "no.such=1"),
        "create with a bad config": topics(*create, "bad", "--config", "segment.bytes=many"),
        "list topics": topics("--list"),
        "list by pattern": topics("--list", "--topic", "o.*s"),
        "describe a topic": topics("--describe", "--topic", "orders"),
        "describe configs": topics("--describe", "--topic", "events"),
        "describe overrides": topics("--describe", "--topics-with-overrides"),
        "describe under-replicated": topics("--describe", "--under-replicated-partitions"),
        "describe at min isr": topics("--describe", "--at-min-isr-partitions", "--topic", "orders"),
        "describe a missing topic": topics("--describe", "--topic", "missing"),
        "add partitions": topics("--alter", "--topic", "orders", "--partitions", "4"),
        "take partitions away": topics("--alter", "--topic", "orders", "--partitions", "2"),
        "describe after growth": topics("--describe", "--topic", "orders"),
        "alter a missing topic": topics("--alter", "--topic", "missing", "--partitions", "2"),
        "delete a topic": topics("--delete", "--topic", "assigned"),
        "delete a missing topic": topics("--delete", "--topic", "assigned"),
    }


def _config_calls() -> dict[str, ToolCall]:
    def configs(verb: str, kind: str, name: str, *more: str) -> ToolCall:
        where = ("--entity-type", kind, *(("--entity-name", name) if name else ()))
        return _call("configs", "--bootstrap-server", "@", verb, *where, *more)

    topic, broker = ("--alter", "topics", "orders"), ("--alter", "brokers", "1")
    describe = ("--describe", "topics", "orders")
    return {
        "describe topic configs": configs(*describe),
        "describe all topic configs": configs(*describe, "--all"),
        "set a topic config": configs(*topic, "--add-config", "max.message.bytes=100000"),
        "set two topic configs": configs(
            *topic, "--add-config", "retention.ms=7200000,cleanup.policy=[compact,delete]"
        ),
        "describe changed configs": configs(*describe),
        "unset a topic config": configs(*topic, "--delete-config", "max.message.bytes"),
        "unset what is not set": configs(*topic, "--delete-config", "flush.ms"),
        "describe what is left": configs(*describe),
        "set a bad value": configs(*topic, "--add-config", "min.insync.replicas=0"),
        "set an unknown config": configs(*topic, "--add-config", "no.such.config=1"),
        "describe a missing topic's configs": configs("--describe", "topics", "missing"),
        "set configs of a missing topic": configs(
            "--alter", "topics", "missing", "--add-config", "flush.ms=1"
        ),
        "describe every topic's configs": configs("--describe", "topics", ""),
        "describe broker configs": configs("--describe", "brokers", "1"),
        "set a broker config": configs(*broker, "--add-config", "log.retention.ms=86400000"),
        "set a default for brokers": configs(
            "--alter", "brokers", "", "--entity-default", "--add-config", "message.max.bytes=900000"
        ),
        "describe changed broker configs": configs("--describe", "brokers", "1"),
        "describe defaults of brokers": configs("--describe", "brokers", "", "--entity-default"),
        "describe inherited configs": configs(*describe, "--all"),
        "unset a broker config": configs(*broker, "--delete-config", "log.retention.ms"),
        "unset a default for brokers": configs(
            "--alter", "brokers", "", "--entity-default", "--delete-config", "message.max.bytes"
        ),
        "set a read-only broker config": configs(*broker, "--add-config", "log.dirs=/elsewhere"),
        # What was altered is described after something else: Apache Kafka's answer comes from an
        # image of the metadata that may lack the change that it has just acknowledged.
        "set quotas of a client": configs(
            *("--alter", "clients", "app", "--add-config"),
            "producer_byte_rate=1000,consumer_byte_rate=2000",
        ),
        "set a bad quota": configs("--alter", "clients", "app", "--add-config", "no_such=1"),
        "unset the rest": configs(*topic, "--delete-config", "retention.ms,cleanup.policy"),
        "describe quotas of a client": configs("--describe", "clients", "app"),
        "unset a quota": configs(
            "--alter", "clients", "app", "--delete-config", "producer_byte_rate"
        ),
        "describe broker configs at the end": configs("--describe", "brokers", "1"),
        "describe quotas of all clients": configs("--describe", "clients", ""),
        "unset the last quota": configs(
            "--alter", "clients", "app", "--delete-config", "consumer_byte_rate"
        ),
    }


def _client_metrics_calls() -> dict[str, ToolCall]:
    """TEL-1: subscriptions to metrics of clients, by their own tool and by that of settings."""

    def metrics(*arguments: str) -> ToolCall:
        return _call("client-metrics", "--bootstrap-server", "@", *arguments)

    def configs(verb: str, *more: str) -> ToolCall:
        return _call(
            "configs", "--bootstrap-server", "@", verb, "--entity-type", "client-metrics", *more
        )

    producers, all_of_it = ("--name", "producers"), ("--entity-name", "everything")
    return {
        "list no client metrics": metrics("--list"),
        "subscribe to metrics": metrics(
            *("--alter", *producers, "--interval", "30000"),
            *("--metrics", "org.apache.kafka.producer.,org.apache.kafka.admin."),
            *("--match", "client_id=app.*,client_software_name=apache-kafka-java"),
        ),
        "describe a subscription": metrics("--describe", *producers),
        "change a subscription": metrics("--alter", *producers, "--metrics", "*"),
        "reset a subscription": metrics("--alter", *producers, "--interval", ""),
        "subscribe too often": metrics("--alter", *producers, "--interval", "1"),
        "subscribe to an unknown match": metrics("--alter", *producers, "--match", "colour=red"),
        "subscribe by settings": configs("--alter", *all_of_it, "--add-config", "metrics=[a,b]"),
        "describe by settings": configs("--describe", *all_of_it),
        "describe all by settings": configs("--describe"),
        "subscribe to a bad setting": configs("--alter", *all_of_it, "--add-config", "colour=red"),
        "describe all subscriptions": metrics("--describe"),
        "list client metrics": metrics("--list"),
        "delete a subscription": metrics("--delete", *producers),
        "delete it by settings": configs("--alter", *all_of_it, "--delete-config", "metrics"),
        "delete a missing subscription": metrics("--delete", *producers),
        "describe a missing subscription": metrics("--describe", *producers),
        "describe it by settings": configs("--describe", *all_of_it),
        "list what is not subscribed": metrics("--list"),
    }


def _record_calls() -> dict[str, ToolCall]:
    def produce(topic: str, lines: str, *properties: str) -> ToolCall:
        more = [word for pair in properties for word in ("--property", pair)]
        where = ("--bootstrap-server", "@", "--topic", topic)
        return _call("console-producer", *where, *more, lines=lines)

    def consume(topic: str, count: int, *more: str) -> ToolCall:
        printed = [word for pair in _PRINT for word in ("--property", f"print.{pair}")]
        where = ("--bootstrap-server", "@", "--topic", topic, "--timeout-ms", "20000")
        return _call("console-consumer", *where, "--max-messages", str(count), *printed, *more)

    def offsets(*more: str) -> ToolCall:
        return _call("get-offsets", "--bootstrap-server", "@", *more)

    keyed = ("parse.key=true", "key.separator=:")
    headed = ("parse.key=true", "parse.headers=true")
    early = "--from-beginning"
    first = ("--partition", "0")
    return {
        "produce keyed lines": produce("orders", _RECORDS, *keyed),
        "produce headers": produce("events", _HEADED, *headed),
        "produce a line without key": produce("events", "no separator\n", *keyed),
        "consume a partition": consume("orders", 2, *first, "--offset", "earliest"),
        "consume headers": consume("events", 2, early, "--group", "others"),
        "consume from an offset": consume("events", 1, *first, "--offset", "1"),
        "consume in a group": consume("events", 2, early, "--group", "readers"),
        "consume nothing": _call(
            "console-consumer",
            *("--bootstrap-server", "@", "--topic", "events", "--timeout-ms", "500"),
            *("--group", "readers"),
        ),
        "offsets at the end": offsets("--topic", "orders"),
        "offsets at the start": offsets("--topic", "orders", "--time", "-2"),
        # One record alone, and later than the others: two of one call may share a millisecond.
        "produce the last record": produce("events", "trace:last\tkey-c\tlatest\n", *headed),
        # The producer lingers for a second, and its tool does not wait for it.
        "consume the last record": consume("events", 1, *first, "--offset", "2"),
        "offsets of the largest time": offsets("--topic", "events", "--time", "-3"),
        "offsets at a time": offsets("--topic", "orders", "--time", "1000"),
        "offsets after all": offsets("--topic", "orders", "--time", "99999999999999"),
        "offsets of partitions": offsets("--topic-partitions", "orders:0,orders:2-4,events:0"),
        "offsets by pattern": offsets("--topic", "ev.*", "--exclude-internal-topics"),
        "offsets of a missing topic": offsets("--topic", "missing"),
    }


def _group_calls() -> dict[str, ToolCall]:
    def groups(*arguments: str) -> ToolCall:
        return _call("groups", "--bootstrap-server", "@", *arguments)

    def reset(*arguments: str) -> ToolCall:
        return groups("--reset-offsets", "--group", "readers", *arguments)

    topic = ("--topic", "events")
    describe = ("--describe", "--group", "readers")
    return {
        "list groups": groups("--list"),
        "list groups with states": groups("--list", "--state"),
        "list groups with types": groups("--list", "--type"),
        "list stable groups": groups("--list", "--state", "Stable"),
        "describe a group": groups(*describe),
        "describe offsets in full": groups(*describe, "--offsets", "--verbose"),
        "describe members": groups(*describe, "--members", "--verbose"),
        "describe the state": groups(*describe, "--state"),
        "describe all groups": groups("--describe", "--all-groups"),
        "describe a missing group": groups("--describe", "--group", "nobody"),
        "plan a reset": reset(*topic, "--to-earliest", "--dry-run"),
        "reset to the earliest": reset(*topic, "--to-earliest", "--execute"),
        "describe after the reset": groups(*describe),
        "reset by a shift": reset(*topic, "--shift-by", "1", "--execute"),
        "reset too far": reset(*topic, "--shift-by", "100", "--execute"),
        "reset to an offset": reset("--topic", "events:0", "--to-offset", "1", "--execute"),
        "reset to a time": reset(*topic, "--to-datetime", "2020-01-01T00:00:00.000", "--execute"),
        "reset to the latest": reset(*topic, "--to-latest", "--execute"),
        "reset all topics": reset("--all-topics", "--to-current", "--dry-run"),
        "export offsets": reset("--all-topics", "--to-current", "--export"),
        "reset a new group": groups(
            *("--reset-offsets", "--group", "fresh", "--topic", "orders", "--to-earliest"),
            "--execute",
        ),
        "reset on a missing topic": reset("--topic", "missing", "--to-earliest", "--execute"),
        "delete offsets": groups("--delete-offsets", "--group", "fresh", "--topic", "orders"),
        "delete a group": groups("--delete", "--group", "readers"),
        "delete a missing group": groups("--delete", "--group", "nobody"),
        "list what is left": groups("--list"),
    }


def _other_calls(directory: Path) -> dict[str, ToolCall]:
    def deletion(name: str, topic: str, partition: int, offset: int) -> ToolCall:
        path = directory / f"{name}.json"
        if not directory.is_dir():  # only the names of the calls are wanted
            return _call("delete-records")
        entry = {"topic": topic, "partition": partition, "offset": offset}
        path.write_text(json.dumps({"partitions": [entry], "version": 1}))
        return _call("delete-records", "--bootstrap-server", "@", "--offset-json-file", str(path))

    where = ("--bootstrap-server", "@")
    perf = ("--topic", "load", "--num-records", "2000", "--record-size", "100")
    return {
        "delete records": deletion("some", "events", 0, 1),
        "offsets after deletion": _call("get-offsets", *where, "--topic", "events", "--time", "-2"),
        "delete records too far": deletion("far", "events", 0, 100),
        "delete all records": deletion("all", "events", 0, -1),
        "offsets after deleting all": _call(
            "get-offsets", *where, "--topic", "events", "--time", "-2"
        ),
        "describe log dirs": _call(
            "log-dirs", *where, "--describe", "--topic-list", "orders,events"
        ),
        "describe log dirs of a missing broker": _call(
            "log-dirs", *where, "--describe", "--broker-list", "1,7", "--topic-list", "orders"
        ),
        "create a topic for load": _call("topics", *where, "--create", "--topic", "load"),
        "produce load": _call(
            "producer-perf",
            *(*perf, "--throughput", "-1", "--producer-props", "bootstrap.servers=@", "acks=all"),
        ),
        "consume load": _call(
            "consumer-perf",
            *(*where, "--topic", "load", "--messages", "2000", "--group", "perf"),
            *("--timeout", "20000"),
        ),
        "delete everything": _call("topics", *where, "--delete", "--topic", "orders|events|load"),
        "list nothing": _call("topics", *where, "--list", "--exclude-internal"),
    }


def script(directory: Path) -> dict[str, ToolCall]:
    """All calls by what they do, in order; `@` stands for the address."""
    return {
        **_topic_calls(),
        **_config_calls(),
        **_client_metrics_calls(),
        **_record_calls(),
        **_group_calls(),
        **_other_calls(directory),
    }


SINCE_4_4 = "errors.deadletterqueue."
"""Settings that the Apache Kafka of this comparison does not have yet."""
CALL_NAMES = tuple(script(Path("no-such-folder")))


@pytest.fixture(scope="module")
def transcripts(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Transcript]]:
    """The transcripts of both; each broker runs alone."""
    result = {}
    for kind in ("apache", "barnabas"):
        directory = tmp_path_factory.mktemp(f"tools-{kind}")
        (directory / "calls").mkdir()
        properties = {**PROPERTIES, "num.partitions": "1"}
        broker = start_broker(kind, directory / "broker", properties)
        try:
            result[kind] = Transcript(broker, directory / "calls", script(directory / "calls"))
        finally:
            broker.stop()
    yield result


@pytest.mark.parametrize("name", CALL_NAMES)
def test_a_tool_prints_the_same(name: str, transcripts: dict[str, Transcript]) -> None:
    expected, found = (
        [line for line in transcripts[kind].lines(name) if not line.strip().startswith(SINCE_4_4)]
        for kind in ("apache", "barnabas")
    )
    if name in UNORDERED:
        expected, found = sorted(expected), sorted(found)
    difference = "\n".join(
        difflib.unified_diff(expected, found, "Apache Kafka", "Barnabas", lineterm="")
    )
    assert not difference, f"{name}:\n{difference}"
