"""The log cleaner: what stays, what goes, which log and when, and crashes at each step."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.log.cleaner_map import OffsetMap
from barnabas_protocol.records.control import ControlType
from barnabas_protocol.records.record import decode_records
from tests.broker.log.cleaner_fixtures import (
    DAY_MS,
    NAME,
    Bench,
    batches,
    compacted,
    contents,
    mark,
    newest,
    put,
    seal,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom


def offsets(log):
    return [offset for offset, _, _ in contents(log)]


def test_only_the_newest_record_of_each_key_stays():
    """REC-6: order and offsets unchanged; the active segment is not touched."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), (b"b", b"1"), (b"a", b"2"))
        put(log, (b"c", b"3"))
        await seal(log)
        put(log, (b"b", b"4"), (b"a" * 40, b"5"), (b"a" * 40, b"6"))
        await seal(log)
        put(log, (b"a", b"7"), (b"a", b"8"))
        assert await bench.manager.cleaner.clean_once()
        assert offsets(log) == [2, 3, 4, 6, 7, 8]
        assert (log.log_start_offset, log.log_end_offset) == (0, 9)
        # The first batch lost records and kept its range, so offsets stay found.
        header, records = batches(log)[0]
        assert (header.base_offset, header.last_offset, len(records)) == (0, 2, 1)
        read = await log.read(0, 10_000, 9)
        assert decode_records(bytes(read.buffers[0]))[0].offset == 2
        assert not await bench.manager.cleaner.clean_once()

    asyncio.run(main())


def test_neighbours_are_merged_up_to_the_segment_size():
    """REC-10: small neighbours become one segment, never larger than segment.bytes."""

    async def main():
        bench = Bench()
        log = await bench.open(compacted(segment_bytes=400))
        for number in range(12):
            put(log, (b"%d" % number, b"v" * 40))
            await seal(log)
        before = contents(log)
        assert await bench.manager.cleaner.clean_once()
        assert contents(log) == before
        sizes = [segment.size_bytes for segment in log.segments.values()]
        assert len(sizes) < 7
        assert max(sizes) <= 400
        assert log.size_bytes == sum(sizes)
        log = await bench.restart()
        assert contents(log) == before

    asyncio.run(main())


def test_nothing_at_or_above_the_last_stable_offset_is_touched():
    """REC-6, TXL-5: an open transaction holds compaction back."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"))
        put(log, (b"a", b"1"), producer=(5, 0, 0), is_transactional=True)
        put(log, (b"a", b"2"))
        await seal(log)
        put(log, (b"a", b"3"))
        assert log.last_stable_offset == 1
        await bench.manager.cleaner.clean_once()
        assert offsets(log) == [0, 1, 2, 3]
        mark(log, 5, ControlType.COMMIT)
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        assert offsets(log) == [3]

    asyncio.run(main())


def test_a_tombstone_goes_only_after_its_delete_horizon():
    """REC-8: at least delete.retention.ms after it was first cleaned."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), (b"b", b"1"))
        put(log, (b"a", None))
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        assert contents(log) == [(1, b"b", b"1"), (2, b"a", None)]
        (header, _) = batches(log)[1]
        assert header.has_delete_horizon
        assert header.base_timestamp == bench.clock.wall_ms() + DAY_MS
        for advance_ms, expected in ((DAY_MS - 1, [1, 2]), (1, [1])):
            bench.clock.advance(advance_ms)
            put(log, (b"z", b"x"))
            await seal(log)
            assert await bench.manager.cleaner.clean_once()
            assert [offset for offset in offsets(log) if offset < 3] == expected

    asyncio.run(main())


def test_records_of_aborted_transactions_go_and_their_markers_later():
    """REC-8, TXL-7: aborted records supersede nothing; a marker outlives its batches."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"))
        put(log, (b"a", b"1"), producer=(5, 0, 0), is_transactional=True)
        put(log, (b"b", b"2"), producer=(6, 0, 0), is_transactional=True)
        await seal(log)
        mark(log, 5, ControlType.ABORT)
        mark(log, 6, ControlType.COMMIT)
        put(log, (b"c", b"5"), producer=(5, 0, 1))
        put(log, (b"d", b"6"), producer=(6, 0, 1))
        await seal(log)
        assert log.aborted_transactions(0, 7) == [(5, 1)]
        assert await bench.manager.cleaner.clean_once()
        assert offsets(log) == [0, 2, 5, 6]
        assert [header.base_offset for header, _ in batches(log) if header.is_control] == [3, 4]
        assert log.aborted_transactions(0, 7) == [(5, 1)]
        stays = log.producer_state.first_unstable_offset()
        for _ in range(2):
            put(log, (b"z", b"x"))
            await seal(log)
            assert await bench.manager.cleaner.clean_once()
            bench.clock.advance(DAY_MS)
        assert log.aborted_transactions(0, 7) == []
        controls = [header.base_offset for header, _ in batches(log) if header.is_control]
        # The commit marker still has its batch (offset 2); the aborted one's are all gone.
        assert controls == [4]
        log = await bench.restart()
        assert log.producer_state.first_unstable_offset() == stays

    asyncio.run(main())


def test_the_last_batch_of_a_producer_stays_even_empty():
    """REC-9, TXL-8: the next sequence is known after any number of restarts."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), producer=(5, 2, 0))
        put(log, (b"a", b"1"), producer=(5, 2, 1))
        await seal(log)
        put(log, (b"a", b"2"))
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        assert contents(log) == [(2, b"a", b"2")]
        header, records = batches(log)[0]
        assert (header.base_offset, header.producer_id, header.base_sequence) == (1, 5, 1)
        assert (header.producer_epoch, header.max_timestamp, records) == (2, 1000, [])
        for offset in list(log.snapshots.offsets):
            log.snapshots.remove(offset)
        log = await bench.restart()
        assert log.producer_state.producers[5].last_sequence == 1

    asyncio.run(main())


