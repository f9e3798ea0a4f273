"""MirrorMaker 2 from Apache Kafka to Barnabas: a group moves, and a producer goes on meanwhile.

The connectors are Kafka's own, in its dedicated mode: their worker keeps its configuration, its
offsets and its group on Barnabas, which is the target.
"""

import asyncio
from pathlib import Path

import pytest

from barnabas_client.admin import Admin, ConfigResource, NewTopic, OffsetSpec
from barnabas_client.consumer import Consumer
from barnabas_client.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.support.apache_kafka import DEFAULT_VERSION, ApacheKafka, write_log4j
from tests.support.barnabas_process import BarnabasProcess
from tests.support.java_tools import java_command, maven_jars
from tests.support.processes import ManagedProcess

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

TOPIC = "orders"
GROUP = "billing"
PARTITIONS = 2
EACH = 100
DEADLINE_SECONDS = 150
POLL_SECONDS = 0.1
MIRROR = {
    "clusters": "kafka, barnabas",
    "kafka->barnabas.enabled": "true",
    "barnabas->kafka.enabled": "false",
    "kafka->barnabas.topics": TOPIC,
    "kafka->barnabas.groups": GROUP,
    # Topics keep their names, and nothing is written to the cluster that is left.
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "offset-syncs.topic.location": "target",
    "emit.heartbeats.enabled": "false",
    "sync.group.offsets.enabled": "true",
    # An offset is translated by the nearest one before it that is known, so that all are wanted.
    "offset.lag.max": "0",
    # A group that comes later is looked for every ten minutes otherwise.
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "offset.flush.interval.ms": "1000",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
}


def mirror_maker(directory: Path, source: str, target: str) -> ManagedProcess:
    """The program in its dedicated mode."""
    log4j = "org.apache.logging.log4j"
    jars = maven_jars(
        f"connect-mirror-{DEFAULT_VERSION}",
        [
            f"org.apache.kafka:connect-mirror:{DEFAULT_VERSION}",
            f"{log4j}:log4j-slf4j-impl:2.24.3",
            f"{log4j}:log4j-core:2.24.3",
        ],
    )
    settings = {**MIRROR, "kafka.bootstrap.servers": source, "barnabas.bootstrap.servers": target}
    directory.mkdir()
    path = directory / "mirror.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = java_command([jars], main, [str(path)], heap="384m")
    command.insert(1, f"-Dlog4j2.configurationFile={write_log4j(directory, 'WARN')}")
    return ManagedProcess(command, directory / "mirror.log", {})


async def write(bootstrap: str, first: int, count: int) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)


async def read(bootstrap: str, count: int) -> list[int]:
    """The next values of the group, whose offsets are committed at the end."""
    values: list[int] = []
    async with Consumer(
        bootstrap, group_id=GROUP, auto_offset_reset="earliest", max_poll_records=10
    ) as consumer:
        consumer.subscribe([TOPIC])
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(values) < count:
                for record in await consumer.poll(timeout_ms=1_000):
                    assert record.value is not None
                    values.append(int(record.value))
    return values


async def committed(admin: Admin) -> dict[TopicPartition, int]:
    found = (await admin.group_offsets.list([GROUP])).unwrap()[GROUP]
    return {partition: one.offset for partition, one in found.items() if one is not None}


def test_a_group_moves_with_its_offsets_while_a_producer_goes_on(tmp_path: Path) -> None:
    """Nothing is left out. What the group had read may come again, as MirrorMaker promises no more.

    An offset on the target stands for no record that comes later than the one on the source.
    """
    with (
        ApacheKafka(tmp_path / "kafka", heap="384M") as source,
        BarnabasProcess(tmp_path / "barnabas") as target,
    ):
        asyncio.run(begin(source.bootstrap))
        mirror = mirror_maker(tmp_path / "mirror", source.bootstrap, target.bootstrap)
        try:
            asyncio.run(move(source.bootstrap, target.bootstrap, mirror))
        finally:
            if mirror.is_running():
                mirror.stop()


async def begin(source: str) -> None:
    """A topic with settings of its own, and a group that has read a part of it."""
    async with Admin(source) as admin:
        settings = {"retention.ms": "7200000"}
        topic = NewTopic(name=TOPIC, partition_count=PARTITIONS, configs=settings)
        (await admin.topics.create([topic])).unwrap()
    await write(source, 0, EACH)


async def move(source: str, target: str, mirror: ManagedProcess) -> None:
    async with Admin(source) as there, Admin(target) as here:
        await records_arrive(here, EACH, mirror)
        # Both go on while the mirror runs, the group first on the source.
        await write(source, EACH, EACH)
        before = await read(source, EACH * 3 // 2)  # some of each partition
        await records_arrive(here, 2 * EACH, mirror)
        left = await committed(there)
        await group_arrives(here, mirror)
        mirror.stop()
        moved = await committed(here)
        assert all(moved[partition] <= offset for partition, offset in left.items())
        described = (await here.configs.describe([ConfigResource.topic(TOPIC)])).unwrap()
        (settings,) = described.values()
        assert settings["retention.ms"].value == "7200000"
    # Now they change over.
    await write(target, 2 * EACH, EACH)
    after = await read(target, 3 * EACH - sum(moved.values()))
    assert {*before, *after} == set(range(3 * EACH))
    assert len(after) == len(set(after))


async def records_arrive(admin: Admin, count: int, mirror: ManagedProcess) -> None:
    """Wait until so many records are on the target."""
    ends = {TopicPartition(TOPIC, partition): OffsetSpec.LATEST for partition in range(PARTITIONS)}
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            assert mirror.is_running(), mirror.log_tail()
            found = await admin.partitions.list_offsets(ends)
            if (
                not found.errors
                and sum(one.offset or 0 for one in found.unwrap().values()) >= count
            ):
                return
            await asyncio.sleep(POLL_SECONDS)


async def group_arrives(admin: Admin, mirror: ManagedProcess) -> None:
    """Wait until the group has an offset on the target in each partition."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            assert mirror.is_running(), mirror.log_tail()
            found = await committed(admin)
            if len(found) == PARTITIONS and all(found.values()):
                return
            await asyncio.sleep(POLL_SECONDS)
