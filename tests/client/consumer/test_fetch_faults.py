"""Fetching from a model of a cluster while things go wrong: sessions, leaders, logs, answers."""

import asyncio
from collections import deque

import pytest

from barnabas_client.errors import (
    AuthorizationError,
    ClientBrokenError,
    LogTruncatedError,
    OffsetOutOfRangeError,
)
from barnabas_protocol.errors import ErrorCode
from tests.client.consumer.fetched_records import drain, offsets
from tests.client.consumer.model_cluster import ModelCluster, run_model
from tests.client.consumer.model_log import partition

T0, T1 = partition(0), partition(1)


def test_a_lost_session_costs_nothing_but_a_full_fetch() -> None:
    """KIP-227: FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH begin anew."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"1")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            cluster.sessions[1].sessions.clear()
            cluster.logs[T0].append(b"2")
            await drain(consumer, 1)
            for session_id in cluster.sessions[1].epochs:
                cluster.sessions[1].epochs[session_id] += 5
            cluster.logs[T0].append(b"3")
            assert offsets(await drain(consumer, 1)) == [2]

    run_model(run())


def test_a_lost_connection_is_retried_and_loses_nothing() -> None:
    """CLI-5: the fate of the request is not known, so the next one is full."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"1", b"2")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 2)
            cluster.disconnects_next.add(1)
            cluster.logs[T0].append(b"3")
            assert offsets(await drain(consumer, 1)) == [2]
            cluster.logs[T0].append(b"4")
            assert offsets(await drain(consumer, 1)) == [3]
        assert not cluster.disconnects_next
        assert cluster.refreshes >= 1

    run_model(run())


@pytest.mark.parametrize("tells_leaders", [False, True])
def test_a_new_leader_is_found_by_refresh_or_by_its_hint(tells_leaders: bool) -> None:
    """CON-5, KIP-951: reading goes on at the new leader, after its log was compared."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.tells_leaders = tells_leaders
        log = cluster.logs[T0]
        log.append(b"1")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            log.move_to(2, 1)
            log.append(b"2")
            assert offsets(await drain(consumer, 1)) == [1]
            assert cluster.epoch_lookups == 1
        assert (cluster.refreshes == 0) == tells_leaders

    run_model(run())


def test_a_leader_that_changes_again_during_validation_is_asked_instead() -> None:
    """KIP-320: found by random programs: the epoch of the leader before was asked for, for ever."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        log = cluster.logs[T0]
        log.append(b"1")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 1)
            log.move_to(2, 1)
            cluster.publish()
            log.move_to(1, 2)
            log.append(b"2")
            assert offsets(await drain(consumer, 1)) == [1]
            assert 2 <= cluster.epoch_lookups <= 4

    run_model(run())


def test_a_dead_leader_is_waited_for() -> None:
    """CON-4: poll returns nothing meanwhile, and other partitions are read."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        cluster.logs[T1].move_to(2, 0)
        cluster.publish()
        cluster.logs[T0].append(b"1")
        cluster.logs[T1].append(b"1")
        cluster.unreachable.add(1)
        async with cluster.consumer() as consumer:
            consumer.assign([T0, T1])
            consumer.seek(T0, 0)
            consumer.seek(T1, 0)
            assert [one.partition for one in await drain(consumer, 1)] == [1]
            assert await consumer.poll(timeout_ms=500) == []
            cluster.unreachable.clear()
            assert [one.partition for one in await drain(consumer, 1)] == [0]

    run_model(run())


@pytest.mark.parametrize("checks_divergence", [False, True])
def test_a_truncated_log_is_read_from_where_it_still_agrees(checks_divergence: bool) -> None:
    """KIP-320: with a reset policy the consumer goes back; seen by epochs, not by luck."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.checks_divergence = checks_divergence
        log = cluster.logs[T0]
        for _ in range(4):
            log.append(b"old")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            await drain(consumer, 4)
            log.truncate(2)
            log.move_to(2, 1)
            for _ in range(4):
                log.append(b"new")
            cluster.publish()
            records = await drain(consumer, 4)
        assert [(one.offset, one.value) for one in records] == [
            (offset, b"new") for offset in (2, 3, 4, 5)
        ]

    run_model(run())


