"""What a log has written and synced it knows by its own books, not from its recovery point."""

import asyncio

import pytest

from barnabas_broker.log.recovery.segment_recovery import read_largest_timestamp
from barnabas_broker.log.segment import Segment
from barnabas_protocol.records.control import ControlType, encode_marker
from tests.broker.log.log_fixtures import DIRECTORY, NOW_MS, SMALL, LogFixture, config, small_config

INTERVAL = SMALL["index_interval_bytes"]


async def append_each_flushed(fixture: LogFixture, count: int) -> None:
    """As a producer that waits for each answer under group-fsync."""
    for number in range(count):
        fixture.append(bytes(900), timestamp=NOW_MS + number)
        await fixture.log.flush()


def abort(fixture: LogFixture, sequence: int, kind: ControlType = ControlType.ABORT) -> int:
    """A transaction of one record, ended; returns its first offset."""
    first = fixture.append(
        b"a", producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )
    marker = encode_marker(
        kind, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS
    )
    fixture.log.append_as_leader(marker, 0, internal=True, now_ms=NOW_MS)
    fixture.log.write_staged()
    return first


async def newest_of(segment: Segment) -> int:
    return await segment.disk.run(read_largest_timestamp, segment, INTERVAL)


@pytest.mark.parametrize("stop", ["clean", "power cut"])
def test_a_segment_that_was_flushed_before_it_was_left_gets_its_indexes(stop: str) -> None:
    """Its last flush skipped them, and the recovery point lies behind it from then on."""
    fixture = LogFixture(small_config(segment_bytes=20_000))

    async def scenario() -> None:
        await append_each_flushed(fixture, 60)
        log = fixture.log
        point = log.recovery_point
        expected = [await newest_of(segment) for segment in log.segments.values()]
        if stop == "clean":
            await log.close()
        else:
            fixture.disk.crash(keep_some=False)
        indexes = fixture.files("timeindex")
        log = await fixture.reopen(was_clean=stop == "clean", recovery_point=point)
        assert [await newest_of(segment) for segment in log.segments.values()] == expected
        assert fixture.files("timeindex").items() >= dict(list(indexes.items())[:-1]).items()
        found = await log.offset_for_timestamp(NOW_MS + 40, 60)
        assert found is not None
        assert found.offset == 40

    asyncio.run(scenario())


def test_retention_goes_by_the_newest_record_of_a_segment() -> None:
    fixture = LogFixture(small_config(segment_bytes=20_000, retention_ms=1000))

    async def scenario() -> None:
        await append_each_flushed(fixture, 60)
        await fixture.log.close()
        log = await fixture.reopen(was_clean=True)
        log.advance_high_watermark(60)
        second = log.segments.base_offsets[1]
        assert await log.delete_old_segments(NOW_MS + 1000 + second - 1) == 0
        assert await log.delete_old_segments(NOW_MS + 1000 + second) == 1

    asyncio.run(scenario())


def test_a_roll_while_a_flush_runs_is_flushed_after_it() -> None:
    fixture = LogFixture(small_config(segment_bytes=1 << 20))

    async def scenario() -> None:
        log = fixture.log
        await append_each_flushed(fixture, 30)
        fixture.append(bytes(900), timestamp=NOW_MS + 30)
        running = asyncio.create_task(log.flush())
        await asyncio.sleep(0)
        log.roll()
        left = log.segments.first
        await running
        while log.flushing.synced_below < log.log_end_offset:
            await asyncio.sleep(0)
        assert left.has_written_indexes
        fixture.disk.crash(keep_some=False)
        log = await fixture.reopen(was_clean=False, recovery_point=31)
        assert await newest_of(log.segments.first) == NOW_MS + 30

    asyncio.run(asyncio.wait_for(scenario(), 10))


