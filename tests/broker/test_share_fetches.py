"""Members of share groups on one broker: from the heartbeat to the acknowledgement and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.server import Server
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_broker.share.share_session import SESSION_PARTITIONS_MAX
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.share_fetch import ForgottenTopic
from barnabas_protocol.records.record import decode_records
from tests.broker.share_member import (
    ShareMember,
    acquired_of,
    append,
    coordinator_of,
    create_topic,
    delete_topic,
    error_of,
    switch,
)
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Bench:
    """A broker with share groups, a topic, and two connections."""

    def __init__(
        self, server: Server, admin: RawClient, client: RawClient, topic_id: bytes
    ) -> None:
        self.server = server
        self.admin = admin
        self.client = client
        self.topic_id = topic_id

    def member(self, name: str = "m1", client: RawClient | None = None) -> ShareMember:
        return ShareMember(client or self.client, "g", name, self.topic_id)

    async def append(self, count: int) -> int:
        return await append(self.admin, "t", [b"v%d" % i for i in range(count)])


SETTINGS = {
    "group_share_min_record_lock_duration_ms": "1000",
    "group_share_record_lock_duration_ms": "1000",
    "share_coordinator_state_topic_num_partitions": "2",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}
Work = Callable[[Bench], Coroutine[Any, Any, None]]


def in_bench(directory: Path, work: Work, **properties: str) -> None:
    """Run against a broker with locks of a second; the group g begins at offset 0."""

    async def run() -> None:
        async with (
            running_broker(directory, **SETTINGS | properties) as server,
            await RawClient.connect(server.port) as admin,
            await RawClient.connect(server.port) as client,
        ):
            bench = Bench(server, admin, client, await create_topic(admin, "t"))
            key = SharePartitionKey("g", bench.topic_id, 0)
            await server.data.share_state.persister.initialize(key, 1, 0)
            await work(bench)

    asyncio.run(run())


def test_records_are_acquired_acknowledged_and_never_delivered_again(tmp_path: Path) -> None:
    """SHR-13, SHR-16, SHR-17, SHR-20."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        assert acquired_of(await member.fetch(0, max_wait_ms=200)) == []
        await bench.append(5)
        response = await member.fetch()
        assert acquired_of(response) == [(0, 4, 1)]
        assert response.acquisition_lock_timeout_ms == 1_000
        records = response.responses[0].partitions[0].records
        assert [one.value for one in decode_records(records)] == [b"v%d" % i for i in range(5)]
        acknowledged = await member.acknowledge((0, 1, [ACCEPT]), (2, 4, [ACCEPT, RELEASE, REJECT]))
        assert error_of(acknowledged) == ErrorCode.NONE
        assert acquired_of(await member.fetch()) == [(3, 3, 2)]

    in_bench(tmp_path, work)


def test_a_record_is_delivered_again_when_its_lock_has_run_out(tmp_path: Path) -> None:
    """SHR-11, SHR-14, SHR-18: a fetch that waits gets it, with a higher count."""

    async def work(bench: Bench) -> None:
        member, other = bench.member(), bench.member("m2", bench.admin)
        await bench.append(3)
        assert acquired_of(await member.fetch(0)) == [(0, 2, 1)]
        assert acquired_of(await other.fetch(0, max_wait_ms=10_000)) == [(0, 2, 2)]
        late = await member.acknowledge((0, 2, [ACCEPT]))
        assert error_of(late) == ErrorCode.INVALID_RECORD_STATE
        assert error_of(await other.acknowledge((0, 2, [ACCEPT]))) == ErrorCode.NONE

    in_bench(tmp_path, work)


