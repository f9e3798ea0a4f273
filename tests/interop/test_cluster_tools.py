"""Kafka's tools print the same against three brokers of Barnabas as against three of Apache Kafka.

One story runs on both: partitions are moved, leaders are elected, a broker is lost and comes back.
Ids, times, ports and paths are replaced; everything else must be equal line by line.
"""

import asyncio
import difflib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import BROKER_IDS, KafkaCluster, until
from tests.support.kafka_tools import ToolCall, run_tools

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

AnyCluster = KafkaCluster | BarnabasCluster
Calls = dict[str, ToolCall]
_OF_THE_RUNNER = ("null", "ToolRunner$ExitError")
LOST = 3


def _call(tool: str, *arguments: str, lines: str | None = None) -> ToolCall:
    return ToolCall(tool, arguments, lines)


def _topics(*arguments: str) -> ToolCall:
    return _call("topics", "--bootstrap-server", "@", *arguments)


def _reassignment(directory: Path, name: str, replicas: dict[int, list[int]]) -> str:
    """A file for kafka-reassign-partitions: new replicas of partitions of `spread`."""
    path = directory / f"{name}.json"
    if directory.is_dir():  # otherwise only the names of the calls are wanted
        partitions = [
            {"topic": "spread", "partition": partition, "replicas": nodes}
            for partition, nodes in replicas.items()
        ]
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def _reassign(path: str, *verb: str) -> ToolCall:
    where = ("--bootstrap-server", "@", "--reassignment-json-file", path)
    return _call("reassign-partitions", *where, *verb)


