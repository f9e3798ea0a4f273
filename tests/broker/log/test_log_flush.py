"""Flushing and the recovery point (SEG-2, SEG-8), and what waits for it."""

import asyncio

import pytest

from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.log_flush import FULL_FLUSH_BYTES
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.log.log_fixtures import NOW_MS, LogFixture, client_batch, small_config


def big() -> LogFixture:
    return LogFixture(small_config(segment_bytes=1 << 30))


def test_a_flush_raises_the_recovery_point_and_is_not_repeated() -> None:
    """SEG-8: a flush at or below the recovery point is a no-op."""
    fixture = big()

    async def scenario() -> None:
        log = fixture.log
        await log.flush()
        assert fixture.disk.sync_count == 0
        fixture.append(b"a", b"b")
        assert log.unflushed_bytes == log.size_bytes
        await log.flush(1)
        assert log.recovery_point == 2
        assert log.unflushed_bytes == 0
        count = fixture.disk.sync_count
        await log.flush(2)
        assert fixture.disk.sync_count == count

    asyncio.run(scenario())


def test_flushing_includes_what_is_staged() -> None:
    fixture = big()
    fixture.log.append_as_leader(client_batch(), 0, now_ms=NOW_MS)
    asyncio.run(fixture.log.flush())
    assert fixture.log.recovery_point == fixture.log.log_end_offset == 1


def test_waiting_callers_share_an_fsync() -> None:
    """group-fsync: everything that arrives while one fsync runs is covered by the next."""
    fixture = big()

    async def scenario() -> None:
        log = fixture.log
        fixture.append()
        await log.flush()
        before = fixture.disk.run_count
        waiting = []
        for _ in range(50):
            fixture.append()
            waiting.append(asyncio.create_task(log.flush()))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert log.recovery_point == 51
        assert fixture.disk.run_count - before < 40

    asyncio.run(scenario())


def test_callers_that_arrive_together_need_one_fsync() -> None:
    fixture = big()

    async def scenario() -> None:
        fixture.append()
        await fixture.log.flush()
        fixture.append()
        before = fixture.disk.sync_count
        await asyncio.gather(*(fixture.log.flush() for _ in range(20)))
        assert fixture.disk.sync_count == before + 1

    asyncio.run(scenario())


def test_a_cancelled_caller_takes_nothing_from_the_others() -> None:
    fixture = big()

    async def scenario() -> None:
        fixture.append()
        first = asyncio.create_task(fixture.log.flush())
        second = asyncio.create_task(fixture.log.flush())
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert fixture.log.recovery_point == 1

    asyncio.run(scenario())


def test_rolled_segments_are_flushed_in_the_background() -> None:
    """SEG-2: the recovery point follows; indexes and snapshot are on disk with it."""
    fixture = LogFixture()

    async def scenario() -> None:
        for number in range(9):
            fixture.append(bytes(1000), timestamp=NOW_MS + number)
        while fixture.log.recovery_point < fixture.log.segments.active.base_offset:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), 10))
    point = fixture.log.recovery_point
    fixture.disk.crash(keep_some=False)
    log = fixture.reopen_now(was_clean=False, recovery_point=point)
    assert log.log_end_offset >= point
    assert len(log.segments) > 1


def test_flush_messages_starts_a_flush() -> None:
    """LOG-2 (m)."""
    fixture = LogFixture(small_config(flush_messages=3))

    async def scenario() -> None:
        fixture.append(b"a", b"b")
        await asyncio.sleep(0)
        assert fixture.log.recovery_point == 0
        fixture.append(b"c")
        while fixture.log.recovery_point < 3:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_failing_fsync_takes_the_log_offline_for_all_who_wait() -> None:
    """LOG-11; an fsync that failed is never tried again, its pages may be gone."""
    fixture = big()
    failures: list[LogDirectoryError] = []
    fixture.log.local.enter_service(failures.append, lambda removal: None)

    async def scenario() -> None:
        fixture.append()
        fixture.disk.fail("sync", ".log")
        results = await asyncio.gather(
            *(fixture.log.flush() for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(result, LogDirectoryError) for result in results)
        with pytest.raises(KafkaError) as caught:
            await fixture.log.flush()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(scenario())
    assert len(failures) == 1
    assert fixture.log.recovery_point == 0


def test_a_truncation_during_a_flush_wins() -> None:
    """REC-5: neither recovery point nor files say that the cut records are there."""
    fixture = LogFixture()

    async def scenario() -> None:
        log = fixture.log
        for number in range(40):
            fixture.append(bytes(200), timestamp=NOW_MS + number)
        flush = asyncio.create_task(log.flush())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.truncate_to(5)
        for _ in range(3):
            fixture.append(bytes(210))
        await flush
        await log.close()

    asyncio.run(scenario())
    files = fixture.files("index", ".snapshot")
    assert {int(name[:20]) for name in files} <= {0, 8}
    fixture.reopen_now(was_clean=True)
    assert [len(r.value or b"") for r in asyncio.run(fixture.records())] == [200] * 5 + [210] * 3


def test_indexes_and_snapshots_go_along_only_now_and_then() -> None:
    """A flush for every request must cost one fsync, not five."""
    fixture = LogFixture(small_config(segment_bytes=1 << 30), cache_bytes=0)

    async def scenario() -> None:
        fixture.append()
        await fixture.log.flush()
        count = fixture.disk.sync_count
        fixture.append(bytes(1000))
        await fixture.log.flush()
        assert fixture.disk.sync_count == count + 1
        for _ in range(FULL_FLUSH_BYTES // (1 << 20)):
            fixture.append(bytes(1 << 20), compression=0)
        await fixture.log.flush()
        assert fixture.disk.sync_count > count + 2

    big_values = small_config(segment_bytes=1 << 30, max_message_bytes=1 << 22)
    fixture.log.update_config(big_values)
    asyncio.run(scenario())
    assert len(fixture.files(".snapshot")) <= 2


def test_indexes_that_are_not_written_are_never_let_go() -> None:
    """The index cache may only drop what can be read again."""
    fixture = LogFixture(cache_bytes=0)
    log = fixture.log
    log.local.index_cache.limit_bytes = 1
    for number in range(60):
        fixture.append(bytes(500), timestamp=NOW_MS + number)
    assert asyncio.run(fixture.offsets()) == list(range(60))
    assert all(segment.offset_index is not None for segment in log.segments.values())
    asyncio.run(log.flush())
    closed = log.segments.values()[:-1]
    assert sum(segment.offset_index is not None for segment in closed) == 1
    assert asyncio.run(fixture.offsets()) == list(range(60))


def test_what_is_staged_in_a_log_that_failed_is_never_acknowledged() -> None:
    """LOG-10, LOG-11: the log end does not move, and the end of the turn raises nothing new."""
    fixture = big()
    log = fixture.log

    async def scenario() -> None:
        fixture.append()
        log.append_as_leader(client_batch(), 0, now_ms=NOW_MS)
        log.retire()
        log.write_staged()
        assert log.log_end_offset == 1

    asyncio.run(scenario())


def test_waiting_for_a_log_that_is_retired_ends() -> None:
    fixture = big()

    async def scenario() -> None:
        fixture.append()
        flush = asyncio.create_task(fixture.log.flush())
        await asyncio.sleep(0)
        fixture.log.retire()
        await asyncio.wait_for(flush, 10)

    asyncio.run(scenario())