def test_acknowledgements_ride_on_fetches_and_the_last_one_ends_the_session(tmp_path: Path) -> None:
    """SHR-20: epoch -1 acknowledges, and releases what is left."""

    async def work(bench: Bench) -> None:
        member, other = bench.member(), bench.member("m2", bench.admin)
        await bench.append(2)
        await bench.append(2)
        assert acquired_of(await member.fetch(0, max_records=1)) == [(0, 1, 1)]
        response = await member.fetch(acknowledge={0: [(0, 1, [ACCEPT])]})
        assert acquired_of(response) == [(2, 3, 1)]
        assert response.responses[0].partitions[0].acknowledge_error_code == ErrorCode.NONE
        final = await member.fetch(acknowledge={0: [(2, 2, [ACCEPT])]}, session_epoch=-1)
        partition = final.responses[0].partitions[0]
        assert (partition.acknowledge_error_code, list(partition.acquired_records)) == (0, [])
        assert acquired_of(await other.fetch(0)) == [(3, 3, 2)]
        gone = await member.fetch(0, session_epoch=1)
        assert gone.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND

    in_bench(tmp_path, work)


def test_a_lost_connection_releases_its_locks_at_once(tmp_path: Path) -> None:
    """SHR-21: nobody waits for the locks of a member that is gone."""

    async def work(bench: Bench) -> None:
        await bench.append(2)
        other = bench.member("m2", bench.admin)
        async with await RawClient.connect(bench.server.port) as client:
            assert acquired_of(await bench.member("m3", client).fetch(0)) == [(0, 1, 1)]
        assert acquired_of(await other.fetch(0, max_wait_ms=15_000)) == [(0, 1, 2)]

    in_bench(
        tmp_path,
        work,
        group_share_record_lock_duration_ms="60000",
        group_share_max_record_lock_duration_ms="60000",
    )


def test_a_fetch_that_waits_gets_what_is_produced(tmp_path: Path) -> None:
    """SHR-14: the high watermark wakes it; record_limit takes no more than it may (SHR-10)."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        waiting = asyncio.create_task(
            member.fetch(0, max_wait_ms=15_000, max_records=2, share_acquire_mode=1)
        )
        await asyncio.sleep(0)
        await bench.append(5)
        response = await waiting
        assert acquired_of(response) == [(0, 1, 1)]
        records = decode_records(response.responses[0].partitions[0].records)
        assert len(list(records)) == 5  # whole batches; the client delivers what is acquired
        assert acquired_of(await member.fetch(max_records=2, share_acquire_mode=1)) == [(2, 3, 1)]

    in_bench(tmp_path, work)


def test_a_lock_is_renewed_by_a_request_that_fetches_nothing(tmp_path: Path) -> None:
    """SHR-19: with anything to fetch it is malformed."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        await bench.append(2)
        assert acquired_of(await member.fetch(0)) == [(0, 1, 1)]
        renewal: dict[str, Any] = {"acknowledge": {0: [(0, 1, [RENEW])]}, "is_renew_ack": True}
        assert (await member.fetch(**renewal)).error_code == ErrorCode.INVALID_REQUEST
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        renewed = await member.fetch(**renewal, **nothing)
        assert renewed.responses[0].partitions[0].acknowledge_error_code == ErrorCode.NONE
        refused = await member.acknowledge((0, 1, [RENEW]))
        assert error_of(refused) == ErrorCode.INVALID_REQUEST
        assert error_of(await member.acknowledge((0, 1, [RENEW]), is_renew=True)) == 0
        assert error_of(await member.acknowledge((0, 1, [ACCEPT]))) == ErrorCode.NONE

    in_bench(tmp_path, work)


