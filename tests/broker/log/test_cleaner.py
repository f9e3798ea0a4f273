"""The log cleaner: which log and when, within which bounds, beside what else happens."""

import asyncio
import dataclasses

import pytest

from barnabas_broker.log.manager.log_moves import begin_copy, discard_copy
from barnabas_protocol.records.batch import stamp_crc
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import (
    DAY_MS,
    NAME,
    Bench,
    batches,
    compacted,
    contents,
    newest,
    offsets,
    put,
    seal,
)


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


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_is_kept_empty_says_that_it_is_not_compressed(codec):
    """REC-9: Java's consumer opens the compressed stream, which is not there, and fails."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), compression=codec, producer=(7, 0, 0))
        put(log, (b"a", b"1"), compression=codec)
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        empty, full = (header for header, _ in batches(log))
        assert (empty.record_count, empty.compression, empty.producer_id) == (0, 0, 7)
        assert (full.record_count, full.compression) == (1, codec)

    asyncio.run(main())


def test_memory_bounds_a_round_and_later_rounds_do_the_rest():
    """REC-7: a map that is full ends the round at a batch; the rest stays dirty."""

    async def main():
        bench = Bench(log_cleaner_dedupe_buffer_size=str(1024 * 1024))
        log = await bench.open()
        small = dataclasses.replace(bench.manager.config, log_cleaner_dedupe_buffer_size=10 * 190)
        bench.manager.update_config(small)
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
        log.local.removal.remove(gone, 0)
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
        await cleaner.throttle(50_000)
        assert loop.time() - started >= 0.049
        cleaner.stop()
        started = loop.time()
        await cleaner.throttle(50_000_000)
        assert loop.time() - started < 5

    asyncio.run(main())


def test_a_log_whose_records_break_the_cleaner_is_left_alone_and_others_go_on():
    """Attack: records of one offset, from before they were refused, ended compaction for all."""

    async def main():
        bench = Bench()
        bad = await bench.open(dataclasses.replace(compacted(), cleanup_policy=frozenset()))
        batch = bytearray(encode_batch([Record(n, 1000, b"k%d" % n, b"v") for n in range(3)]))
        size = (len(batch) - 61) // 3
        batch[61 + size + 3] = 4  # the offset delta of the second record is that of the third
        stamp_crc(batch, 0)
        bad.append_as_leader(batch, 0, now_ms=bad.clock.wall_ms())
        bad.write_staged()
        bad.advance_high_watermark(bad.log_end_offset)
        put(bad, (b"k0", b"newer"))
        await seal(bad)
        bad.update_config(compacted())
        good = bench.manager.create(NAME._replace(topic="good"), bytes(16), compacted())
        put(good, (b"a", b"0" * 100), (b"a", b"1"))
        await seal(good)
        while await bench.manager.cleaner.clean_once():
            pass
        assert list(bench.manager.cleaner.uncleanable) == [NAME]
        assert offsets(good) == [1]
        assert not bench.manager.directories[0].is_offline

    asyncio.run(main())


@pytest.mark.parametrize("how", ["made again", "cut"])
def test_what_was_never_compacted_does_not_count_as_clean(how: str) -> None:
    """The checkpoint spoke of a deleted topic, or of what was cut off: tombstones went alone."""
    settings = compacted(segment_bytes=4096, index_interval_bytes=512, delete_retention_ms=1000)

    async def main() -> None:
        bench = Bench()
        bench.manager.is_whole = lambda _: True
        log = await bench.open(settings)
        for number in range(100):
            put(log, (b"old%d" % (number % 3), bytes(200)))
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        if how == "made again":
            await bench.manager.delete(NAME)
            await bench.manager.note_deletions()
            bench.manager.create(NAME, bytes(15) + b"x", settings)
            await bench.manager.close(7)
            bench.manager = bench.new_manager()
            bench.manager.is_whole = lambda _: True
            await bench.manager.load(lambda topic, topic_id: settings)
            log = bench.manager.logs[NAME]
        else:
            await log.truncate(10)
            await bench.manager.note_truncations([log])
        put(log, (b"user", b"secret"))
        put(log, (b"user", None))
        for number in range(150):
            put(log, (b"new%d" % (number % 3), bytes(200)))
        for _ in range(3):
            await seal(log)
            assert await bench.manager.cleaner.clean_once()
            bench.clock.advance(DAY_MS)
            put(log, *((b"new%d" % number, bytes(200)) for number in range(15)))
        assert not [value for _, key, value in contents(log) if key == b"user"]

    asyncio.run(main())


def test_tombstones_stay_while_a_copy_of_the_log_is_made() -> None:
    """As while a replica is away: the copy has the value, and would never meet the tombstone."""
    settings = compacted(segment_bytes=4096, index_interval_bytes=512, delete_retention_ms=1000)

    async def main() -> None:
        bench = Bench(log_dirs="/data,/other")
        bench.disk.make_directories("/other")
        bench.manager.is_whole = lambda _: True
        log = await bench.open(settings)
        put(log, (b"user", b"secret"))
        put(log, *((b"a%d" % number, bytes(200)) for number in range(15)))
        tombstone = put(log, (b"user", None))
        target = next(
            one for one in bench.manager.directories if one is not bench.manager.directory_of(log)
        )
        copy = await begin_copy(bench.manager, log, target)
        for is_over in (False, True):
            for _ in range(3):
                put(log, *((b"b%d" % number, bytes(200)) for number in range(15)))
                await seal(log)
                assert await bench.manager.cleaner.clean_once()
                bench.clock.advance(DAY_MS)
            kept = [offset for offset, key, _ in contents(log) if key == b"user"]
            assert kept == ([] if is_over else [tombstone])
            if not is_over:
                discard_copy(bench.manager, copy)

    asyncio.run(main())
