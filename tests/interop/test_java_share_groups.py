"""Java's share consumers on Barnabas, and on Apache Kafka as the oracle of these tests.

Version 4.1 of the client speaks version 1 of ShareFetch and ShareAcknowledge, 4.2 version 2.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.groups import GroupState
from barnabas_protocol.ids import TopicPartition
from tests.interop.java_share_readers import JavaShareProcess, JavaShareReader
from tests.interop.share_brokers import configure, prepare, send, start_share_broker
from tests.interop.started_brokers import AnyBroker
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CLIENTS = ("4.2.0", "4.1.1")
ORACLE = "4.2.0"
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


@pytest.fixture(scope="module", params=["barnabas", ORACLE])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    running = start_share_broker(request.param, tmp_path_factory.mktemp("share"))
    yield running
    running.stop()


class World:
    """A broker, and a process that holds share consumers of one version."""

    def __init__(self, broker: AnyBroker, version: str) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap
        self.version = version
        self.process = JavaShareProcess(version)

    async def reader(
        self, name: str, topic: str, group: str, process: Any = None, **more: str
    ) -> JavaShareReader:
        """A share consumer that has begun to join."""
        reader = JavaShareReader(process or self.process, name)
        return await reader.start(self.bootstrap, topic, group, **more)

    async def lag(self, group: str) -> int:
        """How many records the group has not been through, of what it has begun to read.

        Where it begins is no measure: a broker keeps that with the next write.
        """
        async with Admin(self.bootstrap) as admin:
            listed = (await admin.share_groups.list_offsets([group])).unwrap()[group]
        lags = [one.lag for one in listed.values() if one is not None]
        return sum(lag for lag in lags if lag is not None) if lags else -1


Work = Callable[[World, str, str], Coroutine[Any, Any, None]]


@pytest.fixture(params=CLIENTS)
def in_world(request: pytest.FixtureRequest, broker: AnyBroker) -> Callable[[Work], None]:
    """Runs a test's coroutine with names of its own for topic and group."""
    stem = f"{request.node.originalname[:60]}-{request.param}"

    def run(work: Work) -> None:
        async def whole() -> None:
            world = World(broker, request.param)
            async with _stopping(world):
                await work(world, f"t-{stem}", f"g-{stem}")

        asyncio.run(whole())

    return run


@asynccontextmanager
async def _stopping(world: World) -> Any:
    try:
        yield
    finally:
        await world.process.stop()


def values(count: int) -> list[bytes]:
    return [b"accept %03d" % number for number in range(count)]


def test_two_consumers_share_a_topic(in_world: Callable[[Work], None]) -> None:
    """SHR-10, SHR-28, SHR-40: each record goes to one of them; nothing comes twice, or later."""

    async def work(world: World, topic: str, group: str) -> None:
        await prepare(world.bootstrap, topic, group, partition_count=3)
        one = await world.reader("one", topic, group)
        two = await world.reader("two", topic, group)
        wanted = {value.decode(): 1 for value in values(300)}
        for start in range(0, 300, 50):
            await send(world.bootstrap, topic, values(300)[start : start + 50])

        async def are_delivered() -> bool:
            return one.counts + two.counts == wanted

        await until(are_delivered)
        await one.stop()
        await two.stop()
        assert not one.refused + two.refused
        assert len(one.acknowledged | two.acknowledged) == 300
        assert await world.lag(group) == 0
        late = await world.reader("late", topic, group)
        await send(world.bootstrap, topic, [b"accept last"])

        async def is_delivered() -> bool:
            return bool(late.deliveries)

        await until(is_delivered)
        assert [(each.value, each.count) for each in late.deliveries] == [("accept last", 1)]
        await late.stop()

    in_world(work)