def test_share_sessions_go_by_their_epochs(tmp_path: Path) -> None:
    """SHR-20: both requests share the counter; what is wrong with the session fails the request."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        opening = await member.fetch(acknowledge={0: [(0, 0, [ACCEPT])]})
        assert opening.error_code == ErrorCode.INVALID_REQUEST
        assert (await member.fetch(0, session_epoch=5)).error_code == 122
        assert (await member.acknowledge(session_epoch=0)).error_code == 123
        assert (await member.acknowledge(session_epoch=-1)).error_code == 122
        assert acquired_of(await member.fetch(0, max_wait_ms=0)) == []
        assert (await member.fetch(session_epoch=2, max_wait_ms=0)).error_code == 123
        assert (await member.acknowledge()).error_code == ErrorCode.NONE
        assert (await member.fetch(max_wait_ms=0)).error_code == ErrorCode.NONE
        assert (await member.fetch(session_epoch=2)).error_code == 123
        nameless = ShareMember(bench.client, "g", "", bench.topic_id)
        assert (await nameless.fetch(0)).error_code == ErrorCode.INVALID_REQUEST

    in_bench(tmp_path, work)


def test_share_sessions_are_bounded(tmp_path: Path) -> None:
    """SHR-21: who finds no room waits, and then gets an error; nobody is evicted."""

    async def work(bench: Bench) -> None:
        member, other = bench.member(), bench.member("m2", bench.admin)
        assert (await member.fetch(0, max_wait_ms=0)).error_code == ErrorCode.NONE
        refused = await other.fetch(0, max_wait_ms=50)
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert (await member.fetch(max_wait_ms=0)).error_code == ErrorCode.NONE
        assert (await member.acknowledge(session_epoch=-1)).error_code == ErrorCode.NONE
        assert (await other.fetch(0, max_wait_ms=0)).error_code == ErrorCode.NONE

    in_bench(tmp_path, work, group_share_max_share_sessions="1")


def test_a_request_names_no_more_partitions_than_a_session_has(tmp_path: Path) -> None:
    """SHR-21: whatever its epoch is; to look at very many would hold up the loop."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        assert (await member.fetch(0, max_wait_ms=0)).error_code == ErrorCode.NONE
        too_many = {index: [(0, 0, [ACCEPT])] for index in range(SESSION_PARTITIONS_MAX + 1)}
        last = await member.fetch(acknowledge=too_many, session_epoch=-1)
        assert last.error_code == ErrorCode.INVALID_REQUEST
        forgotten = [ForgottenTopic(topic_id=bench.topic_id, partitions=[*too_many])]
        refused = await member.fetch(forgotten_topics_data=forgotten, session_epoch=1)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (await member.fetch(max_wait_ms=0)).error_code == ErrorCode.NONE

    in_bench(tmp_path, work)


@pytest.mark.parametrize("count", [1, 10_000])
def test_very_many_acknowledgements_are_gathered_beside_the_loop(
    tmp_path: Path, count: int
) -> None:
    async def work(bench: Bench) -> None:
        member = bench.member()
        await bench.append(1)
        assert acquired_of(await member.fetch(0)) == [(0, 0, 1)]
        before = bench.server.heavy_work.run_count
        wrong = [(offset, offset, [ACCEPT]) for offset in range(1, count + 1)]
        assert error_of(await member.acknowledge(*wrong)) == ErrorCode.INVALID_REQUEST
        # The request is read there, too, and its response is written there.
        assert bench.server.heavy_work.run_count - before == (0 if count == 1 else 3)

    in_bench(tmp_path, work)


