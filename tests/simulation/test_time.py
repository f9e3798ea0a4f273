"""Hours pass: retention, rolling, offset and producer expiry happen in a whole broker."""

import asyncio

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import heartbeat, join_group, list_groups, sync_group
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.simulation import requests
from tests.simulation.long_run import (
    HOUR_MS,
    HOUR_SECONDS,
    PATIENT,
    SPAN_MS,
    SPAN_SECONDS,
    TOPIC,
    produced,
    run,
)
from tests.simulation.workload import until_coordinated
from tests.support.simulated_broker import Life, Machine

ORDERS_0 = TopicPartition(TOPIC, 0)


def test_a_whole_broker_serves_through_the_simulated_network() -> None:
    """BOOT-2: what is produced is fetched, in pieces of seven bytes, and again after a restart."""
    machine = Machine(1)
    machine.piece_bytes_max = 7

    async def first(life: Life) -> None:
        async with await life.connect() as client:
            assert (await requests.create_topic(client, TOPIC))[0] == 0
            for number in range(5):
                assert await produced(life, client, b"%d" % number) == number

    async def second(life: Life) -> None:
        async with await life.connect() as client:
            records = await requests.read_all(client, TOPIC, 0)
            assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4"]

    run(machine, first)
    run(machine, second)


def test_segments_roll_by_time_and_outlive_their_retention_only_once() -> None:
    """SEG-1, SEG-10: after a while the old records are gone and the new ones are not."""
    machine = Machine(2, PATIENT | {"log.retention.check.interval.ms": "10000"})

    async def work(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(
                client, TOPIC, segment_ms=str(SPAN_MS), retention_ms=str(2 * SPAN_MS)
            )
            for _ in range(5):
                await produced(life, client, b"x")
                await asyncio.sleep(SPAN_SECONDS + 1)
            log = life.server.logs.logs[ORDERS_0]
            assert 2 <= len(log.segments) <= 4
            assert 2 <= log.log_start_offset <= 3
            await asyncio.sleep(3 * SPAN_SECONDS)
            assert (log.log_start_offset, log.log_end_offset) == (5, 5)
            assert await requests.read_all(client, TOPIC, 0) == []
            names = life.machine.disk.list_directory(log.directory)
            assert [name for name in names if name.endswith(".log")] == [f"{5:020d}.log"]

    run(machine, work)


def test_offsets_of_an_empty_group_expire_and_the_group_goes() -> None:
    """OFS-9: after the retention, not before."""
    machine = Machine(
        3,
        PATIENT
        | {"offsets.retention.minutes": "60", "offsets.retention.check.interval.ms": "60000"},
    )

    async def work(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC)
            await until_coordinated(client, "group")
            assert await requests.commit_offset(client, "group", TOPIC, 0, 7) == 0
            await asyncio.sleep(HOUR_SECONDS - 120)
            assert await requests.committed_offset(client, "group", TOPIC, 0) == (0, 7)
            await asyncio.sleep(240)
            assert await requests.committed_offset(client, "group", TOPIC, 0) == (0, -1)
            response = await client.call(ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest())
            assert response.groups == []

    run(machine, work)


def test_silent_producers_are_forgotten() -> None:
    """TXL-4: then their sequences may start anywhere."""
    machine = Machine(4, PATIENT | {"producer.id.expiration.ms": str(HOUR_MS)})

    async def work(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC)
            producer = await requests.new_producer(client)
            await produced(life, client, b"x", producer=producer, sequence=0)
            state = life.server.logs.logs[ORDERS_0].producer_state
            await asyncio.sleep(HOUR_SECONDS - 700)
            assert producer.producer_id in state.producers
            await asyncio.sleep(1_400)
            assert producer.producer_id not in state.producers

    run(machine, work)


def test_a_connection_without_requests_is_closed() -> None:
    """NET-5: after ten minutes, unless a request waits on it."""
    machine = Machine(6)

    async def work(life: Life) -> None:
        async with await life.connect() as client:
            await requests.topics(client)
            await asyncio.sleep(590)
            await requests.topics(client)
            await asyncio.sleep(700)
            assert await client.is_closed_by_peer()

    run(machine, work)


def test_a_member_that_is_silent_leaves_and_its_group_stays() -> None:
    """GRP-15: a session time-out, on the broker's own timers."""
    machine = Machine(5)

    async def work(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC)
            await until_coordinated(client, "group")
            joined = await client.call(ApiKey.JOIN_GROUP, 7, join_request(""))
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            member = joined.member_id
            joined = await client.call(ApiKey.JOIN_GROUP, 7, join_request(member))
            assert (joined.error_code, joined.leader) == (0, member)
            assignment = sync_group.SyncGroupRequestAssignment(member_id=member, assignment=b"all")
            synced = await client.call(
                ApiKey.SYNC_GROUP,
                5,
                sync_group.SyncGroupRequest(
                    group_id="group",
                    generation_id=joined.generation_id,
                    member_id=member,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=[assignment],
                ),
            )
            assert (synced.error_code, bytes(synced.assignment)) == (0, b"all")
            committed = await client.call(
                ApiKey.OFFSET_COMMIT, 8, member_commit(member, joined.generation_id)
            )
            assert committed.topics[0].partitions[0].error_code == 0
            beat = heartbeat.HeartbeatRequest(
                group_id="group", generation_id=joined.generation_id, member_id=member
            )
            for _ in range(20):
                await asyncio.sleep(9)
                assert (await client.call(ApiKey.HEARTBEAT, 4, beat)).error_code == 0
            await asyncio.sleep(11)
            silent = await client.call(ApiKey.HEARTBEAT, 4, beat)
            assert silent.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert await requests.committed_offset(client, "group", TOPIC, 0) == (0, 3)

    run(machine, work)


def join_request(member_id: str) -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id="group",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def member_commit(member_id: str, generation: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="group",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=3)],
            )
        ],
    )