def test_the_last_batch_of_a_round_stays_even_empty():
    """REC-9: a reader that stands at the end of what was cleaned finds its place."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"))
        put(log, (b"b", b"1"), producer=(5, 0, 0), is_transactional=True)
        mark(log, 5, ControlType.ABORT)
        put(log, (b"c", b"3"), producer=(5, 0, 1), is_transactional=True)
        put(log, (b"d", b"4"), producer=(5, 0, 2), is_transactional=True)
        await seal(log)
        mark(log, 5, ControlType.ABORT)
        put(log, (b"e", b"6"), producer=(5, 0, 3))
        await log.flush()
        assert await bench.manager.cleaner.clean_once()
        kept = [(header.base_offset, len(records)) for header, records in batches(log)]
        assert kept == [(0, 1), (2, 1), (4, 0), (5, 1), (6, 1)]

    asyncio.run(main())


def test_young_records_are_left_alone():
    """REC-6: min.compaction.lag.ms counts from the segment's largest timestamp."""

    async def main():
        bench = Bench()
        log = await bench.open(compacted(min_compaction_lag_ms=5000))
        now_ms = bench.clock.wall_ms()
        put(log, (b"a", b"0"), (b"a", b"1"), timestamp=now_ms - 6000)
        await seal(log)
        put(log, (b"a", b"2"), (b"a", b"3"), timestamp=now_ms)
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        assert offsets(log) == [1, 2, 3]
        bench.clock.advance(5001)
        assert await bench.manager.cleaner.clean_once()
        assert offsets(log) == [3]

    asyncio.run(main())


def test_the_dirty_ratio_and_the_maximal_lag_decide_when():
    """REC-7: dirty bytes / total above the minimum, or a wait above max.compaction.lag.ms."""

    async def main():
        bench = Bench()
        config = compacted(min_cleanable_dirty_ratio=0.6, max_compaction_lag_ms=10_000)
        log = await bench.open(config)
        now_ms = bench.clock.wall_ms()
        put(log, (b"a", b"0"), (b"b", b"1"), timestamp=now_ms)
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        put(log, (b"a", b"2"), (b"b", b"3"), timestamp=now_ms)
        await seal(log)
        assert not await bench.manager.cleaner.clean_once()
        bench.clock.advance(10_001)
        assert await bench.manager.cleaner.clean_once()
        assert offsets(log) == [2, 3]

    asyncio.run(main())


