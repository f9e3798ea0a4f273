"""Dead letters of share groups through whole brokers, and what becomes of them when those die."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.server import Server
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import FeatureUpdate, FeatureUpgradeType
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ResourceType
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer import Consumer, ConsumerRecord
from barnabas_client.errors import BarnabasError
from barnabas_protocol.errors import ErrorCode
from tests.broker.share_cluster_world import TOPIC, World, acquired_at_last, in_cluster
from tests.broker.share_member import (
    ShareMember,
    acquired_of,
    append,
    configure,
    coordinator_of,
    create_topic,
    error_of,
)
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient

ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP, LETTERS = "g", "dlq.letters"
NAME, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
PERMITTED = {"errors.deadletterqueue.group.enable": "true"}


class Bench:
    """A broker with a topic and a group that begins with its first record."""

    def __init__(self, server: Server, client: RawClient, admin: Admin, topic_id: bytes) -> None:
        self.server = server
        self.client = client
        self.admin = admin
        self.member = ShareMember(client, GROUP, "m1", topic_id)
        self.key = SharePartitionKey(GROUP, topic_id, 0)

    async def reject(self, count: int) -> None:
        """Append so many records, and have a member reject them."""
        first = await append(self.client, TOPIC, [b"v%d" % index for index in range(count)])
        assert acquired_of(await self.member.fetch(0)) == [(first, first + count - 1, 1)]
        rejected = await self.member.acknowledge((first, first + count - 1, [REJECT]))
        assert error_of(rejected) == ErrorCode.NONE

    async def start_is(self, offset: int) -> None:
        """Wait until all below an offset is final."""

        async def is_it() -> bool:
            loaded = self.server.data.share_serving.share_partitions.loaded[self.key]
            return loaded.records.start_offset == offset

        await eventually(is_it)

    def count(self, name: str) -> float:
        """A counter of the group's dead letters."""
        for sample in self.server.data.share_serving.samples():
            if sample.name == f"barnabas_share_dead_{name}_total":
                assert sample.labels == {"group": GROUP}
                assert isinstance(sample.value, int)
                return sample.value
        return 0


def in_bench(
    directory: Path, work: Callable[[Bench], Coroutine[Any, Any, None]], **properties: str
) -> None:
    """Run against one broker; the group's topic for dead letters is not there yet."""
    settings = {
        "share_coordinator_state_topic_num_partitions": "2",
        "share_coordinator_state_topic_replication_factor": "1",
        "share_coordinator_state_topic_min_isr": "1",
    }

    async def run() -> None:
        async with (
            running_broker(directory, **settings | properties) as server,
            await RawClient.connect(server.port) as client,
            Admin(f"127.0.0.1:{server.port}") as admin,
        ):
            bench = Bench(server, client, admin, await create_topic(client, TOPIC))
            await server.data.share_state.persister.initialize(bench.key, 1, 0)
            await configure(client, GROUP, NAME, LETTERS)
            await work(bench)

    asyncio.run(run())


