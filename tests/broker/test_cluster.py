"""Three brokers as processes: forming, replicating, and each way in which one of them may go.

The brokers are shared by the tests; each test leaves all of them running and in sync.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.errors import BarnabasError
from barnabas_client.producer.producer import Producer
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from barnabas_protocol.messages.push_telemetry import PushTelemetryRequest
from tests.support.barnabas_cluster import BarnabasCluster, pause, resume
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_cluster import until
from tests.support.otlp import gauge, metrics_data, point
from tests.support.raw_client import RawClient

PARTITIONS = 6
SENDERS = 4
BROKERS = frozenset((0, 1, 2))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasCluster]:
    properties = {"broker.heartbeat.interval.ms": "250", "broker.session.timeout.ms": "2500"}
    with BarnabasCluster(tmp_path_factory.mktemp("cluster"), properties=properties) as cluster:
        yield cluster


@pytest.fixture
def cluster(started: BarnabasCluster) -> BarnabasCluster:
    """The cluster with all of its brokers running, whatever an earlier test has left."""
    started.start()
    return started


class World:
    """A topic of the test's own, and clients."""

    def __init__(self, cluster: BarnabasCluster, admin: Admin, topic: str) -> None:
        self.cluster = cluster
        self.admin = admin
        self.topic = topic

    async def leaders(self) -> dict[int, int | None]:
        """The leader of each partition."""
        described = (await self.admin.topics.describe([self.topic])).unwrap()[self.topic]
        return {number: one.leader_id for number, one in described.partitions.items()}

    async def in_sync(self) -> frozenset[int]:
        """The brokers that are in sync with every partition."""
        described = (await self.admin.topics.describe([self.topic])).unwrap()[self.topic]
        return BROKERS.intersection(
            *(one.in_sync_replica_ids for one in described.partitions.values())
        )

    async def controller(self) -> int:
        """The active controller."""
        return await self.described(lambda one: one.controller_id is not None, "controller_id")

    async def described(self, condition: Callable[[Any], bool], field: str) -> Any:
        """A field of the cluster's description, once a condition holds of that."""
        seen: list[Any] = []

        async def holds() -> bool:
            seen.append(await self.admin.cluster.describe())
            return condition(seen[-1])

        await until(holds)
        return getattr(seen[-1], field)

    async def until_all_in_sync(self) -> None:
        """Wait until each broker is in sync with each partition, the groups' too."""
        await self.cluster.until_formed(self.admin)
        await self.cluster.until_in_sync(self.admin, [self.topic])

    async def bring_back(self, broker: BarnabasProcess) -> None:
        """Start a broker that is gone, and wait until it has caught up."""
        await asyncio.to_thread(broker.start)
        await self.until_all_in_sync()


