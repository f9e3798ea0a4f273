"""Groups of a real broker through the gateway that the operator uses."""

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas_client import AcknowledgeType, Consumer, Producer, ShareConsumer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.share import ShareRecord
from barnabas_operator.gateway.kafka_groups import KafkaGroups
from barnabas_operator.group_spec import ResetRequest, ResetTarget, TopicSelection
from barnabas_operator.reconcile.group.group_apply import GroupQuestion
from barnabas_operator.reconcile.group.group_state import (
    DeleteGroup,
    SetOffsets,
)
from barnabas_protocol.ids import TopicPartition
from tests.interop.share_brokers import switch_on
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]


async def written(bootstrap: str, admin: Admin, topic: str, *timestamps: int) -> TopicPartition:
    """A topic with two partitions; a record for each timestamp in the first of them."""
    (await admin.topics.create([NewTopic(name=topic, partition_count=2)])).unwrap()
    topic_partition = TopicPartition(topic, 0)
    async with Producer(bootstrap) as producer:
        for timestamp in timestamps:
            await producer.send(topic, b"record", partition=0, timestamp_ms=timestamp)
    return topic_partition


def test_a_group_is_seen_with_its_offsets_its_members_and_the_age_of_what_it_has_not_read(
    bootstrap: str, unique: Unique
) -> None:
    """operator.md 8.1 and 8.3: the truth of the cluster, seconds from the records' timestamps."""
    topic, group_id, absent = unique("orders"), unique("billing"), unique("nobody")

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            gateway = KafkaGroups(admin)
            topic_partition = await written(bootstrap, admin, topic, 1000, 2000, 3000)
            committed = {topic_partition: OffsetAndMetadata(1)}
            (await admin.group_offsets.alter(group_id, committed)).unwrap()
            observed = await gateway.observe(
                [GroupQuestion(group_id=group_id), GroupQuestion(group_id=absent)]
            )
            group = observed.groups[group_id]
            assert (group.state, group.protocol) == ("Empty", "classic")
            assert group.committed == {topic_partition: 1}
            assert observed.ends == {topic_partition: OffsetRange(start=0, end=3)}
            assert observed.lag(group, topic_partition) == 2
            assert observed.record_times == {(topic_partition, 1): 2000}
            assert observed.groups[absent].is_absent
            async with Consumer(bootstrap, group_id=group_id) as consumer:
                consumer.subscribe([topic])
                await consumer.poll(timeout_ms=100)

                async def is_stable() -> bool:
                    await consumer.poll(timeout_ms=50)
                    seen = await gateway.observe([GroupQuestion(group_id=group_id)])
                    (*members,) = seen.groups[group_id].members
                    return seen.groups[group_id].state == "Stable" and set(
                        members[0].assignment
                    ) == {topic_partition, TopicPartition(topic, 1)}

                await eventually(is_stable)

    asyncio.run(run())


def test_a_record_within_a_large_batch_has_its_own_timestamp(
    bootstrap: str, unique: Unique
) -> None:
    """The header tells that of the first record only; batches are fetched whole where need be."""
    topics = [unique("batched") for _ in range(3)]

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            (
                await admin.topics.create(
                    [NewTopic(name=topic, partition_count=1) for topic in topics]
                )
            ).unwrap()
            async with Producer(bootstrap, linger_ms=200, compression_type="gzip") as producer:
                for topic in topics:
                    for number in range(50):
                        value = bytes([number]) * 200
                        producer.send(topic, value, partition=0, timestamp_ms=number + 1)
                await producer.flush()
            wanted = {TopicPartition(topic, 0): 20 + n for n, topic in enumerate(topics)}
            times = (await admin.partitions.record_timestamps(wanted)).unwrap()
            assert times == {TopicPartition(topic, 0): 21 + n for n, topic in enumerate(topics)}
            ends = {TopicPartition(topic, 0): 50 for topic in topics}
            found = (await admin.partitions.record_timestamps(ends)).unwrap()
            assert set(found.values()) == {None}

    asyncio.run(run())


def test_offsets_are_set_forgotten_and_found_by_timestamp(bootstrap: str, unique: Unique) -> None:
    topic, group_id = unique("orders"), unique("billing")

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            gateway = KafkaGroups(admin)
            first = await written(bootstrap, admin, topic, 1000, 2000, 3000)
            second = TopicPartition(topic, 1)
            action = SetOffsets(group_id=group_id, offsets={first: 3, second: 0})
            assert await gateway.carry_out(action) is None
            reset = ResetRequest(
                id="r1",
                target=ResetTarget.TIMESTAMP,
                timestamp_ms=1500,
                topics=(TopicSelection(name=topic),),
            )
            observed = await gateway.observe([GroupQuestion(group_id=group_id, reset=reset)])
            assert observed.groups[group_id].committed == {first: 3, second: 0}
            assert observed.by_timestamp == {(first, 1500): 1, (second, 1500): 0}
            action = SetOffsets(group_id=group_id, offsets={first: 1, second: None})
            assert await gateway.carry_out(action) is None
            observed = await gateway.observe([GroupQuestion(group_id=group_id)])
            assert observed.groups[group_id].committed == {first: 1}
            assert await gateway.carry_out(DeleteGroup(group_id=group_id)) is None
            assert await gateway.carry_out(DeleteGroup(group_id=group_id)) is None
            observed = await gateway.observe([GroupQuestion(group_id=group_id)])
            assert observed.groups[group_id].is_absent

    asyncio.run(run())


