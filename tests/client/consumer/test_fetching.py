"""Fetching from a model of a cluster, on virtual time: what comes when, and what goes wrong."""

import asyncio
from collections import deque

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.client.consumer.fetched_records import drain, offsets
from tests.client.consumer.model_cluster import ModelCluster, run_model
from tests.client.consumer.model_log import ModelSessions, partition

T0, T1 = partition(0), partition(1)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_all_records_arrive_once_and_in_order_in_every_fetch_version(version: int) -> None:
    """CON-3, CON-4: sessions begin with version 7, ids with 13; the result is the same."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1, version=version)
        for number in range(300):
            cluster.logs[T0].append(b"a%d" % number, b"b%d" % number)
            cluster.logs[T1].append(b"c%d" % number)
        async with cluster.consumer(max_partition_fetch_bytes=1000) as consumer:
            consumer.assign([T0, T1])
            records = await drain(consumer, 900)
        assert offsets([one for one in records if one.partition == 0]) == list(range(600))
        assert offsets([one for one in records if one.partition == 1]) == list(range(300))

    run_model(run())


def test_a_session_names_only_what_changed() -> None:
    """KIP-227: an idle partition is not repeated in each request."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        async with cluster.consumer() as consumer:
            consumer.assign([T0, T1])
            assert await consumer.poll(timeout_ms=100) == []
            cluster.logs[T0].append(b"x")
            await drain(consumer, 1)
            cluster.logs[T0].append(b"y")
            await drain(consumer, 1)
        named = [
            sum(len(topic.partitions) for topic in request.topics)
            for _, request, _ in cluster.fetches
            if request.session_epoch >= 0
        ]
        assert named[0] == 2
        assert all(count <= 1 for count in named[1:])
        assert cluster.fetches[-1][1].session_epoch == -1, "closing frees the broker's memory"

    run_model(run())


def test_a_broker_without_sessions_is_read_all_the_same() -> None:
    """KIP-227: session id 0 in the answer means that every request is full."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.sessions[1] = ModelSessions(gives_sessions=False)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            for number in range(5):
                cluster.logs[T0].append(b"x")
                assert offsets(await drain(consumer, 1)) == [number]

    run_model(run())


def test_a_replica_of_the_same_rack_is_read_until_it_fails() -> None:
    """KIP-392: the leader names it, errors of the replica lead back to the leader."""

    async def run() -> None:
        cluster = ModelCluster(T0, client_rack="here")
        cluster.preferred[T0] = 2
        log = cluster.logs[T0]
        log.append(b"1")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            assert cluster.fetches[0][1].rack_id == "here"
            assert [node for node, _, _ in cluster.fetches if node == 2]
            cluster.preferred.clear()
            cluster.errors[T0] = deque([ErrorCode.OFFSET_OUT_OF_RANGE])
            log.append(b"2")
            assert offsets(await drain(consumer, 1)) == [1]
            assert await consumer.position(T0) == 2

    run_model(run())


def test_a_replica_that_cannot_be_asked_does_not_keep_the_leader_from_being_read() -> None:
    """KIP-392: the leader names it until the cluster takes it for dead; then it is tried again."""

    async def run() -> None:
        cluster = ModelCluster(T0, client_rack="here")
        cluster.preferred[T0] = 2
        cluster.unreachable.add(2)
        log = cluster.logs[T0]
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            for number in range(5):
                log.append(b"x")
                assert offsets(await drain(consumer, 1)) == [number]
            assert {node for node, _, _ in cluster.fetches} == {1}
            cluster.unreachable.clear()
            await consumer.poll(timeout_ms=5000)
            log.append(b"x")
            await drain(consumer, 1)
            assert cluster.fetches[-1][0] == 2

    run_model(run())


def test_a_replica_that_metadata_does_not_know_yet_is_waited_for() -> None:
    """KIP-392: the leader names a follower that has just come back; it is not asked in a hurry."""

    async def run() -> None:
        cluster = ModelCluster(T0, client_rack="here")
        cluster.preferred[T0] = 2
        node = cluster.nodes.pop(2)
        cluster.publish()
        log = cluster.logs[T0]
        log.append(b"x")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            assert len(cluster.fetches) < 4
            assert cluster.refreshes
            cluster.nodes[2] = node
            cluster.publish()
            await consumer.poll(timeout_ms=2000)
            log.append(b"x")
            await drain(consumer, 1)
            assert cluster.fetches[-1][0] == 2

    run_model(run())


def test_a_preferred_replica_is_forgotten_with_the_metadata() -> None:
    """KIP-392: after metadata_max_age_ms the leader is asked again which replica it is."""

    async def run() -> None:
        cluster = ModelCluster(T0, client_rack="here", metadata_max_age_ms=1000)
        cluster.preferred[T0] = 2
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            for _ in range(10):
                await consumer.poll(timeout_ms=500)
        assert sum(node == 1 for node, _, _ in cluster.fetches) > 2

    run_model(run())


def test_what_is_buffered_stays_bounded_while_nobody_polls() -> None:
    """CON-6: a slow program does not fill the memory, and goes on where it was."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        for log in cluster.logs.values():
            for _ in range(200):
                log.append(b"x" * 100)
        async with cluster.consumer(
            prefetch_bytes_max=10_000, max_partition_fetch_bytes=3000, max_poll_records=1
        ) as consumer:
            consumer.assign([T0, T1])
            records = await drain(consumer, 1)
            count = 1
            while count < 400:
                await asyncio.sleep(0.05)
                queue = consumer.internals.buffer
                assert sum(queue.buffered_bytes_by_node().values()) <= 10_000
                got = await consumer.poll()
                records += got
                count += len(got)
        assert sorted((one.partition, one.offset) for one in records) == [
            (number, offset) for number in (0, 1) for offset in range(200)
        ]

    run_model(run())