class Load:
    """Numbered records, sent by several senders at once with acks=all; what was acknowledged."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._is_over = False
        self.acknowledged: set[int] = set()
        self.errors: list[BaseException] = []
        self._next = 0

    async def _send(self) -> None:
        while not self._is_over:
            number, self._next = self._next, self._next + 1
            try:
                await self._producer.send(
                    self._topic, b"%d" % number, partition=number % PARTITIONS
                )
            except BarnabasError as error:
                self.errors.append(error)
            else:
                self.acknowledged.add(number)

    async def grows(self, by: int = 50) -> None:
        """Wait until more records are acknowledged."""
        target = len(self.acknowledged) + by

        async def has_grown() -> bool:
            return len(self.acknowledged) >= target

        await until(has_grown)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Send for the time of the block."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send())
            try:
                await self.grows()
                yield self
                await self.grows()
            finally:
                self._is_over = True


async def read_all(world: World) -> list[int]:
    """All records of the topic, by a consumer without a group."""
    async with Consumer(world.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [(world.topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        wanted, found = sum(ends.values()), list[int]()
        async with asyncio.timeout(30):
            while len(found) < wanted:
                found += [int(record.value or b"") for record in await consumer.poll()]
    return found


def in_world(cluster: BarnabasCluster, name: str) -> Any:
    """Run a test's coroutine in a world with a replicated topic."""

    def run(work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            async with Admin(cluster.bootstrap, request_timeout_ms=2_000) as admin:
                await cluster.until_formed(admin)
                topic = NewTopic(name=name, partition_count=PARTITIONS, replication_factor=3)
                await cluster.create_topics(admin, topic)
                await work(World(cluster, admin, name))

        try:
            asyncio.run(whole())
        except BaseException:
            print(cluster.logs())
            raise

    return run


def test_three_brokers_form_a_cluster_and_replicate(cluster: BarnabasCluster) -> None:
    """Design 2 and 3: one controller, three members, every record on every broker."""

    async def work(world: World) -> None:
        assert await world.controller() in BROKERS
        assert cluster.members == BROKERS
        assert set((await world.leaders()).values()) == BROKERS
        async with (
            Producer(cluster.bootstrap, acks="all") as producer,
            Load(producer, world.topic).running() as load,
        ):
            pass
        assert not load.errors
        assert sorted(await read_all(world)) == sorted(load.acknowledged)

        async def have_the_same() -> bool:
            told = (await world.admin.log_dirs.describe()).unwrap()
            sizes = {
                node_id: {
                    place: replica.size_bytes
                    for directory in directories.values()
                    for place, replica in directory.replicas.items()
                    if place.topic == world.topic
                }
                for node_id, directories in told.items()
            }
            return sizes[0] == sizes[1] == sizes[2] and len(sizes[0]) == PARTITIONS

        await until(have_the_same)

    in_world(cluster, "formed")(work)


def test_another_controller_takes_over_from_a_killed_one(cluster: BarnabasCluster) -> None:
    """CTL-3, REG-5, STOP-10: nothing acknowledged is lost, and the broker comes back in sync."""

    async def work(world: World) -> None:
        killed = await world.controller()
        async with (
            Producer(cluster.bootstrap, acks="all") as producer,
            Load(producer, world.topic).running() as load,
        ):
            cluster.brokers[killed].kill()
            await world.described(
                lambda one: (
                    one.controller_id not in (None, killed)
                    and killed not in {broker.node_id for broker in one.brokers}
                ),
                "controller_id",
            )
            await load.grows()
        assert not load.errors
        assert killed not in await world.in_sync()
        assert killed not in (await world.leaders()).values()
        await world.admin.topics.create([NewTopic(name="made-meanwhile", replication_factor=2)])
        await world.bring_back(cluster.brokers[killed])
        assert await world.in_sync() == BROKERS
        assert sorted(await read_all(world)) == sorted(load.acknowledged)

    in_world(cluster, "controller-killed")(work)


def test_a_silent_broker_is_fenced_and_comes_back(cluster: BarnabasCluster) -> None:
    """REG-5, REG-6: alive to its machine, silent to its peers: the session ends; then it is heard
    again, is unfenced and catches up.
    """

    async def work(world: World) -> None:
        controller = await world.controller()
        silent = min(BROKERS - {controller})
        async with (
            Producer(cluster.bootstrap, acks="all", request_timeout_ms=2_000) as producer,
            Load(producer, world.topic).running() as load,
        ):
            pause(cluster.brokers[silent])
            try:
                await world.described(
                    lambda one: silent not in {broker.node_id for broker in one.brokers},
                    "brokers",
                )
                await load.grows()
            finally:
                resume(cluster.brokers[silent])
        assert not load.errors
        await world.until_all_in_sync()
        assert sorted(await read_all(world)) == sorted(load.acknowledged)

    in_world(cluster, "silent")(work)


def test_each_broker_in_turn_is_restarted_without_an_error(cluster: BarnabasCluster) -> None:
    """STOP-1, STOP-5, STOP-10: leaders move before the broker stops, the controller's too."""

    async def work(world: World) -> None:
        async with (
            Producer(cluster.bootstrap, acks="all") as producer,
            Load(producer, world.topic).running() as load,
        ):
            for node_id, broker in cluster.brokers.items():
                assert await asyncio.to_thread(broker.stop) == 0
                assert node_id not in (await world.leaders()).values()
                assert node_id not in await world.in_sync()
                await load.grows()
                await world.bring_back(broker)
        assert not load.errors
        assert sorted(await read_all(world)) == sorted(load.acknowledged)
        for broker in cluster.brokers.values():
            assert broker.process is not None
            assert "ERROR" not in broker.process.log_tail(1 << 20)

    in_world(cluster, "restarted")(work)


def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: BarnabasCluster) -> None:
    """OFS-2, OFS-5: offsets are replicated, and another broker loads them."""

    async def work(world: World) -> None:
        read: list[int] = []
        group = "readers"

        async def reads(consumer: Consumer, count: int) -> None:
            async with asyncio.timeout(30):
                while len(set(read)) < count:
                    read.extend(int(record.value or b"") for record in await consumer.poll())

        async with (
            Producer(cluster.bootstrap, acks="all") as producer,
            Consumer(
                cluster.bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer,
        ):
            consumer.subscribe([world.topic])
            for number in range(100):
                producer.send(world.topic, b"%d" % number, partition=number % PARTITIONS)
            await producer.flush()
            await reads(consumer, 100)
            await consumer.commit()
            described = (await world.admin.groups.describe([group])).unwrap()[group]
            killed = described.coordinator_id
            await asyncio.to_thread(cluster.brokers[killed].kill)
            for number in range(100, 200):
                producer.send(world.topic, b"%d" % number, partition=number % PARTITIONS)
            await producer.flush()
            await reads(consumer, 200)
            await consumer.commit()
            committed = await consumer.committed(
                [(world.topic, number) for number in range(PARTITIONS)]
            )
            assert sum(one.offset for one in committed.values() if one is not None) == 200
        assert sorted(read) == list(range(200)), "each record once"
        described = (await world.admin.groups.describe([group])).unwrap()[group]
        assert described.coordinator_id != killed
        await world.bring_back(cluster.brokers[killed])

    in_world(cluster, "grouped")(work)


def test_a_client_may_push_its_metrics_to_any_broker(cluster: BarnabasCluster) -> None:
    """TEL-2, TEL-4: a subscription reaches all, and its id is the same everywhere."""
    instance_id = b"instance" * 2
    data = metrics_data(gauge("a", point(1)))

    async def told(client: RawClient, instance_id: bytes = ZERO_UUID) -> Any:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return await client.call(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)

    async def is_requested(client: RawClient) -> bool:
        return bool((await told(client)).requested_metrics == ["a"])

    async def work(world: World) -> None:
        changes = [ConfigChange.set("metrics", "a"), ConfigChange.set("interval.ms", "3600000")]
        subscription = ConfigResource.client_metrics("all")
        (await world.admin.configs.alter({subscription: changes})).unwrap()
        subscription_id: int | None = None
        for broker in cluster.brokers.values():
            async with await RawClient.connect(broker.port) as client:
                await until(lambda client=client: is_requested(client))  # type: ignore[misc]
                if subscription_id is None:
                    subscription_id = (await told(client, instance_id)).subscription_id
                pushed = PushTelemetryRequest(
                    client_instance_id=instance_id, subscription_id=subscription_id, metrics=data
                )
                response = await client.call(ApiKey.PUSH_TELEMETRY, 0, pushed)
                assert response.error_code == 0
        keys = [ConfigChange.delete("metrics"), ConfigChange.delete("interval.ms")]
        (await world.admin.configs.alter({subscription: keys})).unwrap()

    in_world(cluster, "telemetry")(work)