def test_the_offsets_of_a_live_group_are_not_set(bootstrap: str, unique: Unique) -> None:
    topic, group_id = unique("orders"), unique("billing")

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            topic_partition = await written(bootstrap, admin, topic, 1000)
            async with Consumer(bootstrap, group_id=group_id) as consumer:
                consumer.subscribe([topic])

                async def is_joined() -> bool:
                    await consumer.poll(timeout_ms=50)
                    return bool(consumer.assignment())

                await eventually(is_joined)
                gateway = KafkaGroups(admin)
                action = SetOffsets(group_id=group_id, offsets={topic_partition: 0})
                error = await gateway.carry_out(action)
                assert error is not None
                assert "NON_EMPTY_GROUP" in str(error)
                deleted = await gateway.carry_out(DeleteGroup(group_id=group_id))
                assert "NON_EMPTY_GROUP" in str(deleted)

    asyncio.run(run())


def test_a_topic_that_cannot_be_keeps_no_other_group_from_being_seen(
    bootstrap: str, unique: Unique
) -> None:
    """Brokers refuse such a name instead of saying that there is no such topic."""
    group_id = unique("billing")

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            impossible = TopicSelection(name="no such/topic")
            reset = ResetRequest(id="r", target=ResetTarget.EARLIEST, topics=(impossible,))
            observed = await KafkaGroups(admin).observe(
                [
                    GroupQuestion(group_id=unique("hostile"), reset=reset),
                    GroupQuestion(group_id=group_id),
                ]
            )
            assert observed.groups[group_id].is_absent
            assert observed.partition_counts == {}

    asyncio.run(run())


def test_a_share_group_is_seen_with_its_members_and_what_is_left(
    bootstrap: str, unique: Unique
) -> None:
    """operator.md 8.1, SHR-32: the coordinator tells what is left, start offsets where it is."""
    topic, group_id = unique("work"), unique("queue")

    async def run() -> None:
        await switch_on(bootstrap)
        async with Admin(bootstrap) as admin:
            gateway = KafkaGroups(admin)
            first = await written(bootstrap, admin, topic, 1000, 2000, 3000, 4000)
            resource = ConfigResource.group(group_id)
            changes = [ConfigChange.set("share.auto.offset.reset", "earliest")]
            (await admin.configs.alter({resource: changes})).unwrap()
            question = GroupQuestion(group_id=group_id)
            options: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
            async with ShareConsumer(bootstrap, group_id=group_id, **options) as consumer:
                consumer.subscribe([topic])
                records: list[ShareRecord] = []
                async with asyncio.timeout(60):
                    while len(records) < 4:
                        records += await consumer.poll(timeout_ms=500)
                for record in records:
                    is_done = record.offset != 1
                    kind = AcknowledgeType.ACCEPT if is_done else AcknowledgeType.RELEASE
                    consumer.acknowledge(record, kind)
                assert not any((await consumer.commit()).values())
                seen = (await gateway.observe([question])).groups[group_id]
                assert (seen.state, seen.protocol, seen.assignor) == ("Stable", "share", "simple")
                (member,) = seen.members
                assert member.assignment == (first, TopicPartition(topic, 1))

            async def is_empty() -> bool:
                observed = await gateway.observe([question])
                group = observed.groups[group_id]
                return (
                    group.state == "Empty"
                    and first in group.committed
                    # Kafka tells what is left since 4.2; before, it is what is behind the start.
                    and observed.lag(group, first)
                    == (1 if first in group.left else 4 - group.committed[first])
                )

            await eventually(is_empty)
            if first not in (await gateway.observe([question])).groups[group_id].left:
                return  # the preview in Kafka 4.1, whose answers to changes leave topics out
            action = SetOffsets(group_id=group_id, offsets={first: 0}, is_share=True)
            assert await gateway.carry_out(action) is None
            observed = await gateway.observe([question])
            assert observed.groups[group_id].committed[first] == 0
            assert observed.lag(observed.groups[group_id], first) == 4
            forgotten: dict[TopicPartition, int | None] = {first: None}
            action = SetOffsets(group_id=group_id, offsets=forgotten, is_share=True)
            assert await gateway.carry_out(action) is None
            observed = await gateway.observe([question])
            assert first not in observed.groups[group_id].committed
            assert await gateway.carry_out(DeleteGroup(group_id=group_id)) is None
            observed = await gateway.observe([question])
            assert observed.groups[group_id].is_absent

    asyncio.run(run())