@pytest.mark.parametrize("kept_entries", [0, 1, 3])
def test_indexes_that_an_earlier_release_left_too_short_are_made_anew(kept_entries: int) -> None:
    fixture = LogFixture(small_config(segment_bytes=20_000))

    async def scenario() -> None:
        await append_each_flushed(fixture, 60)
        log = fixture.log
        expected = [await newest_of(segment) for segment in log.segments.values()]
        await log.close()
        files = fixture.files("index")
        name = "00000000000000000000"
        for suffix, entry_bytes in ((".timeindex", 12), (".index", 8)):
            fixture.disk.open(f"{DIRECTORY}/{name}{suffix}").truncate(kept_entries * entry_bytes)
        log = await fixture.reopen(was_clean=True)
        assert [await newest_of(segment) for segment in log.segments.values()] == expected
        assert fixture.files("index") == files

    asyncio.run(scenario())


def test_zeros_of_a_preallocated_segment_do_not_come_back() -> None:
    """Their cut, when the segment is left, is synced with the segment."""
    fixture = LogFixture(config({}, **SMALL, preallocate=True))

    async def scenario() -> None:
        await append_each_flushed(fixture, 40)
        while fixture.log.flushing.synced_below < 40:
            await asyncio.sleep(0)
        fixture.disk.crash(keep_some=False)
        size = len(fixture.file("00000000000000000000.log"))
        log = await fixture.reopen(was_clean=False, recovery_point=2)
        assert size == log.segments.first.size_bytes
        assert log.log_end_offset == 40
        assert await fixture.offsets() == list(range(40))

    asyncio.run(scenario())


def test_zeros_before_the_next_segment_are_no_damage() -> None:
    """An earlier release did not sync their cut: the batches behind them are whole."""
    fixture = LogFixture()

    async def scenario() -> None:
        for _ in range(12):
            fixture.append(bytes(900))
        await fixture.log.close()
        fixture.disk.open(f"{DIRECTORY}/00000000000000000000.log").truncate(SMALL["segment_bytes"])
        await fixture.reopen(was_clean=False, recovery_point=2)
        assert await fixture.offsets() == list(range(12))

    asyncio.run(scenario())


def test_other_bytes_before_the_next_segment_are_damage() -> None:
    fixture = LogFixture()

    async def scenario() -> None:
        for _ in range(12):
            fixture.append(bytes(900))
        await fixture.log.close()
        end = fixture.log.segments.base_offsets[1]
        fixture.disk.open(f"{DIRECTORY}/00000000000000000000.log").append([bytes(99), b"x"])
        log = await fixture.reopen(was_clean=False, recovery_point=2)
        assert log.log_end_offset == end

    asyncio.run(scenario())


def test_no_torn_entry_of_a_transaction_index_survives_recovery() -> None:
    wrong = []
    for seed in range(60):
        fixture = LogFixture(config({}, segment_bytes=1 << 30, index_interval_bytes=512), seed)

        async def scenario(fixture: LogFixture = fixture) -> bool:
            for number in range(20):
                abort(fixture, number, ControlType.COMMIT)
            first = abort(fixture, 20)
            await fixture.log.flush()
            point = fixture.log.recovery_point
            second = abort(fixture, 21)
            fixture.disk.crash()
            log = await fixture.reopen(was_clean=False, recovery_point=point)
            expected = [(7, first)] + [(7, second)] * (log.log_end_offset == second + 2)
            return log.aborted_transactions(0, log.log_end_offset) == expected

        if not asyncio.run(scenario()):
            wrong.append(seed)
    assert not wrong


