"""Every client writes, reads, commits and administers; what one writes, all others read.

The steps are the same for all; what a client cannot do is written at its class in
`tests/support/client_programs.py` and in `docs/compatibility.md`.
"""

from pathlib import Path

import pytest

from tests.interop.clients.steps import Item, read_items, write_items
from tests.interop.sample_records import (
    CLIENTS,
    FIRST_TIMESTAMP,
    IS_IDEMPOTENT,
    PARTITIONS,
    sample,
    with_offsets,
    write_items_in_order,
)
from tests.interop.started_brokers import AnyBroker
from tests.support.client_programs import ClientProgram, KcatClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PORTABLE_CODECS = ("none", "gzip")
OTHER_CODECS = ("snappy", "lz4", "zstd")


def without_timestamps(items: list[Item]) -> list[Item]:
    return [item._replace(timestamp=0) for item in items]


@pytest.fixture(scope="module")
def written(
    broker: AnyBroker, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[Item]]]:
    """Topics by writer with what they must hold; written once by every client."""
    topics: dict[str, dict[str, list[Item]]] = {}
    creator = CLIENTS["confluent-kafka"]
    for client in CLIENTS.values():
        directory = tmp_path_factory.mktemp(f"write-{client.name}")
        mine: dict[str, list[Item]] = {}
        creation, plan = [], []
        for suffix, codecs in (("portable", PORTABLE_CODECS), ("other", OTHER_CODECS)):
            topic = f"written-{client.name}-{suffix}"
            if not set(codecs) <= set(client.codecs):
                continue
            # Timestamps of long ago: without this Kafka deletes the records as expired.
            creation.append(["create", topic, str(PARTITIONS), "retention.ms=-1"])
            items: list[Item] = []
            for codec in codecs:
                chunk = sample(client, codec, len(items))
                path = directory / f"{codec}.txt"
                write_items_in_order(path, chunk)
                items += chunk
                plan.append(["produce", topic, codec, IS_IDEMPOTENT[codec], str(path)])
            mine[topic] = with_offsets(items)
        creator.run(broker.bootstrap, creation, directory)
        client.run(broker.bootstrap, plan, directory)
        topics[client.name] = mine
    return topics


@pytest.mark.parametrize("reader", CLIENTS.values(), ids=CLIENTS)
def test_a_client_reads_what_every_client_wrote(
    reader: ClientProgram,
    broker: AnyBroker,
    written: dict[str, dict[str, list[Item]]],
    tmp_path: Path,
) -> None:
    wanted = {
        topic: (CLIENTS[writer], items)
        for writer, topics in written.items()
        for topic, items in topics.items()
        if topic.endswith("portable") or set(OTHER_CODECS) <= set(reader.codecs)
    }
    plan = [
        ["read", topic, str(len(items)), str(tmp_path / topic)]
        for topic, (_, items) in wanted.items()
    ]
    reader.run(broker.bootstrap, plan, tmp_path)
    for topic, (writer, items) in wanted.items():
        found = read_items(str(tmp_path / topic))
        if reader.name == "kafkajs":
            items, found = comparable_with_kafkajs(items), comparable_with_kafkajs(found)
        if not writer.has_timestamps:
            items, found = without_timestamps(items), without_timestamps(found)
        assert found == items, f"{reader.name} read {topic} differently"


def comparable_with_kafkajs(items: list[Item]) -> list[Item]:
    """Kafkajs keeps no order among headers of different names and shows a null as empty."""

    def plain(item: Item) -> Item:
        pairs = [(name, value or b"") for name, value in item.headers]
        return item._replace(headers=tuple(sorted(pairs)))

    return [plain(item) for item in items]