def test_truncation_is_an_error_without_a_reset_policy() -> None:
    """KIP-320: the error says what was lost and where the log still agrees; a seek cures it."""

    async def run() -> None:
        cluster = ModelCluster(T0, auto_offset_reset="none")
        log = cluster.logs[T0]
        for _ in range(4):
            log.append(b"old")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            await drain(consumer, 4)
            log.truncate(2)
            log.move_to(2, 1)
            log.append(b"new")
            cluster.publish()
            with pytest.raises(LogTruncatedError) as raised:
                await drain(consumer, 1)
            assert raised.value.positions == {T0: 4}
            assert raised.value.divergence == {T0: 2}
            consumer.seek(T0, 2)
            assert (await drain(consumer, 1))[0].value == b"new"

    run_model(run())


def test_a_seek_makes_an_error_of_before_void() -> None:
    """CON-5: a program that took its time before it went back is not told of the past."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1, auto_offset_reset="none")
        log = cluster.logs[T0]
        for _ in range(4):
            log.append(b"old")
        cluster.logs[T1].append(b"x")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            await drain(consumer, 4)
            log.truncate(2)
            log.move_to(2, 1)
            log.append(b"new")
            cluster.publish()
            with pytest.raises(LogTruncatedError):
                await drain(consumer, 1)
            # Found again meanwhile, and not told yet.
            await asyncio.sleep(5)
            consumer.seek(T0, 2)
            assert (await drain(consumer, 1))[0].value == b"new"
            consumer.assign([T0, T1])
            await asyncio.sleep(1)
            consumer.seek(T1, 0)
            assert (await drain(consumer, 1))[0].value == b"x"

    run_model(run())


def test_out_of_range_follows_the_policy() -> None:
    """CON-5: the position is reset to the beginning, here after retention has moved it."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        log = cluster.logs[T0]
        for _ in range(6):
            log.append(b"x")
        log.start_offset = 3
        log.batches = log.batches[3:]
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 1)
            assert offsets(await drain(consumer, 3)) == [3, 4, 5]

    run_model(run())


def test_out_of_range_is_an_error_with_the_policy_none() -> None:
    """CON-5: it is raised at every poll until a seek, and names the position."""

    async def run() -> None:
        cluster = ModelCluster(T0, auto_offset_reset="none")
        cluster.logs[T0].append(b"x")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 7)
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError) as raised:
                    await drain(consumer, 1)
                assert raised.value.positions == {T0: 7}
            consumer.seek(T0, 0)
            await drain(consumer, 1)

    run_model(run())


def test_an_error_of_one_partition_comes_after_the_records_before_it() -> None:
    """CON-6: a partition error after some records is raised at the next poll."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        cluster.logs[T0].append(b"x")
        cluster.errors[T1] = deque([ErrorCode.TOPIC_AUTHORIZATION_FAILED])
        async with cluster.consumer() as consumer:
            consumer.assign([T0, T1])
            assert offsets(await drain(consumer, 1)) == [0]
            with pytest.raises(AuthorizationError, match="t-1"):
                await consumer.poll()
            assert await consumer.poll(timeout_ms=100) == []

    run_model(run())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_passes_is_not_raised(code: ErrorCode) -> None:
    """CON-4: errors that a retry cures never reach the program."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"x")
        cluster.errors[T0] = deque([code] * 3)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            assert offsets(await drain(consumer, 1)) == [0]

    run_model(run())


def test_an_answer_that_makes_no_sense_is_told_and_does_not_stop_the_consumer() -> None:
    """CLI-4: what goes wrong in the background is raised from the next poll, then tried again."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"x")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            cluster.disconnects_next.add(1)
            cluster.disconnect_error = ZeroDivisionError("a bug")
            with pytest.raises(ClientBrokenError, match="broker 1"):
                await drain(consumer, 1)
            assert offsets(await drain(consumer, 1)) == [0]

    run_model(run())


def test_a_session_that_is_refused_again_and_again_is_not_asked_for_in_a_hurry() -> None:
    """KIP-227: one refusal is answered by a full fetch at once, more of them with backoff."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            cluster.sessions[1].refuses = True
            await consumer.poll(timeout_ms=1000)
            assert 3 <= len(cluster.fetches) <= 15

    run_model(run())