def test_the_first_dirty_offset_survives_a_restart():
    """REC-11: `cleaner-offset-checkpoint`; out of range means from the log's start."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), (b"a", b"1"))
        await seal(log)
        put(log, (b"b", b"2"))
        assert await bench.manager.cleaner.clean_once()
        path = "/data/cleaner-offset-checkpoint"
        assert bench.disk.read_bytes(path) == b"0\n1\ncompacted 0 2\n"
        await bench.restart()
        assert not await bench.manager.cleaner.clean_once()
        bench.disk.write_atomically(path, b"0\n1\ncompacted 0 99\n")
        await bench.restart()
        assert await bench.manager.cleaner.clean_once()
        assert bench.disk.read_bytes(path) == b"0\n1\ncompacted 0 2\n"

    asyncio.run(main())


def test_a_log_that_cannot_be_compacted_is_left_alone_and_others_go_on():
    """REC-11: marked uncleanable and reported."""

    async def main():
        bench = Bench()
        bad = await bench.open()
        good = bench.manager.create(NAME._replace(topic="good"), bytes(16), compacted())
        for log in (bad, good):
            put(log, (b"a", b"0" * 100), (b"a", b"1"))
            await seal(log)
        file = bench.disk.open(bad.segments.first.log_path)
        file.write_at(b"\x55", 80)
        while await bench.manager.cleaner.clean_once():
            pass
        assert list(bench.manager.cleaner.uncleanable) == [NAME]
        assert "checksum" in bench.manager.cleaner.uncleanable[NAME]
        assert offsets(good) == [1]
        assert not bench.manager.directories[0].is_offline
        bench.manager.cleaner.forget(NAME)
        assert bench.manager.cleaner.uncleanable == {}

    asyncio.run(main())


def test_memory_bounds_a_round_and_later_rounds_do_the_rest():
    """REC-7: a map that is full ends the round at a batch; the rest stays dirty."""

    async def main():
        bench = Bench(log_cleaner_dedupe_buffer_size=str(1024 * 1024))
        log = await bench.open()
        bench.manager.cleaner.memory_bytes = 10 * 190
        for number in range(40):
            put(log, (b"%d" % (number % 25), b"%d" % number))
            if number % 5 == 4:
                await seal(log)
        expected = newest(contents(log), 40)
        rounds = 0
        while await bench.manager.cleaner.clean_once():
            rounds += 1
        assert rounds > 2
        assert contents(log) == expected

    asyncio.run(main())


def test_memory_for_keys_is_modest_unless_it_is_given():
    """REC-7: Kafka's default is reported, and would be most of the memory of this process."""
    assert Bench().manager.cleaner.memory_bytes == 48 * 1024 * 1024
    assert Bench().manager.config.log_cleaner_dedupe_buffer_size == 134217728
    for size in (1024 * 1024, 134217728):
        bench = Bench(log_cleaner_dedupe_buffer_size=str(size))
        assert bench.manager.cleaner.memory_bytes == size


