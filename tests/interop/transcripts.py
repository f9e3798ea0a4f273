"""What Kafka's tools print against a broker, with what differs from run to run left out."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.interop.started_brokers import AnyBroker
from tests.support.apache_kafka import DEFAULT_VERSION
from tests.support.kafka_tools import ToolCall, ToolResult, run_tools

# What tools print when their exit is caught instead of done.
_OF_THE_RUNNER = ("null", "ToolRunner$ExitError")


class Transcript:
    """What all calls printed against one broker."""

    def __init__(
        self,
        broker: AnyBroker,
        directory: Path,
        calls: Mapping[str, ToolCall],
        version: str = DEFAULT_VERSION,
    ) -> None:
        """Run the calls by the tools of that version of Apache Kafka."""
        self.broker = broker
        directory.mkdir(parents=True, exist_ok=True)
        addressed = [
            call._replace(arguments=tuple(a.replace("@", broker.bootstrap) for a in call.arguments))
            for call in calls.values()
        ]
        results = run_tools(addressed, directory, version=version)
        self.results = dict(zip(calls, results, strict=True))

    def lines(self, name: str) -> list[str]:
        """The normalised output of one call, with its exit code."""
        result: ToolResult = self.results[name]
        text = result.output + "--- errors\n" + result.errors
        return [f"exit code {result.exit_code}", *self._normalise(name, text)]

    def _normalise(self, name: str, text: str) -> list[str]:
        text = text.replace(str(self.broker.directory), "DIRECTORY")
        text = text.replace(str(self.broker.port), "PORT")
        text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
        text = re.sub(r"\b1[6-9]\d{11}\b", "TIME", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,:]\d+", "DATE", text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UUID", text)
        if name in ("produce load", "consume load"):
            text = re.sub(r"\d+([.,]\d+)*", "N", text)
        text = re.sub(r'"size":\d+', '"size":N', text)
        text = re.sub(r"[ \t]+", " ", text)
        # Where a tool failed, the trace of its own code follows; its first line says why.
        lines = [line.rstrip() for line in text.splitlines() if not line.startswith(" at ")]
        if name in ("describe all topic configs", "describe inherited configs"):
            lines = [line for line in lines if not line.strip().startswith("barnabas.")]
        lines = [line for line in lines if line and line not in _OF_THE_RUNNER]
        return lines
