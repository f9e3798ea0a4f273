"""What is on disk is Kafka's format: its own tool checks ours, and directories change sides.

`DumpLogSegments` reads our segments, indexes and offsets topic; a partition directory of Apache
Kafka is imported and serves the same records; one of ours does in Apache Kafka.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.clients.steps import Item, read_items
from tests.interop.sample_records import (
    FIRST_TIMESTAMP,
    IS_IDEMPOTENT,
    sample,
    with_offsets,
    write_items_in_order,
)
from tests.interop.started_brokers import PROPERTIES, AnyBroker, start_broker
from tests.support.barnabas_process import barnabas_command
from tests.support.client_programs import ALL_CODECS, all_clients
from tests.support.kafka_tools import ToolCall, run_tools

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PARTITIONS = 3
TOPIC = "stored"
GROUP = "keepers"
# An index entry for every few batches, so that the indexes have something in them.
_PROPERTIES = {**PROPERTIES, "log.index.interval.bytes": "512"}
CLIENT = all_clients()[0]
JAVA = all_clients()[-1]
_CONFIGS = ("retention.ms=-1", "index.interval.bytes=512", "segment.bytes=1048576")


def fill(broker: AnyBroker, directory: Path, topic: str = TOPIC) -> list[Item]:
    """A topic with every codec, idempotent and not, and a group with offsets; what it holds."""
    plan = [["create", topic, str(PARTITIONS), *_CONFIGS]]
    items: list[Item] = []
    for turn in range(4):
        for codec in ALL_CODECS:
            chunk = sample(CLIENT, codec, len(items))
            path = directory / f"{topic}-{turn}-{codec}.txt"
            write_items_in_order(path, chunk)
            items += chunk
            plan.append(["produce", topic, codec, IS_IDEMPOTENT[codec], str(path)])
    read = str(directory / f"{topic}-read.txt")
    plan.append(["consume", topic, GROUP, str(len(items)), read])
    CLIENT.run(broker.bootstrap, plan, directory)
    return with_offsets(items)


def check_content(broker: AnyBroker, items: list[Item], directory: Path) -> None:
    """Two clients read the same records, and the offsets of a time are the same."""
    for client in (CLIENT, JAVA):
        path, sought = directory / "content.txt", directory / "sought.txt"
        middle = FIRST_TIMESTAMP + 100_500
        plan = [
            ["read", TOPIC, str(len(items)), str(path)],
            ["seek", TOPIC, str(middle), str(sought)],
        ]
        client.run(broker.bootstrap, plan, directory)
        assert read_items(str(path)) == items
        assert read_items(str(sought)) == [i for i in items if i.timestamp >= middle]


def check_continues(broker: AnyBroker, items: list[Item], directory: Path) -> None:
    """What is written next follows what was there."""
    more = [item._replace(value=b"more") for item in sample(CLIENT, "none", 0)]
    write_items_in_order(directory / "more.txt", more)
    plan = [
        ["produce", TOPIC, "zstd", "1", str(directory / "more.txt")],
        ["read", TOPIC, str(len(items) + 12), str(directory / "longer.txt")],
    ]
    CLIENT.run(broker.bootstrap, plan, directory)
    everything = []
    for partition in range(PARTITIONS):
        own = [i for i in items + more if i.partition == partition]
        everything += [item._replace(offset=offset) for offset, item in enumerate(own)]
    assert read_items(str(directory / "longer.txt")) == everything


def test_dump_log_segments_finds_nothing_wrong(broker_kind: str, tmp_path: Path) -> None:
    """Every segment, index, snapshot and the offsets topic, after restarts and a kill."""
    broker = start_broker(broker_kind, tmp_path / "broker", _PROPERTIES)
    items = fill(broker, tmp_path)
    broker.kill()
    broker.start()
    check_continues(broker, items, tmp_path)
    broker.stop()

    partitions = [path for path in broker.data_directory.iterdir() if path.is_dir()]
    topic_files = files_of([p for p in partitions if p.name.startswith(TOPIC)])
    offset_files = files_of([p for p in partitions if p.name.startswith("__consumer_offsets")])
    assert {path.suffix for path in topic_files} >= {".log", ".index", ".timeindex"}
    logs = [path for path in topic_files if path.suffix == ".log"]
    calls = {
        "deep": dump("--deep-iteration", "--print-data-log", "--files", *joined(logs)),
        "all": dump("--files", *joined(topic_files)),
        "sanity": dump("--index-sanity-check", "--files", *joined(topic_files)),
        "verify": dump("--verify-index-only", "--files", *joined(topic_files)),
        "offsets": dump("--offsets-decoder", "--files", *joined(offset_files)),
    }
    results = dict(zip(calls, run_tools(list(calls.values()), tmp_path / "dump"), strict=True))
    for name, result in results.items():
        assert result.exit_code == 0, f"{name}: {result.output}{result.errors}"
        assert not result.errors, f"{name}: {result.errors}"
        wrong = re.findall(
            r".*(?:isvalid: false|[Mm]ismatch|not found|[Cc]orrupt).*", result.output
        )
        assert not wrong, f"{name}: {wrong[:5]}"
    deep = results["deep"].output
    assert len(re.findall(r"^\| offset: ", deep, re.MULTILINE)) == len(items) + 12
    assert {f"compresscodec: {codec}" for codec in ALL_CODECS} <= set(
        re.findall(r"compresscodec: \w+", deep)
    )
    entries = re.findall(r"^offset: \d+ position: \d+", results["all"].output, re.MULTILINE)
    assert entries, "no index has an entry"
    assert results["sanity"].output.count("passed sanity check") >= 2 * PARTITIONS
    offsets = results["offsets"].output
    for partition in range(PARTITIONS):
        assert re.search(rf'"group":"{GROUP}","topic":"{TOPIC}","partition":{partition}', offsets)
    assert '"protocolType":"consumer"' in offsets


def files_of(directories: list[Path]) -> list[Path]:
    """Everything that the tool knows how to read."""
    suffixes = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    return sorted(
        path
        for directory in directories
        for path in directory.iterdir()
        if path.suffix in suffixes and (path.stat().st_size > 0 or path.suffix == ".log")
    )


def joined(paths: list[Path]) -> tuple[str]:
    return (",".join(str(path) for path in paths),)


def dump(*arguments: str) -> ToolCall:
    return ToolCall("dump-log", arguments)


def test_a_directory_of_apache_kafka_serves_the_same_records_in_barnabas(tmp_path: Path) -> None:
    """`barnabas log import` takes it over, with the id in its `partition.metadata`."""
    apache = start_broker("apache", tmp_path / "apache", _PROPERTIES)
    items = fill(apache, tmp_path)
    apache.stop()
    # A broker that has run before, and so has metadata of its own.
    barnabas = start_broker("barnabas", tmp_path / "barnabas", _PROPERTIES)
    fill(barnabas, tmp_path, "own")
    barnabas.stop()

    directories = [str(apache.data_directory / f"{TOPIC}-{p}") for p in range(PARTITIONS)]
    command = [str(barnabas_command()), "log", "import", *directories]
    result = subprocess.run(
        [*command, "--data", str(barnabas.data_directory)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for name in directories:
        metadata = f"{Path(name).name}/partition.metadata"
        theirs = (apache.data_directory / metadata).read_text().split()
        assert (barnabas.data_directory / metadata).read_text().split() == theirs

    barnabas.start()
    check_content(barnabas, items, tmp_path)
    check_continues(barnabas, items, tmp_path)
    assert barnabas.stop() == 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_directory_of_barnabas_serves_the_same_records_in_apache_kafka(
    end: str, tmp_path: Path
) -> None:
    """After a clean stop and after kill -9, with our indexes, snapshots and epoch files."""
    barnabas = start_broker("barnabas", tmp_path / "barnabas", _PROPERTIES)
    items = fill(barnabas, tmp_path)
    if end == "stop":
        barnabas.stop()
    else:
        barnabas.kill()

    # Apache Kafka knows the topic by an id of its own: its partition.metadata stays.
    apache = start_broker("apache", tmp_path / "apache", _PROPERTIES)
    CLIENT.run(apache.bootstrap, [["create", TOPIC, str(PARTITIONS), *_CONFIGS]], tmp_path)
    apache.stop()
    for partition in range(PARTITIONS):
        target = apache.data_directory / f"{TOPIC}-{partition}"
        identity = (target / "partition.metadata").read_text()
        shutil.rmtree(target)
        shutil.copytree(barnabas.data_directory / f"{TOPIC}-{partition}", target)
        (target / "partition.metadata").write_text(identity)
    if end == "kill":
        (apache.data_directory / ".kafka_cleanshutdown").unlink()
    apache.start()
    check_content(apache, items, tmp_path)
    check_continues(apache, items, tmp_path)
    assert apache.process is not None
    assert "ERROR" not in apache.process.log_tail(), apache.process.log_tail()
    apache.stop()
