"""Our client and the replicas of three brokers of Apache Kafka, and of three of Barnabas.

Reading from followers, logs that are cut by unclean elections, elections and moves by the
administrator. Not here: steady load while brokers leave and come back (`test_client_cluster.py`).
"""

import asyncio
import contextlib
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.partitions import ElectionType, Reassignment
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.config import ConsumerSettings
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.errors import LogTruncatedError, NotFoundError
from barnabas_client.network import Client
from barnabas_client.producer import Producer
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.fetch import FetchRequest
from barnabas_protocol.schema import Message
from tests.interop.started_brokers import AnyCluster
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

# Two of three brokers are away while a leader is elected.
NEEDS_CONTROLLER = True


class NotingClient(Client):
    """A client that notes which brokers the fetched records come from."""

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings)
        self.sources: list[int] = []

    def send_now(
        self, node_id: int, request: Message, version: int, *, timeout_ms: int
    ) -> asyncio.Future[Any]:
        future = super().send_now(node_id, request, version, timeout_ms=timeout_ms)
        if isinstance(request, FetchRequest):
            future.add_done_callback(lambda done: self._note(node_id, done))
        return future

    def _note(self, node_id: int, done: asyncio.Future[Any]) -> None:
        if not done.cancelled() and done.exception() is None:
            parts = [part for topic in done.result().responses for part in topic.partitions]
            if any(part.records for part in parts):
                self.sources.append(node_id)


def test_a_consumer_reads_from_the_follower_of_its_rack_while_there_is_one(
    cluster: AnyCluster,
) -> None:
    """CON-6, KIP-392: to the follower, to the leader when it dies, and back; nothing is missed."""
    near = TopicPartition("near", 0)

    async def run() -> None:
        settings = {"bootstrap_servers": cluster.bootstrap, "client_rack": "rack-2"}
        client = NotingClient(ConsumerSettings.create(settings))
        sent, read = 0, list[int]()

        async with (
            Admin(cluster.bootstrap) as admin,
            Producer(cluster.bootstrap) as producer,
            Consumer(cluster.bootstrap, client=client, client_rack="rack-2") as consumer,
        ):
            await cluster.create_topics(
                admin, NewTopic(name=near.topic, replica_assignment={0: [1, 2, 3]})
            )
            consumer.assign([near])
            consumer.seek_to_beginning()

            async def read_one_from(node_id: int) -> bool:
                nonlocal sent
                await producer.send(near.topic, b"%d" % sent, partition=0)
                sent += 1
                while len(read) < sent:
                    read.extend(int(record.value) for record in await consumer.poll())
                return client.sources[-1] == node_id

            try:
                await until(lambda: read_one_from(2))
                # From now on nothing comes from the leader.
                assert [await read_one_from(2) for _ in range(5)] == [True] * 5
                await asyncio.to_thread(cluster.brokers[2].kill)
                await until(lambda: read_one_from(1))
                await asyncio.to_thread(cluster.brokers[2].start)
                await until(lambda: read_one_from(2))
                await asyncio.to_thread(cluster.brokers[1].stop)
                assert await read_one_from(2)
                await asyncio.to_thread(cluster.brokers[1].start)
                await cluster.until_in_sync(admin, [near.topic])
            finally:
                await consumer.close()
                await client.close()
        assert read == list(range(sent))

    asyncio.run(run())


def test_a_log_that_lost_what_was_read_is_noticed(cluster: AnyCluster) -> None:
    """CON-5, KIP-320: a replica that was left behind becomes the leader, and is written to."""
    cut = TopicPartition("cut", 0)
    first, lost, new = 10, 5, 8

    async def run() -> None:
        bootstrap = cluster.bootstrap
        async with (
            Admin(bootstrap) as admin,
            Producer(bootstrap) as producer,
            Consumer(bootstrap, auto_offset_reset="none") as strict,
            Consumer(bootstrap, auto_offset_reset="none") as sleeper,
            Consumer(bootstrap, auto_offset_reset="none") as returning,
            Consumer(bootstrap, auto_offset_reset="earliest") as lenient,
        ):

            async def produce(stem: str, count: int) -> None:
                for number in range(count):
                    await producer.send(cut.topic, f"{stem}-{number}".encode(), partition=0)

            async def in_sync_replicas() -> tuple[int, ...]:
                described = (await admin.topics.describe([cut.topic])).unwrap()[cut.topic]
                return described.partitions[0].in_sync_replica_ids

            async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
                records: list[ConsumerRecord] = []

                async def are_enough() -> bool:
                    records.extend(await consumer.poll())
                    return len(records) >= count

                await until(are_enough)
                return records

            configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
            await cluster.create_topics(
                admin,
                NewTopic(name=cut.topic, replica_assignment={0: [1, 2, 3]}, configs=configs),
            )
            await produce("first", first)
            for node_id in (2, 3):
                await asyncio.to_thread(cluster.brokers[node_id].stop)
            assert await in_sync_replicas() == (1,)
            await produce("lost", lost)
            for consumer in (strict, sleeper, lenient):
                consumer.assign([cut])
                consumer.seek(cut, 0)
                records = await read(consumer, first + lost)
                assert [record.offset for record in records] == list(range(first + lost))
            remembered = OffsetAndMetadata(first + lost, records[-1].leader_epoch)

            await asyncio.to_thread(cluster.brokers[1].kill)
            await asyncio.to_thread(cluster.brokers[2].start)
            await check_truncation(strict, cut, first + lost, first)
            # The leader lacks what the producer has numbered last: it numbers anew.
            await produce("new", new)
            wanted = [(first + number, f"new-{number}".encode()) for number in range(new)]

            found = await read(lenient, new)
            assert [(record.offset, record.value) for record in found] == wanted
            # By now the log is longer than the position: only the epoch tells.
            await check_truncation(sleeper, cut, first + lost, first)
            returning.assign([cut])
            returning.seek(cut, remembered)
            await check_truncation(returning, cut, first + lost, first)
            for consumer in (strict, sleeper, returning):
                consumer.seek(cut, first)
                found = await read(consumer, new)
                assert [(record.offset, record.value) for record in found] == wanted

            for node_id in (1, 3):
                await asyncio.to_thread(cluster.brokers[node_id].start)
            await cluster.until_in_sync(admin, [cut.topic])

    asyncio.run(run())