@pytest.mark.parametrize("change", ["delete", "truncate", "offline", "stop"])
def test_a_log_that_changes_under_the_cleaner_is_given_up(change):
    """REC-11: truncation, deletion and a failing directory void the round."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), (b"a", b"1"))
        await seal(log)
        put(log, (b"b", b"2"))
        cleaner = bench.manager.cleaner
        task = asyncio.create_task(cleaner.clean_once())
        while not any(
            name.endswith(".cleaned") for name in bench.disk.list_directory(log.directory)
        ):
            await asyncio.sleep(0)
        if change == "delete":
            await bench.manager.delete(NAME)
        elif change == "truncate":
            log.truncate_to(1)
        elif change == "offline":
            bench.manager.take_offline("/data", OSError("broken"))
        else:
            cleaner.stop()
        assert await task
        assert cleaner.metrics.rounds_count == 0
        assert cleaner.uncleanable == {}
        names = bench.disk.list_directory(log.directory) if change in ("truncate", "stop") else []
        assert not any(name.endswith((".cleaned", ".swap")) for name in names)
        assert bench.manager.directories[0].is_offline == (change == "offline")

    asyncio.run(main())


@pytest.mark.parametrize("lag_ms", [0, 1])
@pytest.mark.parametrize("turns", range(12))
def test_retention_may_take_segments_under_the_cleaner(turns, lag_ms):
    """REC-11, REC-12: with `compact,delete` both work on a log; that is no fault of the disk."""

    async def main():
        bench = Bench()
        log = await bench.open(compacted(file_delete_delay_ms=0, min_compaction_lag_ms=lag_ms))
        for number in range(3):
            put(log, (b"a", b"%d" % number), (b"b", b"x"))
            await seal(log)
        put(log, (b"b", b"2"))
        for segment in log.segments.values()[:-1]:
            segment.largest_timestamp_offset = -1
        task = asyncio.create_task(bench.manager.cleaner.clean_once())
        for _ in range(turns):
            await asyncio.sleep(0)
        gone = log.segments.values()[:-1]
        log.advance_log_start_offset(log.segments.active.base_offset)
        log.segments.remove(gone)
        log.removal.remove(gone)
        await task
        assert not bench.manager.directories[0].is_offline
        assert bench.manager.cleaner.uncleanable == {}
        log = await bench.restart()
        assert log.log_end_offset == 7

    asyncio.run(main())


def test_reading_keeps_to_the_configured_rate():
    """REC-7: log.cleaner.io.max.bytes.per.second."""

    async def main():
        bench = Bench(log_cleaner_io_max_bytes_per_second="1000000")
        cleaner = bench.manager.cleaner
        loop = asyncio.get_running_loop()
        started = loop.time()
        await cleaner._throttle(50_000)
        assert loop.time() - started >= 0.049
        cleaner.stop()
        started = loop.time()
        await cleaner._throttle(50_000_000)
        assert loop.time() - started < 5

    asyncio.run(main())


def test_the_map_bounds_its_keys_and_takes_long_ones():
    """REC-6, REC-7."""
    offset_map = OffsetMap(1000, 0)
    assert offset_map.capacity == 5
    offset_map.put(b"k" * 1000, 3)
    offset_map.put(b"", 4)
    assert not offset_map.is_newest(b"k" * 1000, 2)
    assert offset_map.is_newest(b"k" * 1000, 3)
    assert offset_map.is_newest(b"k" * 999, 0)
    assert offset_map.is_newest(b"", 4)
    assert len(offset_map) == 2


keys = st.sampled_from([b"a", b"b", b"c", b"d" * 20])
values = st.one_of(st.none(), st.binary(max_size=30))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(keys, values), min_size=1, max_size=4)),
        st.tuples(st.just("seal"), st.none()),
        st.tuples(st.just("clean"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from([0, 1, 3]))
def test_any_history_leaves_the_newest_record_of_each_key(history, compression):
    """REC-6: against the plain twin; also that indexes still find every record."""

    async def main():
        bench = Bench()
        log = await bench.open(compacted(index_interval_bytes=1))
        for step, pairs in [*history, ("seal", None), ("clean", None)]:
            if step == "put":
                put(log, *pairs, compression=compression)
            elif step == "seal":
                await seal(log)
            else:
                before, end = contents(log), log.segments.active.base_offset
                await bench.manager.cleaner.clean_once()
                assert contents(log) == newest(before, end)
        for segment in log.segments.values():
            if segment is not log.segments.active:
                segment.drop_indexes()
        for offset, key, value in contents(log):
            read = await log.read(offset, 1, log.log_end_offset)
            records = decode_records(bytes(read.buffers[0]))
            assert (offset, key, value) in [(r.offset, r.key, r.value) for r in records]

    asyncio.run(main())


class PowerCutError(Exception):
    """The machine is off from here on."""


class FragileDisk(SimulatedDisk):
    """Loses power before a chosen operation, counted from when it is armed."""

    remaining = -1
    is_off = False

    def _checked(self, operation, path):
        if self.is_off or self.remaining == 0:
            self.is_off = True
            raise PowerCutError
        if self.remaining > 0:
            self.remaining -= 1
        return super()._checked(operation, path)

    def crash(self, *, keep_some=True):
        self.is_off = False
        self.remaining = -1
        super().crash(keep_some=keep_some)


async def crashed_at(step, seed, again_at=None):
    """Compact until the power goes at `step`; returns whether compaction ended before.

    With `again_at` it goes once more at that step of the start that follows.
    """
    disk = FragileDisk(SimulatedRandom(seed))
    bench = Bench(disk)
    log = await bench.open()
    put(log, (b"a", b"0"), (b"b", b"1"))
    put(log, (b"a", b"2"), producer=(5, 0, 0), is_transactional=True)
    await seal(log)
    mark(log, 5, ControlType.ABORT)
    put(log, (b"b", None), (b"c", b"5"))
    await seal(log)
    put(log, (b"c", b"6"), (b"c", b"7"), producer=(5, 0, 1))
    await seal(log)
    put(log, (b"d", b"8"))
    await log.flush()
    await bench.manager.checkpointing.write_recovery_points(bench.manager.directories[0])
    before = contents(log)
    disk.remaining = step
    try:
        await bench.manager.cleaner.clean_once()
        is_done = True
    except PowerCutError:
        is_done = False
    if again_at is not None:
        await interrupted_start(bench, again_at)
    log = await bench.restart()
    after = contents(log)
    final = [(0, b"a", b"0"), (4, b"b", None), (7, b"c", b"7"), (8, b"d", b"8")]
    assert after in (before, final), (step, seed)
    aborted = log.aborted_transactions(0, 9)
    if after == before:
        assert aborted == [(5, 2)], (step, seed)
    assert log.log_end_offset == 9
    assert log.producer_state.producers[5].last_sequence == 2
    assert log.producer_state.first_unstable_offset() is None
    names = disk.list_directory(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    await bench.manager.cleaner.clean_once()
    assert contents(log) == final, (step, seed)
    return is_done


async def interrupted_start(bench, step):
    bench.disk.crash()
    bench.manager = bench.new_manager()
    bench.disk.remaining = step
    # The power goes in the middle of a task group, which wraps the error.
    with contextlib.suppress(PowerCutError, BaseExceptionGroup):
        await bench.open()


@pytest.mark.parametrize("seed", range(3))
def test_a_second_crash_while_starting_changes_nothing(seed):
    """REC-10: an unfinished swap is finished by whichever start gets so far."""

    async def main():
        random = SimulatedRandom(seed)
        for step in range(40, 90):
            await crashed_at(step, seed, again_at=random.integer(60))

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_step_leaves_the_old_segments_or_the_new(seed):
    """REC-10: power is cut before each single operation on the disk, in turn."""

    async def main():
        step = 0
        while not await crashed_at(step, seed):
            step += 1
        assert step > 60

    asyncio.run(main())