@pytest.mark.parametrize("damage", [None, 68, 1000])
def test_power_lost_after_a_recovery_takes_no_aborted_transaction_along(
    damage: int | None,
) -> None:
    """What was on the device below the recovery point is there whatever a recovery did to it."""
    wrong = []
    for seed in range(40):
        fixture = LogFixture(config({}, segment_bytes=1 << 30, index_interval_bytes=1 << 20), seed)

        async def scenario(fixture: LogFixture = fixture) -> bool:
            for number in range(30):
                abort(fixture, number)
            await fixture.log.flush()
            expected = fixture.log.aborted_transactions(0, 60)
            point = fixture.log.recovery_point
            if damage is None:
                fixture.disk.remove(f"{DIRECTORY}/{point:020d}.snapshot")
            else:
                file = fixture.disk.open(f"{DIRECTORY}/00000000000000000000.txnindex")
                file.write_at(bytes(34), damage)
                file.sync()
            for _ in range(3):
                log = await fixture.reopen(was_clean=False, recovery_point=point)
                fixture.disk.crash()
            log = await fixture.reopen(was_clean=False, recovery_point=point)
            return log.aborted_transactions(0, 60) == expected

        if not asyncio.run(scenario()):
            wrong.append(seed)
    assert not wrong


def test_the_name_of_a_new_transaction_index_is_synced_with_its_first_entry() -> None:
    """Most flushes write no indexes, and sync no folder."""
    fixture = LogFixture(config({}, segment_bytes=1 << 30, index_interval_bytes=512))

    async def scenario() -> None:
        fixture.append(b"v")
        await fixture.log.flush()
        first = abort(fixture, 0)
        await fixture.log.flush()
        point = fixture.log.recovery_point
        fixture.disk.crash(keep_some=False)
        log = await fixture.reopen(was_clean=False, recovery_point=point)
        assert log.aborted_transactions(0, log.log_end_offset) == [(7, first)]

    asyncio.run(scenario())


def test_entries_of_a_log_that_was_cut_do_not_come_back() -> None:
    """A power cut brings the index file back as it was before the cut, and not the batches."""
    fixture = LogFixture(config({}, segment_bytes=1 << 30, index_interval_bytes=100))
    for _ in range(8):
        fixture.append(bytes(100))

    async def scenario() -> None:
        await fixture.log.flush()
        assert fixture.file("00000000000000000000.index")
        fixture.disk.open(fixture.log.segments.active.log_path).truncate(0)
        await fixture.reopen(was_clean=False)
        fixture.append(*[bytes(300)] * 8)
        fixture.log.roll()
        await fixture.log.close()
        await fixture.reopen(was_clean=True)
        for offset in range(8):
            assert await fixture.offsets(offset) == list(range(offset, 8))

    asyncio.run(scenario())


def test_damage_in_the_synced_part_of_a_transaction_index_is_mended() -> None:
    fixture = LogFixture(config({}, segment_bytes=1 << 30, index_interval_bytes=512))

    async def scenario() -> None:
        for number in range(30):
            abort(fixture, number)
        await fixture.log.flush()
        expected = fixture.log.aborted_transactions(0, 60)
        point = fixture.log.recovery_point
        fixture.disk.open(f"{DIRECTORY}/00000000000000000000.txnindex").write_at(bytes(34), 68)
        log = await fixture.reopen(was_clean=False, recovery_point=point)
        assert log.aborted_transactions(0, 60) == expected

    asyncio.run(scenario())


def test_what_recovery_wrote_is_synced_by_the_next_flush() -> None:
    """A process is killed, started, flushes, and then the machine loses power."""
    fixture = LogFixture(config({}, segment_bytes=8192, index_interval_bytes=512))

    async def scenario() -> None:
        fixture.append(b"first")
        await fixture.log.flush()
        abort(fixture, 0)
        for number in range(60):
            fixture.append(bytes(200), timestamp=NOW_MS + 1000 * number)
        expected = fixture.log.aborted_transactions(0, 63)
        fixture.log.retire()
        log = await fixture.reopen(was_clean=False, recovery_point=1)
        await log.flush()
        files = fixture.files("index")
        fixture.disk.crash(keep_some=False)
        assert fixture.files("index") == files
        log = await fixture.reopen(was_clean=False, recovery_point=63)
        assert log.aborted_transactions(0, 63) == expected

    asyncio.run(scenario())