@pytest.mark.parametrize(
    "client", [c for c in CLIENTS.values() if c.has_admin], ids=lambda c: c.name
)
def test_a_client_administers_commits_and_seeks(
    client: ClientProgram, broker: AnyBroker, tmp_path: Path
) -> None:
    """One topic through its whole life, and a group that goes on where it committed."""
    topic, group = f"life-{client.name}", f"group-{client.name}"
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    read, again, sought = tmp_path / "read.txt", tmp_path / "again.txt", tmp_path / "sought.txt"
    items = sample(client, "none", 0)
    more = sample(client, "none", 12)
    write_items_in_order(first, items)
    write_items_in_order(second, more)
    middle = FIRST_TIMESTAMP + 9500  # between the records 9 and 10
    plan = {
        "create": ["create", topic, str(PARTITIONS), "retention.ms=-1", "segment.bytes=1048576"],
        "topics": ["topics"],
        "config": ["config", topic, "segment.bytes"],
        "alter": ["alter_config", topic, "max.message.bytes", "200000"],
        "produce": ["produce", topic, "gzip", "1", str(first)],
        "offsets": ["offsets", topic],
        "consume": ["consume", topic, group, "12", str(read)],
        "committed": ["committed", group, topic],
        "produce more": ["produce", topic, "none", "0", str(second)],
        "consume more": ["consume", topic, group, "12", str(again)],
        "committed more": ["committed", group, topic],
        "altered": ["config", topic, "max.message.bytes"],
        "groups": ["groups"],
        "seek": ["seek", topic, str(middle), str(sought)],
        "delete group": ["delete_group", group],
        "groups left": ["groups"],
        "grow": ["create_partitions", topic, "5"],
        "grown": ["offsets", topic],
        "delete": ["delete", topic],
        "topics left": ["topics"],
    }
    if client.name == "aiokafka":  # its admin client cannot delete groups
        del plan["delete group"], plan["groups left"]
    answers = dict(
        zip(plan, client.run(broker.bootstrap, list(plan.values()), tmp_path), strict=True)
    )

    assert topic in answers["topics"].split(",")
    assert answers["config"] == "1048576"
    assert answers["altered"] == "200000"
    assert answers["offsets"] == "0:0:4,1:0:4,2:0:4"
    assert answers["committed"] == "0:4,1:4,2:4"
    assert answers["committed more"] == "0:8,1:8,2:8"
    assert group in answers["groups"].split(",")
    assert group not in answers.get("groups left", "").split(",")
    assert answers["grown"] == "0:0:8,1:0:8,2:0:8,3:0:0,4:0:0"
    assert topic not in answers["topics left"].split(",")
    everything = with_offsets(items + more)
    compare = comparable_with_kafkajs if client.name == "kafkajs" else list
    found = read_items(str(read)) + read_items(str(again))
    assert compare(sorted(found, key=lambda i: (i.partition, i.offset))) == compare(everything)
    # Partition 0 holds 0, 3, 6, 9, 12...; 1 holds 1, 4, 7, 10...; 2 holds 2, 5, 8, 11...
    assert answers["seek"] == "0:4,1:3,2:3"
    late = [item for item in everything if item.timestamp >= middle]
    assert compare(read_items(str(sought))) == compare(late)


@pytest.mark.parametrize("name", ["confluent-kafka", "java-3.9.1", "java-4.1.1"])
def test_members_of_a_group_share_the_partitions(
    name: str, broker: AnyBroker, tmp_path: Path
) -> None:
    """Three members join, then one leaves: each partition has one owner, before and after."""
    topic = f"shared-{name}"
    plan = [["create", topic, "6"], ["rebalance", topic, f"sharing-{name}", "6"]]
    answers = CLIENTS[name].run(broker.bootstrap, plan, tmp_path)
    assert answers[1] == "2,2,2;3,3"


def test_kcat_works_as_a_group_member(broker: AnyBroker, tmp_path: Path) -> None:
    kcat = KcatClient()
    items = sample(kcat, "none", 0)
    write_items_in_order(tmp_path / "items.txt", items)
    creator = CLIENTS["confluent-kafka"]
    creator.run(broker.bootstrap, [["create", "kcat-group-topic", "3"]], tmp_path)
    plan = [
        ["produce", "kcat-group-topic", "lz4", "1", str(tmp_path / "items.txt")],
        ["offsets", "kcat-group-topic"],
        ["consume", "kcat-group-topic", "kcat-group", "12", str(tmp_path / "read.txt")],
        ["topics"],
    ]
    answers = kcat.run(broker.bootstrap, plan, tmp_path)
    assert answers[1] == "0:0:4,1:0:4,2:0:4"
    assert without_timestamps(read_items(str(tmp_path / "read.txt"))) == without_timestamps(
        with_offsets(items)
    )
    assert "kcat-group-topic" in answers[3].split(",")


def test_an_old_librdkafka_still_compresses(broker: AnyBroker, tmp_path: Path) -> None:
    """Unless Produce is listed from version 0, librdkafka up to 2.11 silently sends it plain."""
    kcat = KcatClient()
    item = Item(0, 0, 0, None, b"compressible " * 4000, ())
    write_items(str(tmp_path / "item.txt"), [item])
    creator = CLIENTS["confluent-kafka"]
    creator.run(broker.bootstrap, [["create", "kcat-gzip", "1"]], tmp_path)
    kcat.run(
        broker.bootstrap,
        [["produce", "kcat-gzip", "gzip", "0", str(tmp_path / "item.txt")]],
        tmp_path,
    )
    (segment,) = (broker.data_directory / "kcat-gzip-0").glob("*.log")
    written = segment.read_bytes().rstrip(b"\0")
    assert 0 < len(written) < 5000, f"{len(written)} bytes for 52 kB of the same words"


def test_a_topic_is_created_by_its_first_producer(broker: AnyBroker, tmp_path: Path) -> None:
    """TOP: auto-creation by Metadata, with the broker's default of four partitions."""
    write_items(str(tmp_path / "item.txt"), [Item(3, 0, FIRST_TIMESTAMP, b"k", b"v", ())])
    for name in ("confluent-kafka", "kafka-python-2", "java-4.1.1"):
        topic = f"created-by-{name}"
        plan = [
            ["produce", topic, "none", "1", str(tmp_path / "item.txt")],
            ["offsets", topic],
        ]
        answers = CLIENTS[name].run(broker.bootstrap, plan, tmp_path)
        assert answers[1] == "0:0:0,1:0:0,2:0:0,3:0:1"
