"""Our share consumer on one broker that serves share groups: acknowledgement, locks, sessions."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client import AcknowledgeType, BarnabasError, ShareConsumer, TopicPartition
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.groups import GroupState, GroupType
from barnabas_client.errors import IllegalStateError
from barnabas_client.producer import Producer
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from barnabas_protocol.messages.share_fetch import ShareFetchRequest
from tests.client.admin.raw_requests import connected
from tests.interop.share_brokers import (
    SESSIONS_MAX,
    configure,
    prepare,
    seen,
    send,
    take,
)
from tests.interop.started_brokers import AnyBroker
from tests.support.in_process_broker import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

Unique = Callable[[str], str]
EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}


@pytest.fixture
def share(share_broker: AnyBroker) -> str:
    """The address of a broker that serves share groups."""
    return share_broker.bootstrap


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Unique:
    """Names that no other test has."""
    return lambda stem: f"{stem}-{request.node.name.partition('[')[0][-60:]}"


def test_records_are_accepted_by_the_next_poll(share: str, unique: Unique) -> None:
    """SHR-40: and by leaving the block; nothing is delivered twice."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group, partition_count=3)
        values = [b"%03d" % number for number in range(100)]
        await send(share, topic, values)
        async with ShareConsumer(share, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert seen(await take(consumer, 100)) == [(value, 1) for value in values]
        await send(share, topic, [b"more"])
        async with ShareConsumer(share, group_id=group) as consumer:
            consumer.subscribe([topic])
            async for record in consumer:
                assert (record.value, record.delivery_count) == (b"more", 1)
                break
        async with ShareConsumer(share, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert await consumer.poll(timeout_ms=2000) == []
            assert len(consumer.assignment()) == 3

    asyncio.run(run())


def test_released_records_come_again_and_rejected_ones_do_not(share: str, unique: Unique) -> None:
    """SHR-40, SHR-11: up to the limit of deliveries, with a count."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group)
        async with Admin(share) as admin:
            described = await admin.features.describe()
            assert described.finalized["share.version"].maximum >= 1
        await send(share, topic, [b"accepted", b"rejected", b"released"])
        kinds = {
            b"accepted": AcknowledgeType.ACCEPT,
            b"rejected": AcknowledgeType.REJECT,
            b"released": AcknowledgeType.RELEASE,
        }
        async with ShareConsumer(share, group_id=group, **EXPLICIT) as consumer:
            consumer.subscribe([topic])
            records = await take(consumer, 3)
            with pytest.raises(IllegalStateError):
                await consumer.poll()
            for record in records:
                consumer.acknowledge(record, kinds[record.value])
            # Five deliveries are the default limit.
            for count in range(2, 6):
                (record,) = await take(consumer, 1)
                assert (record.value, record.delivery_count) == (b"released", count)
                consumer.acknowledge(record, AcknowledgeType.RELEASE)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            assert await consumer.poll(timeout_ms=1500) == []

    asyncio.run(run())


def test_two_consumers_share_one_partition(share: str, unique: Unique) -> None:
    """SHR-41: every record goes to one of them, and both get some."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group)
        settings: dict[str, Any] = {"group_id": group, "max_poll_records": 5}
        async with (
            ShareConsumer(share, **settings) as first,
            ShareConsumer(share, **settings) as second,
        ):
            got: dict[ShareConsumer, list[bytes]] = {first: [], second: []}

            async def work(consumer: ShareConsumer) -> None:
                consumer.subscribe([topic])
                async with asyncio.timeout(60):
                    while sum(map(len, got.values())) < 200:
                        records = await consumer.poll(timeout_ms=500)
                        got[consumer] += [record.value for record in records]

            async def write() -> None:
                async with asyncio.timeout(30):
                    while not (first.assignment() and second.assignment()):
                        await asyncio.sleep(0.05)
                for start in range(0, 200, 5):
                    await send(share, topic, [b"%03d" % n for n in range(start, start + 5)])

            await asyncio.gather(work(first), work(second), write())
            assert sorted(got[first] + got[second]) == [b"%03d" % n for n in range(200)]
            assert got[first]
            assert got[second]

    asyncio.run(run())


def test_a_lock_that_runs_out_gives_the_record_to_another(share: str, unique: Unique) -> None:
    """SHR-18, SHR-41: the late acknowledgement fails, the other one holds."""
    topic, group = unique("t"), unique("g")
    partition = TopicPartition(topic, 0)

    async def run() -> None:
        await prepare(share, topic, group, share_record_lock_duration_ms="1500")
        await send(share, topic, [b"slow"])
        async with (
            ShareConsumer(share, group_id=group, **EXPLICIT) as slow,
            ShareConsumer(share, group_id=group, **EXPLICIT) as quick,
        ):
            slow.subscribe([topic])
            quick.subscribe([topic])
            (late,) = await take(slow, 1)
            (again,) = await take(quick, 1)
            assert (again.offset, again.delivery_count) == (late.offset, 2)
            quick.acknowledge(again)
            assert await quick.commit() == {partition: None}
            slow.acknowledge(late)
            error = (await slow.commit())[partition]
            assert isinstance(error, BarnabasError)
            assert error.code is ErrorCode.INVALID_RECORD_STATE

    asyncio.run(run())


def test_prefetched_records_whose_lock_ran_out_are_not_delivered(
    share: str, unique: Unique
) -> None:
    """SHR-41: another member has had them meanwhile."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group, share_record_lock_duration_ms="1500")
        await send(share, topic, [b"0", b"1", b"2"], partition=0)
        async with (
            ShareConsumer(share, group_id=group, **EXPLICIT) as consumer,
            ShareConsumer(share, group_id=group) as other,
        ):
            consumer.subscribe([topic])
            (first,) = await take(consumer, 1, max_records=1)
            consumer.acknowledge(first)
            await consumer.commit()
            other.subscribe([topic])
            assert seen(await take(other, 2)) == [(b"1", 2), (b"2", 2)]
            await other.commit()
            assert await consumer.poll(timeout_ms=2000) == []

    asyncio.run(run())


def test_a_renewed_lock_holds(share: str, unique: Unique, share_broker: AnyBroker) -> None:
    """SHR-19: where the broker knows renewals; elsewhere that is the result."""
    topic, group = unique("t"), unique("g")
    partition = TopicPartition(topic, 0)

    async def run() -> None:
        await prepare(share, topic, group, share_record_lock_duration_ms="2000")
        await send(share, topic, [b"long"])
        async with (
            ShareConsumer(share, group_id=group, **EXPLICIT) as consumer,
            ShareConsumer(share, group_id=group, **EXPLICIT) as other,
        ):
            consumer.subscribe([topic])
            other.subscribe([topic])
            (record,) = await take(consumer, 1)
            for _ in range(4):
                assert await other.poll(timeout_ms=800) == []
                consumer.acknowledge(record, AcknowledgeType.RENEW)
                result = (await consumer.commit())[partition]
                if getattr(share_broker, "version", "") == "4.1.1":
                    assert result is not None
                    return
                assert result is None
            consumer.acknowledge(record)
            assert await consumer.commit() == {partition: None}

    asyncio.run(run())


def test_closing_releases_what_is_open(share: str, unique: Unique) -> None:
    """SHR-41: at once, not when the locks run out."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group)
        await send(share, topic, [b"a", b"b"], partition=0)
        async with ShareConsumer(share, group_id=group, **EXPLICIT) as consumer:
            consumer.subscribe([topic])
            first, _ = await take(consumer, 2)
            consumer.acknowledge(first)
        async with ShareConsumer(share, group_id=group, **EXPLICIT) as consumer:
            consumer.subscribe([topic])
            async with asyncio.timeout(20):
                (record,) = await take(consumer, 1)
                # Kafka 4.1 takes the delivery back when a session ends.
                assert (record.value, record.delivery_count <= 2) == (b"b", True)

    asyncio.run(run())


@pytest.mark.parametrize("is_ended", [True, False], ids=["122", "123"])
def test_a_session_that_the_broker_lost_is_opened_anew(
    share: str, unique: Unique, is_ended: bool
) -> None:
    """SHR-41: 122 after its end, 123 after another one under the same member."""
    topic, group = unique(f"t{is_ended}"), unique(f"g{is_ended}")

    async def run() -> None:
        await prepare(share, topic, group)
        await send(share, topic, [b"before"])
        async with ShareConsumer(share, group_id=group) as consumer:
            consumer.subscribe([topic])
            await take(consumer, 1)
            await consumer.commit()
            async with connected(share) as (client, admin):
                described = (await admin.share_groups.describe([group]))[group].unwrap()
                (member,) = described.members
                (node_id,) = client.cluster.nodes
                request = (
                    ShareAcknowledgeRequest(
                        group_id=group, member_id=member.member_id, share_session_epoch=-1
                    )
                    if is_ended
                    else ShareFetchRequest(
                        group_id=group,
                        member_id=member.member_id,
                        share_session_epoch=0,
                        max_bytes=1,
                        max_records=1,
                    )
                )
                response = await client.request(node_id, request)
                assert response.error_code == ErrorCode.NONE
                await send(share, topic, [b"after"])
                assert [record.value for record in await take(consumer, 1)] == [b"after"]
                assert await consumer.commit() == {TopicPartition(topic, 0): None}

    asyncio.run(run())


def test_a_broker_without_room_for_a_session_is_asked_again(share: str, unique: Unique) -> None:
    """SHR-41, SHR-21: 133 until another consumer is gone."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group)
        others = [ShareConsumer(share, group_id=unique("others")) for _ in range(SESSIONS_MAX)]

        async def join(consumer: ShareConsumer) -> None:
            await consumer.start()
            consumer.subscribe([topic])
            async with asyncio.timeout(60):
                while not consumer.assignment():
                    await consumer.poll(timeout_ms=200)

        async with ShareConsumer(share, group_id=group) as consumer:
            await asyncio.gather(*map(join, others))
            await asyncio.gather(*(other.poll(timeout_ms=1000) for other in others))
            await join(consumer)
            await send(share, topic, [b"for whom"])
            assert await consumer.poll(timeout_ms=2000) == []
            await asyncio.gather(*(other.close() for other in others))
            assert [record.value for record in await take(consumer, 1)] == [b"for whom"]

    asyncio.run(run())


def test_markers_of_transactions_are_gaps_and_aborted_records_are_not_seen(
    share: str, unique: Unique
) -> None:
    """SHR-13, SHR-34: the group reaches the end of the log."""
    topic, group = unique("t"), unique("g")
    partition = TopicPartition(topic, 0)

    async def run() -> None:
        await prepare(share, topic, group, share_isolation_level="read_committed")
        async with Producer(share, transactional_id=unique("x")) as producer:
            await producer.init_transactions()
            for value, is_committed in ((b"yes", True), (b"no", False), (b"also", True)):
                await producer.begin_transaction()
                await producer.send(topic, value)
                await (
                    producer.commit_transaction() if is_committed else producer.abort_transaction()
                )
        async with ShareConsumer(share, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert [one.value for one in await take(consumer, 2)] == [b"yes", b"also"]
            await consumer.commit()
            async with Admin(share) as admin:
                listed = (await admin.share_groups.list_offsets([group]))[group].unwrap()
                found = listed[partition]
                assert found is not None
                # Brokers before 4.2 tell no lag; the start is that of the last state written.
                assert found.lag in (0, None)

    asyncio.run(run())


def test_a_record_limit_is_kept(share: str, unique: Unique, share_broker: AnyBroker) -> None:
    """SHR-10: the rest of the batch is another member's."""
    if getattr(share_broker, "version", "") == "4.1.1":
        pytest.skip("acquire modes are newer")
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group)
        await send(share, topic, [b"%d" % number for number in range(10)], partition=0)
        settings: dict[str, Any] = {
            "group_id": group,
            "share_acquire_mode": "record_limit",
            "max_poll_records": 4,
            **EXPLICIT,
        }
        async with (
            ShareConsumer(share, **settings) as first,
            ShareConsumer(share, **settings) as second,
        ):
            first.subscribe([topic])
            second.subscribe([topic])
            one, other = await take(first, 1), await take(second, 1)
            assert (len(one), len(other)) == (4, 4)
            assert not {record.offset for record in one} & {record.offset for record in other}

    asyncio.run(run())


def test_the_group_is_listed_described_moved_and_deleted(
    share: str, unique: Unique, share_broker: AnyBroker
) -> None:
    """SHR-32: what `barnabas share` is made of."""
    topic, group = unique("t"), unique("g")
    partition = TopicPartition(topic, 0)

    async def run() -> None:
        await prepare(share, topic, group)
        await send(share, topic, [b"%d" % number for number in range(5)], partition=0)
        async with Admin(share) as admin:
            async with ShareConsumer(share, group_id=group) as consumer:
                consumer.subscribe([topic])
                await take(consumer, 5)
                await consumer.commit()
                described = (await admin.share_groups.describe([group]))[group].unwrap()
                assert described.state is GroupState.STABLE
                assert [one.assignment for one in described.members] == [(partition,)]
                listed = await admin.groups.list(types=[GroupType.SHARE])
                assert group in {one.group_id for one in listed}

            async def is_empty() -> bool:
                found = (await admin.share_groups.describe([group]))[group].unwrap()
                return found.state is GroupState.EMPTY

            await eventually(is_empty)
            # Kafka 4.1 answers about no partition, whatever it did.
            if getattr(share_broker, "version", "") != "4.1.1":
                (await admin.share_groups.alter_offsets(group, {partition: 3})).unwrap()
                async with ShareConsumer(share, group_id=group) as consumer:
                    consumer.subscribe([topic])
                    assert [one.offset for one in await take(consumer, 2)] == [3, 4]
                await eventually(is_empty)
            (await admin.share_groups.delete_offsets(group, [topic])).unwrap()
            (await admin.groups.delete([group])).unwrap()
            listed = await admin.groups.list(types=[GroupType.SHARE])
            assert group not in {one.group_id for one in listed}

    asyncio.run(run())


def test_settings_of_a_running_group_take_effect(share: str, unique: Unique) -> None:
    """SHR-38: a shorter lock holds for what is acquired from then on."""
    topic, group = unique("t"), unique("g")

    async def run() -> None:
        await prepare(share, topic, group)
        async with (
            ShareConsumer(share, group_id=group, **EXPLICIT) as consumer,
            ShareConsumer(share, group_id=group, **EXPLICIT) as other,
        ):
            consumer.subscribe([topic])
            await consumer.poll(timeout_ms=1000)
            async with Admin(share) as admin:
                await configure(admin, group, share_record_lock_duration_ms="1000")
            await send(share, topic, [b"x"])
            await take(consumer, 1)
            other.subscribe([topic])
            async with asyncio.timeout(15):
                assert seen(await take(other, 1)) == [(b"x", 2)]

    asyncio.run(run())
