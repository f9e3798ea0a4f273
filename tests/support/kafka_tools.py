"""Apache Kafka's command line tools, many calls in one JVM, with output and exit code of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.apache_kafka import DEFAULT_VERSION, kafka_jars, write_log4j
from tests.support.cache import run
from tests.support.java_tools import compile_java, java_command

_SOURCE = Path(__file__).resolve().parents[1] / "interop" / "java" / "ToolRunner.java"

CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "dump-log": "kafka.tools.DumpLogSegments",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


class ToolCall(NamedTuple):
    """One call: a name of `CLASSES`, its arguments, and lines for its standard input."""

    tool: str
    arguments: tuple[str, ...]
    standard_input: str | None = None


class ToolResult(NamedTuple):
    """What a tool left."""

    exit_code: int
    output: str
    errors: str


def run_tools(
    calls: Sequence[ToolCall],
    directory: Path,
    *,
    timeout_seconds: float = 300,
    version: str = DEFAULT_VERSION,
) -> list[ToolResult]:
    """Runs the calls one after the other in one JVM."""
    directory.mkdir(parents=True, exist_ok=True)
    jars = kafka_jars(version)
    classes = compile_java("tool-runner", [_SOURCE], jars)
    lines = []
    for number, call in enumerate(calls):
        source = "-"
        if call.standard_input is not None:
            path = directory / f"{number}.in"
            path.write_text(call.standard_input)
            source = str(path)
        lines.append("\t".join([source, CLASSES[call.tool], *call.arguments]))
    commands = directory / "commands.txt"
    commands.write_text("".join(line + "\n" for line in lines))
    command = java_command([classes, jars], "ToolRunner", [str(commands), str(directory)])
    log4j = write_log4j(directory, "OFF")
    command.insert(1, f"-Dlog4j2.configurationFile={log4j}")
    run(command, timeout_seconds=timeout_seconds)
    return [
        ToolResult(
            int((directory / f"{number}.code").read_text()),
            (directory / f"{number}.out").read_text(),
            (directory / f"{number}.err").read_text(),
        )
        for number in range(len(calls))
    ]