@pytest.mark.parametrize("index", [1, 70_000])
def test_partitions_that_are_not_there_fail_alone(tmp_path: Path, index: int) -> None:
    """SHR-3, SHR-17: the others of the request are served."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        await bench.append(1)
        assert acquired_of(await member.fetch(0)) == [(0, 0, 1)]
        assert error_of(await member.acknowledge((0, 0, [RELEASE]))) == ErrorCode.NONE
        response = await member.fetch(index)
        assert acquired_of(response) == [(0, 0, 2)]
        codes = {one.partition_index: one.error_code for one in response.responses[0].partitions}
        assert codes[index] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        acknowledged = await member.acknowledge((0, 0, [ACCEPT]), partition=index)
        assert error_of(acknowledged) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        stranger = ShareMember(bench.admin, "g", "m4", bytes(range(16)))
        assert error_of(await stranger.fetch(0)) == ErrorCode.UNKNOWN_TOPIC_ID

    in_bench(tmp_path, work)


def test_a_share_partition_that_nobody_initialized_is_refused(tmp_path: Path) -> None:
    """SHR-3: the state of a group that there is not cannot be read; the next fetch tries again."""

    async def work(bench: Bench) -> None:
        member = ShareMember(bench.client, "other", "m1", bench.topic_id)
        for _ in range(2):
            assert error_of(await member.fetch(0)) == ErrorCode.UNKNOWN_SERVER_ERROR
        key = SharePartitionKey("other", bench.topic_id, 0)
        await bench.server.data.share_state.persister.initialize(key, 1, 0)
        await bench.append(1)
        assert acquired_of(await member.fetch()) == [(0, 0, 1)]

    in_bench(tmp_path, work)


def test_a_deleted_topic_takes_its_share_partitions_along(tmp_path: Path) -> None:
    """SHR-33: and those who wait hear of it at once."""

    async def work(bench: Bench) -> None:
        member = bench.member()
        assert acquired_of(await member.fetch(0, max_wait_ms=0)) == []
        waiting = asyncio.create_task(member.fetch(max_wait_ms=15_000))
        shares = bench.server.data.share_serving.share_partitions
        await eventually(lambda: _is_true(shares.purgatory.pending_count == 1))
        await delete_topic(bench.admin, "t")
        assert error_of(await waiting) != ErrorCode.NONE
        assert not shares.loaded

    in_bench(tmp_path, work)


async def _is_true(value: bool) -> bool:
    return value


def test_what_is_written_is_there_after_a_restart(tmp_path: Path) -> None:
    """SHR-17, SHR-33: accepted is final; what was only acquired is delivered again."""

    async def before(bench: Bench) -> None:
        member = bench.member()
        await bench.append(4)
        assert acquired_of(await member.fetch(0)) == [(0, 3, 1)]
        assert error_of(await member.acknowledge((0, 1, [ACCEPT]), (2, 2, [RELEASE]))) == 0

    async def after(server: Server) -> None:
        async with await RawClient.connect(server.port) as client:
            topic_id = await create_topic(client, "t")
            member = ShareMember(client, "g", "m1", topic_id)
            acquired = acquired_of(await member.fetch(0, max_wait_ms=15_000))
            # The connection was lost when the broker stopped: whether that was written is open.
            assert [(first, last) for first, last, _ in acquired] in ([(2, 3)], [(2, 2), (3, 3)])
            assert acquired[0][2] == 2

    async def restart() -> None:
        async with running_broker(tmp_path, **SETTINGS) as server:
            await after(server)

    in_bench(tmp_path, before)
    asyncio.run(restart())


def test_a_member_that_joins_gets_records_and_the_group_its_offsets(tmp_path: Path) -> None:
    """SHR-4, SHR-29: from the first heartbeat to the acknowledgement; a new group reads the end."""

    async def run() -> None:
        async with (
            running_broker(tmp_path, **SETTINGS) as server,
            await RawClient.connect(server.port) as admin,
            await RawClient.connect(server.port) as client,
        ):
            topic_id = await create_topic(admin, "t")
            await append(admin, "t", [b"before"] * 3)
            await coordinator_of(admin, "new")
            member = ShareMember(client, "new", "m1", topic_id)
            assert await member.join("t") == [(topic_id, 0)]
            assert acquired_of(await member.fetch(0, max_wait_ms=500)) == []
            await append(admin, "t", [b"v"] * 2)
            assert acquired_of(await member.fetch()) == [(3, 4, 1)]
            assert error_of(await member.acknowledge((3, 4, [ACCEPT]))) == ErrorCode.NONE
            key = SharePartitionKey("new", topic_id, 0)
            summary = await server.data.share_state.persister.summary(key)
            assert summary.start_offset + summary.delivery_complete_count == 5

    asyncio.run(run())


def test_share_groups_that_are_off_get_no_records(tmp_path: Path) -> None:
    """SHR-1: both requests are refused, and nothing stays in memory."""

    async def run() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            topic_id = await create_topic(client, "t")
            key = SharePartitionKey("g", topic_id, 0)
            await server.data.share_state.persister.initialize(key, 1, 0)
            await append(client, "t", [b"v"])
            member = ShareMember(client, "g", "m1", topic_id)
            assert acquired_of(await member.fetch(0)) == [(0, 0, 1)]
            shares = server.data.share_serving.share_partitions
            await switch(client, level=0)
            await eventually(lambda: _is_true(len(shares.sessions) + len(shares.loaded) == 0))
            assert (await member.fetch(0)).error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (await member.acknowledge()).error_code == ErrorCode.UNSUPPORTED_VERSION

    asyncio.run(run())