def _whole(directory: Path) -> Calls:
    """While all brokers are there."""
    move = _reassignment(directory, "move", {0: [2, 3], 1: [3, 1, 2]})
    describe = _topics("--describe", "--topic", "spread")
    quorum = ("metadata-quorum", "--bootstrap-server", "@", "describe")
    return {
        "quorum status": _call(*quorum, "--status"),
        "quorum replication": _call(*quorum, "--replication"),
        "quorum replication for people": _call(*quorum, "--replication", "--human-readable"),
        "quorum without a view": _call(*quorum),
        "create with assignments": _topics(
            *("--create", "--topic", "spread", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
        ),
        "create a strict topic": _topics(
            *("--create", "--topic", "strict", "--replica-assignment", "1:2:3"),
            *("--config", "min.insync.replicas=3"),
        ),
        "create too many replicas": _topics(
            *("--create", "--topic", "four", "--partitions", "1", "--replication-factor", "4")
        ),
        "create with an unknown broker": _topics(
            *("--create", "--topic", "odd", "--replica-assignment", "1:9")
        ),
        "describe": describe,
        "add a partition with an assignment": _topics(
            *("--alter", "--topic", "spread", "--partitions", "4"),
            *("--replica-assignment", "1:2:3,2:3:1,3:1:2,3:2:1"),
        ),
        "describe after growth": describe,
        "move": _reassign(move, "--execute"),
        "move to nowhere": _reassign(_reassignment(directory, "nowhere", {0: [2, 9]}), "--execute"),
        "move twice to one": _reassign(_reassignment(directory, "twice", {0: [2, 2]}), "--execute"),
        "move what is not there": _reassign(
            _reassignment(directory, "missing", {7: [1, 2]}), "--execute"
        ),
    }


def _moved(directory: Path) -> Calls:
    """After the move."""
    move = str(directory / "move.json")
    election = ("--bootstrap-server", "@", "--election-type")
    return {
        "verify the move": _reassign(move, "--verify"),
        "list moves": _call("reassign-partitions", "--bootstrap-server", "@", "--list"),
        "cancel what is over": _reassign(move, "--cancel"),
        "describe after the move": _topics("--describe", "--topic", "spread"),
        "elect preferred leaders": _call(
            "leader-election", *election, "preferred", "--all-topic-partitions"
        ),
        "elect one again": _call(
            *("leader-election", *election, "preferred", "--topic", "spread", "--partition", "1")
        ),
        "elect uncleanly without need": _call(
            *("leader-election", *election, "unclean", "--topic", "spread", "--partition", "2")
        ),
        "elect where nothing is": _call(
            *("leader-election", *election, "preferred", "--topic", "spread", "--partition", "9")
        ),
        "describe after elections": _topics("--describe", "--topic", "spread"),
    }


def _lost(directory: Path) -> Calls:
    """While a broker is away."""
    strict = ("--config", "min.insync.replicas=3")
    return {
        "describe what is left": _topics("--describe", "--topic", "spread"),
        "describe eligible leader replicas": _topics("--describe", "--topic", "strict"),
        "under-replicated": _topics("--describe", "--under-replicated-partitions"),
        "at the minimum": _topics("--describe", "--at-min-isr-partitions"),
        "below the minimum": _topics("--describe", "--under-min-isr-partitions"),
        "unavailable": _topics("--describe", "--unavailable-partitions"),
        "create on what is left": _topics(
            *("--create", "--topic", "three", "--replica-assignment", "2:3:1", *strict)
        ),
        "describe what was created": _topics("--describe", "--topic", "three"),
        "elect the lost one": _call(
            *("leader-election", "--bootstrap-server", "@", "--election-type", "preferred"),
            *("--topic", "spread", "--partition", "3"),
        ),
        "produce to too few": _call(
            *("console-producer", "--bootstrap-server", "@", "--topic", "three"),
            *("--producer-property", "acks=all", "--producer-property", "retries=0"),
            *("--producer-property", "enable.idempotence=false"),
            lines="one record\n",
        ),
    }


def _back(directory: Path) -> Calls:
    """After it came back."""
    return {
        "elect preferred leaders after the return": _call(
            *("leader-election", "--bootstrap-server", "@", "--election-type", "preferred"),
            "--all-topic-partitions",
        ),
        "describe at the end": _topics("--describe", "--topic", "spread"),
        "under-replicated at the end": _topics("--describe", "--under-replicated-partitions"),
        "log dirs of one broker": _call(
            *("log-dirs", "--bootstrap-server", "@", "--describe", "--broker-list", "2"),
            *("--topic-list", "three"),
        ),
    }


PHASES: dict[str, Callable[[Path], Calls]] = {
    "whole": _whole,
    "moved": _moved,
    "lost": _lost,
    "back": _back,
}
CALL_NAMES = tuple(name for phase in PHASES.values() for name in phase(Path("no-such-folder")))


class Transcript:
    """What all calls printed against one cluster."""

    def __init__(self, cluster: AnyCluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._lines: dict[str, list[str]] = {}
        self._until_in_sync()
        self._run("whole")
        self._until(self._is_settled)
        self._run("moved")
        self._until_in_sync()
        cluster.brokers[LOST].kill()
        self._until(self._is_missed)
        self._run("lost")
        cluster.brokers[LOST].start()
        self._until_in_sync()
        self._run("back")

    def lines(self, name: str) -> list[str]:
        """The normalised output of one call, with its exit code."""
        return self._lines[name]

    def _run(self, phase: str) -> None:
        directory = self._directory / phase
        directory.mkdir(parents=True)
        calls = PHASES[phase](self._directory)
        addressed = [
            call._replace(
                arguments=tuple(a.replace("@", self._cluster.bootstrap) for a in call.arguments)
            )
            for call in calls.values()
        ]
        results = run_tools(addressed, directory)
        for name, result in zip(calls, results, strict=True):
            text = self._normalise(result.output + "--- errors\n" + result.errors)
            if name.startswith("quorum"):
                text = _normalised_quorum(text)
            lines = [line.rstrip() for line in text.splitlines() if not line.startswith(" at ")]
            lines = [line for line in lines if line and line not in _OF_THE_RUNNER]
            self._lines[name] = [f"exit code {result.exit_code}", *lines]

    def _normalise(self, text: str) -> str:
        for broker in self._cluster.brokers.values():
            text = text.replace(str(broker.directory), "DIRECTORY")
            text = text.replace(str(broker.port), "PORT")
        text = text.replace(str(self._directory), "DIRECTORY")
        text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,:]\d+", "DATE", text)
        text = re.sub(r'"size":\d+', '"size":N', text)
        # The order of these is that of somebody's set.
        text = re.sub(r"Isr: ([\d,]+)", lambda found: f"Isr: {_sorted(found[1], ',')}", text)
        text = re.sub(
            r"for partitions (.*)", lambda found: f"for partitions {_sorted(found[1], ', ')}", text
        )
        return re.sub(r"[ \t]+", " ", text)

    def _until_in_sync(self) -> None:
        async def wait(admin: Admin) -> None:
            await self._cluster.until_in_sync(admin, await _names(admin))

        self._with_admin(wait)

    async def _is_settled(self, admin: Admin) -> bool:
        """Nothing is being moved any more."""
        topics = (await admin.topics.describe(["spread"])).unwrap()
        first = topics["spread"].partitions[0]
        return sorted(first.replica_ids) == [2, 3] == sorted(first.in_sync_replica_ids)

    async def _is_missed(self, admin: Admin) -> bool:
        """The lost broker leads nothing and is in no ISR."""
        topics = (await admin.topics.describe(await _names(admin))).unwrap()
        return all(
            LOST not in one.in_sync_replica_ids and one.leader_id not in (None, LOST)
            for topic in topics.values()
            for one in topic.partitions.values()
        )

    def _until(self, condition: Callable[[Admin], object]) -> None:
        async def wait(admin: Admin) -> None:
            await until(lambda: condition(admin))  # type: ignore[arg-type, return-value]

        self._with_admin(wait)

    def _with_admin(self, work: Callable[[Admin], object]) -> None:
        async def run() -> None:
            async with Admin(self._cluster.bootstrap) as admin:
                await work(admin)  # type: ignore[misc]

        asyncio.run(run())


def _normalised_quorum(text: str) -> str:
    """One row for all copies of the metadata log.

    There a node of its own is the only voter and all brokers observe; here they are the voters.
    """
    text = re.sub(r"(?m)^((?:Current)\w+:) \[.*\]", r"\1 NODES", text)
    text = re.sub(r"(?m)^ClusterId: \S+", "ClusterId: ID", text)
    text = re.sub(r"(?m)^(\w+:) -?\d+", r"\1 N", text)
    time = r"(?:\d{13}|\d+ ms ago)"
    row = rf"\d+ [\w-]{{22}} \d+ \d+ {time} {time} (?:Leader|Follower|Observer) ?\n"
    return re.sub(rf"(?m)(?:^{row})+", "ROWS\n", text)


def _sorted(text: str, separator: str) -> str:
    return separator.join(sorted(text.split(separator)))


async def _names(admin: Admin) -> list[str]:
    return [topic.name for topic in await admin.topics.list()]


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Transcript]]:
    """The transcripts of both; each cluster runs alone."""
    result = {}
    for kind in ("apache", "barnabas"):
        directory = tmp_path_factory.mktemp(f"cluster-tools-{kind}")
        (directory / "calls").mkdir()
        made: AnyCluster
        if kind == "apache":
            made = KafkaCluster(directory / "cluster")
        else:
            made = BarnabasCluster(directory / "cluster", node_ids=BROKER_IDS)
        with made as cluster:
            result[kind] = Transcript(cluster, directory / "calls")
    yield result


@pytest.mark.parametrize("name", CALL_NAMES)
def test_a_tool_prints_the_same(name: str, transcripts: dict[str, Transcript]) -> None:
    expected = transcripts["apache"].lines(name)
    found = transcripts["barnabas"].lines(name)
    difference = "\n".join(
        difflib.unified_diff(expected, found, "Apache Kafka", "Barnabas", lineterm="")
    )
    assert not difference, f"{name}:\n{difference}"