def test_the_next_fetch_is_on_its_way_while_records_are_handed_out() -> None:
    """CON-4: before records are returned the next fetches are already sent (pipelining)."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        for _ in range(100):
            cluster.logs[T0].append(b"x" * 100)
        async with cluster.consumer(max_partition_fetch_bytes=2000) as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            assert cluster.in_flight[1] == 1
            before = len(cluster.fetches)
            await asyncio.sleep(0.1)
            assert len(cluster.fetches) <= before + 2, "but no more than there is room for"

    run_model(run())


def test_a_seek_drops_what_was_fetched() -> None:
    """CON-6: records at another position than the one that was sought are never handed out."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        for _ in range(50):
            cluster.logs[T0].append(b"x")
        async with cluster.consumer(max_poll_records=5) as consumer:
            consumer.assign([T0])
            assert offsets(await drain(consumer, 5)) == [0, 1, 2, 3, 4]
            consumer.seek(T0, 30)
            assert offsets(await drain(consumer, 5)) == [30, 31, 32, 33, 34]
            consumer.seek_to_end()
            assert await consumer.position(T0) == 50

    run_model(run())


def test_a_poll_that_is_cancelled_loses_nothing() -> None:
    """Style, "cancellation is tested": positions move only when records are returned."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        found: list[int] = []
        async with cluster.consumer(max_poll_records=2) as consumer:
            consumer.assign([T0])
            for number in range(200):
                cluster.logs[T0].append(b"x", b"y", b"z")
                polling = asyncio.create_task(consumer.poll(timeout_ms=1000))
                await asyncio.sleep(number % 7 / 1000)
                polling.cancel()
                try:
                    found += offsets(await polling)
                except asyncio.CancelledError:
                    continue
            found += offsets(await drain(consumer, 600 - len(found)))
        assert found == list(range(600))

    run_model(run())


def test_no_connection_is_begun_when_the_program_has_ended() -> None:
    """Found by story 1000928: an answer that still came made the next fetch connect, for ever."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"x")

        async def never(node_id: int) -> None:
            await asyncio.Event().wait()

        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            cluster.is_ready = lambda node_id: False  # type: ignore[method-assign]
            cluster.ready = never  # type: ignore[method-assign]
            cluster.has_ended = True
            cluster.logs[T0].append(b"y")
            await asyncio.sleep(2)
            begun = [one for one in asyncio.all_tasks() if "fetch-ready" in one.get_name()]
            assert not begun

    run_model(run())


def test_paused_partitions_keep_what_was_fetched() -> None:
    """CON-6: nothing of them is handed out, and after resume nothing is missing."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        for log in cluster.logs.values():
            for _ in range(20):
                log.append(b"x")
        async with cluster.consumer(max_poll_records=1) as consumer:
            consumer.assign([T0, T1])
            first = await drain(consumer, 1)
            paused = partition(first[0].partition)
            consumer.pause([paused])
            rest = await drain(consumer, 20)
            assert {one.partition for one in rest} == {1 - paused.partition}
            assert await consumer.poll(timeout_ms=50) == []
            consumer.resume([paused])
            assert offsets(await drain(consumer, 19)) == list(range(1, 20))

    run_model(run())


def test_paused_partitions_do_not_keep_the_others_from_being_read() -> None:
    """CON-6: found by random programs: what they had buffered took all of the room."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        for _ in range(20):
            cluster.logs[T0].append(b"x" * 100)
        async with cluster.consumer(prefetch_bytes_max=500, max_poll_records=1) as consumer:
            consumer.assign([T0, T1])
            await drain(consumer, 1)
            consumer.pause([T0])
            cluster.logs[T1].append(b"y")
            assert [one.partition for one in await drain(consumer, 1)] == [1]
            consumer.resume([T0])
            assert offsets(await drain(consumer, 19)) == list(range(1, 20))

    run_model(run())


def test_reset_by_duration_begins_with_what_is_young_enough() -> None:
    """KIP-1106: `by_duration:PT1H` looks an hour back on the wall clock, else at the end."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1, auto_offset_reset="by_duration:PT1H")
        now_ms = cluster.environment.clock.wall_ms()
        cluster.logs[T0].append(b"old", timestamp_ms=now_ms - 7_200_000)
        cluster.logs[T0].append(b"young", timestamp_ms=now_ms - 60_000)
        cluster.logs[T1].append(b"old", timestamp_ms=now_ms - 7_200_000)
        async with cluster.consumer() as consumer:
            consumer.assign([T0, T1])
            assert [one.value for one in await drain(consumer, 1)] == [b"young"]
            assert await consumer.position(T1) == 1

    run_model(run())