async def letters(bootstrap: str, count: int) -> list[ConsumerRecord]:
    """Read so many dead letters."""
    found: list[ConsumerRecord] = []
    consumer = Consumer(bootstrap, auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(60):
        consumer.assign([(LETTERS, 0)])
        while len(found) < count:
            found += await consumer.poll(timeout_ms=500)
    return found


def header(record: ConsumerRecord, name: str) -> bytes | None:
    return dict(record.headers).get(f"__dlq.errors.{name}")


def test_a_rejected_record_is_in_the_topic_that_the_group_has_for_it(tmp_path: Path) -> None:
    """SHR-35, SHR-36, SHR-37: which is made where the cluster permits that."""

    async def work(bench: Bench) -> None:
        await bench.reject(3)
        await bench.start_is(3)
        found = await letters(f"127.0.0.1:{bench.server.port}", 3)
        assert [(one.key, one.value, header(one, "offset")) for one in found] == [
            (None, None, b"0"),
            (None, None, b"1"),
            (None, None, b"2"),
        ]
        assert dict(found[0].headers) == {
            "__dlq.errors.topic": b"t",
            "__dlq.errors.partition": b"0",
            "__dlq.errors.offset": b"0",
            "__dlq.errors.group": b"g",
            "__dlq.errors.delivery.count": b"1",
            "__dlq.errors.message": b"Offset rejected by client.",
        }
        assert bench.count("letters") == 3
        assert bench.count("letter_requests") == 1
        assert bench.count("letters_lost") == 0
        resource = ConfigResource(ResourceType.TOPIC, LETTERS)
        described = (await bench.admin.configs.describe([resource])).unwrap()[resource]
        assert described["errors.deadletterqueue.group.enable"].value == "true"
        assert described["message.timestamp.type"].value == "CreateTime"

    in_bench(tmp_path, work, errors_deadletterqueue_auto_create_topics_enable="true")


def test_a_copy_has_the_records_value(tmp_path: Path) -> None:
    """SHR-37: in a topic that somebody has made and permitted."""

    async def work(bench: Bench) -> None:
        await bench.admin.topics.create([NewTopic(name=LETTERS, configs=PERMITTED)])
        await configure(bench.client, GROUP, COPY, "true")
        await bench.reject(2)
        found = await letters(f"127.0.0.1:{bench.server.port}", 2)
        assert [one.value for one in found] == [b"v0", b"v1"]
        await bench.start_is(2)

    in_bench(tmp_path, work)


def test_a_missing_topic_loses_dead_letters_and_the_group_goes_on(tmp_path: Path) -> None:
    """SHR-35: where the cluster does not permit to make it; one that permits it helps at once."""

    async def work(bench: Bench) -> None:
        await bench.reject(2)
        await bench.start_is(2)
        assert bench.count("letters_lost") == 2
        assert LETTERS not in [one.name for one in await bench.admin.topics.list()]
        (await bench.admin.topics.create([NewTopic(name=LETTERS)])).unwrap()
        await bench.reject(1)
        await bench.start_is(3)
        assert bench.count("letters_lost") == 3
        resource = ConfigResource(ResourceType.TOPIC, LETTERS)
        changes = [ConfigChange.set(*next(iter(PERMITTED.items())))]
        (await bench.admin.configs.alter({resource: changes})).unwrap()
        await bench.reject(1)
        await bench.start_is(4)
        assert (bench.count("letters"), bench.count("letters_lost")) == (1, 3)

    in_bench(tmp_path, work)


def test_dead_letters_need_level_2(tmp_path: Path) -> None:
    """SHR-1, SHR-35: below, what is rejected is archived at once."""

    async def work(bench: Bench) -> None:
        change = FeatureUpdate(level=1, upgrade_type=FeatureUpgradeType.SAFE_DOWNGRADE)
        (await bench.admin.features.update({"share.version": change})).unwrap()
        await bench.reject(1)
        await bench.start_is(1)
        assert bench.count("letters_lost") == 0
        change = FeatureUpdate(level=2)
        (await bench.admin.features.update({"share.version": change})).unwrap()
        await bench.reject(1)
        await bench.start_is(2)
        assert bench.count("letters_lost") == 1

    in_bench(tmp_path, work)


def test_a_name_that_begins_like_an_internal_topic_is_refused(tmp_path: Path) -> None:
    """SHR-35: in Kafka's words; any other name may be set, and is looked at when it is used."""

    async def work(bench: Bench) -> None:
        resource = ConfigResource(ResourceType.GROUP, GROUP)
        with pytest.raises(BarnabasError, match="DLQ topic name must not start with '__'"):
            changes = [ConfigChange.set(NAME, "__dead")]
            (await bench.admin.configs.alter({resource: changes})).unwrap()
        (await bench.admin.configs.alter({resource: [ConfigChange.set(NAME, "dead")]})).unwrap()
        await bench.reject(1)
        await bench.start_is(1)
        assert bench.count("letters_lost") == 1

    in_bench(tmp_path, work, errors_deadletterqueue_auto_create_topics_enable="true")


def offsets_of(found: list[ConsumerRecord]) -> Counter[int]:
    """How often each offset of the source is a dead letter."""
    return Counter(int(header(one, "offset") or b"-1") for one in found)


async def with_letters(world: World, leader_id: int, min_in_sync: int = 2) -> None:
    """A topic for dead letters on all brokers, led by one of them."""
    others = [other for other in world.cluster.brokers if other != leader_id]
    topic = NewTopic(
        name=LETTERS,
        replica_assignment={0: [leader_id, *others]},
        configs={**PERMITTED, "min.insync.replicas": str(min_in_sync)},
    )
    (await world.admin.topics.create([topic])).unwrap()
    await world.leader(lambda found: found == leader_id, LETTERS)


def test_dead_letters_outlive_the_leader_of_their_topic(tmp_path: Path) -> None:
    """SHR-36: they are tried again until another leads; none is lost."""

    async def work(world: World) -> None:
        node_id = await world.leader()
        client = await world.connect(await coordinator_of(await world.connect(0), GROUP))
        assert await ShareMember(client, GROUP, "m1", world.topic_id).join(TOPIC)
        await world.configure(GROUP, "share.auto.offset.reset", "earliest")
        await world.configure(GROUP, NAME, LETTERS)
        other_id = (node_id + 1) % 3
        await with_letters(world, other_id)
        producer = await world.connect(node_id)
        member = await world.member("m1", node_id)
        await append(producer, TOPIC, [b"v"] * 10)
        assert await acquired_at_last(member) == [(0, 9, 1)]
        assert error_of(await member.acknowledge((0, 2, [REJECT]))) == ErrorCode.NONE
        world.cluster.brokers[other_id].kill()
        assert error_of(await member.acknowledge((3, 5, [REJECT]))) == ErrorCode.NONE
        assert error_of(await member.acknowledge((6, 9, [ACCEPT]))) == ErrorCode.NONE
        await world.leader(lambda found: found != other_id, LETTERS)
        found = offsets_of(await letters(world.cluster.bootstrap, 6))
        assert set(found) == {0, 1, 2, 3, 4, 5}

    in_cluster(tmp_path, work)


def test_dead_letters_outlive_the_leader_of_the_source(tmp_path: Path) -> None:
    """SHR-33, SHR-36: a rejection that was answered is a dead letter, whoever leads then."""

    async def work(world: World) -> None:
        node_id = await world.leader()
        client = await world.connect(await coordinator_of(await world.connect(0), GROUP))
        assert await ShareMember(client, GROUP, "m1", world.topic_id).join(TOPIC)
        await world.configure(GROUP, "share.auto.offset.reset", "earliest")
        await world.configure(GROUP, NAME, LETTERS)
        # More than there are: nothing is appended, and what is rejected stays Archiving.
        await with_letters(world, (node_id + 1) % 3, min_in_sync=4)
        producer = await world.connect(node_id)
        member = await world.member("m1", node_id)
        await append(producer, TOPIC, [b"v"] * 4)
        assert await acquired_at_last(member) == [(0, 3, 1)]
        assert error_of(await member.acknowledge((0, 3, [REJECT]))) == ErrorCode.NONE
        world.cluster.brokers[node_id].kill()
        next_id = await world.leader(lambda found: found != node_id)
        resource = ConfigResource(ResourceType.TOPIC, LETTERS)
        changes = [ConfigChange.set("min.insync.replicas", "2")]
        (await world.admin.configs.alter({resource: changes})).unwrap()
        again = await world.member("m2", next_id)
        await append(await world.connect(next_id), TOPIC, [b"w"])
        assert await acquired_at_last(again) == [(4, 4, 1)]
        found = offsets_of(await letters(world.cluster.bootstrap, 4))
        assert set(found) == {0, 1, 2, 3}

    in_cluster(tmp_path, work)