def test_what_is_released_comes_again_and_what_is_rejected_does_not(
    in_world: Callable[[Work], None],
) -> None:
    """SHR-11, SHR-16: with the count of deliveries."""

    async def work(world: World, topic: str, group: str) -> None:
        await prepare(world.bootstrap, topic, group)
        await send(world.bootstrap, topic, [b"accept it", b"reject it", b"release it", b"accept 2"])
        reader = await world.reader("one", topic, group, **EXPLICIT)

        async def is_over() -> bool:
            return len(reader.deliveries) == 6 and await world.lag(group) == 0

        await until(is_over)
        assert reader.counts == {"accept it": 1, "reject it": 1, "release it": 3, "accept 2": 1}
        released = [each.count for each in reader.deliveries if each.value == "release it"]
        assert released == [1, 2, 3]
        await reader.stop()
        assert not reader.refused

    in_world(work)


def test_what_a_dead_consumer_has_goes_to_another_one(in_world: Callable[[Work], None]) -> None:
    """SHR-18, SHR-21: when its connection is lost, or at the end of the lock."""

    async def work(world: World, topic: str, group: str) -> None:
        await prepare(world.bootstrap, topic, group, share_record_lock_duration_ms="2000")
        dying = JavaShareProcess(world.version)
        reader = await world.reader("dying", topic, group, process=dying, **EXPLICIT)
        await send(world.bootstrap, topic, [b"keep it"])

        async def is_delivered() -> bool:
            return bool(reader.deliveries)

        await until(is_delivered)
        await dying.kill()
        other = await world.reader("other", topic, group)

        async def is_taken_over() -> bool:
            return bool(other.deliveries)

        await until(is_taken_over)
        assert [each.count for each in other.deliveries] == [2]
        await other.stop()
        assert await world.lag(group) == 0

    in_world(work)


def test_a_group_goes_on_after_its_broker_was_restarted(in_world: Callable[[Work], None]) -> None:
    """SHR-30, SHR-33: members stay; what was accepted does not come again."""

    async def work(world: World, topic: str, group: str) -> None:
        await prepare(world.bootstrap, topic, group, partition_count=2)
        reader = await world.reader("one", topic, group)
        await send(world.bootstrap, topic, values(50))

        async def are_accepted() -> bool:
            return len(reader.deliveries) == 50 and await world.lag(group) == 0

        await until(are_accepted)
        await asyncio.to_thread(world.broker.stop)
        await asyncio.to_thread(world.broker.start)
        await send(world.bootstrap, topic, [b"accept more"])

        async def has_come() -> bool:
            return "accept more" in reader.counts

        await until(has_come)
        assert set(reader.counts.values()) == {1}
        async with Admin(world.bootstrap) as admin:
            described = (await admin.share_groups.describe([group])).unwrap()[group]
            assert described.state is GroupState.STABLE
            assert len(described.members) == 1
        await reader.stop()

    in_world(work)


def test_offsets_are_reset_for_a_group_without_members(in_world: Callable[[Work], None]) -> None:
    """SHR-32: its next member begins there."""

    async def work(world: World, topic: str, group: str) -> None:
        await prepare(world.bootstrap, topic, group)
        await send(world.bootstrap, topic, values(10))
        reader = await world.reader("one", topic, group)

        async def are_accepted() -> bool:
            return len(reader.deliveries) == 10 and await world.lag(group) == 0

        await until(are_accepted)
        await reader.stop()
        async with Admin(world.bootstrap) as admin:
            begin = {TopicPartition(topic, 0): 7}
            (await admin.share_groups.alter_offsets(group, begin)).unwrap()
            await configure(admin, group, share_heartbeat_interval_ms="300")
        again = await world.reader("two", topic, group)

        async def has_come() -> bool:
            return len(again.deliveries) == 3

        await until(has_come)
        assert [(each.offset, each.count) for each in again.deliveries] == [(7, 1), (8, 1), (9, 1)]
        await again.stop()
        async with Admin(world.bootstrap) as admin:
            (await admin.groups.delete([group])).unwrap()

    in_world(work)