async def check_truncation(
    consumer: Consumer, partition: TopicPartition, position: int, agreed: int
) -> None:
    """Polling says so again and again, until a seek."""
    for _ in range(2):
        with pytest.raises(LogTruncatedError) as caught:
            async with asyncio.timeout(60):
                while True:
                    assert await consumer.poll() == []
        assert caught.value.positions == {partition: position}
        assert caught.value.divergence == {partition: agreed}


def test_an_administrator_sees_what_is_missing_and_moves_it(cluster: AnyCluster) -> None:
    """Replicas out of sync, preferred leaders, and a move on its way, cancelled and done."""
    topic, moved = "kept", TopicPartition("moved", 0)
    partitions = [TopicPartition(topic, number) for number in range(3)]

    async def run() -> None:
        async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:

            async def state(of: TopicPartition) -> tuple[int | None, set[int], set[int]]:
                described = (await admin.topics.describe([of.topic])).unwrap()[of.topic]
                one = described.partitions[of.partition]
                return one.leader_id, set(one.replica_ids), set(one.in_sync_replica_ids)

            async def is_state(of: TopicPartition, *wanted: object) -> bool:
                # Each time any broker is asked: one may not have heard of the topic yet.
                with contextlib.suppress(NotFoundError):
                    return await state(of) == wanted
                return False

            assignment = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
            await cluster.create_topics(
                admin,
                NewTopic(name=topic, replica_assignment=assignment),
                NewTopic(
                    name=moved.topic,
                    replica_assignment={0: [1]},
                    configs={"min.insync.replicas": "1"},
                ),
            )
            await until(lambda: is_state(partitions[2], 3, {1, 2, 3}, {1, 2, 3}))
            await asyncio.to_thread(cluster.brokers[3].stop)
            await until(lambda: is_state(partitions[2], 1, {1, 2, 3}, {1, 2}))
            await until(lambda: is_state(partitions[0], 1, {1, 2, 3}, {1, 2}))
            elected = await admin.partitions.elect_leaders(partitions=partitions[2:])
            error = elected[partitions[2]].error
            assert error is not None
            assert error.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            await asyncio.to_thread(cluster.brokers[3].start)
            await cluster.until_in_sync(admin, [topic])
            await until(lambda: is_state(partitions[2], 1, {1, 2, 3}, {1, 2, 3}))
            elected = await admin.partitions.elect_leaders(ElectionType.PREFERRED, partitions)
            assert elected[partitions[2]].error is None
            codes = {one: error.code for one, error in elected.errors.items()}
            assert codes == dict.fromkeys(partitions[:2], ErrorCode.ELECTION_NOT_NEEDED)
            await until(lambda: is_state(partitions[2], 3, {1, 2, 3}, {1, 2, 3}))

            for _ in range(20):
                producer.send(moved.topic, bytes(100_000), partition=0)
            await producer.flush()
            slow, held = ConfigResource.broker(2), ConfigResource.topic(moved.topic)
            rate = "follower.replication.throttled.rate"
            replicas = "follower.replication.throttled.replicas"
            (
                await admin.configs.alter(
                    {slow: [ConfigChange.set(rate, "1")], held: [ConfigChange.set(replicas, "*")]}
                )
            ).unwrap()
            on_its_way = Reassignment(
                replica_ids=(2, 1), adding_replica_ids=(2,), removing_replica_ids=(1,)
            )
            (await admin.partitions.reassign({moved: [2]})).unwrap()
            assert await admin.partitions.list_reassignments() == {moved: on_its_way}
            await until(lambda: is_state(moved, 1, {1, 2}, {1}))
            (await admin.partitions.reassign({moved: None})).unwrap()
            assert await admin.partitions.list_reassignments([moved]) == {}
            await until(lambda: is_state(moved, 1, {1}, {1}))

            (await admin.partitions.reassign({moved: [2]})).unwrap()
            assert await admin.partitions.list_reassignments([moved]) == {moved: on_its_way}
            (
                await admin.configs.alter(
                    {slow: [ConfigChange.delete(rate)], held: [ConfigChange.delete(replicas)]}
                )
            ).unwrap()
            await until(lambda: is_state(moved, 2, {2}, {2}))
            assert await admin.partitions.list_reassignments() == {}

    asyncio.run(run())
