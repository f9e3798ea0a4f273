"""Deleting old segments (SEG-10 to SEG-12)."""

import asyncio

from barnabas_broker.log.recovery.interrupted_work import finish_interrupted_work
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.log.log_fixtures import DIRECTORY, NOW_MS, LogFixture, small_config
from tests.support.virtual_loop import run_virtual

DAY_MS = 86_400_000


def filled(**settings: object) -> LogFixture:
    fixture = LogFixture(small_config(**settings))
    for number in range(20):
        fixture.append(bytes(1000), timestamp=NOW_MS + number)
    fixture.log.advance_high_watermark(20)
    return fixture


def test_segments_older_than_the_retention_go_the_active_one_after_a_roll() -> None:
    """SEG-10, SEG-11."""
    fixture = filled(retention_ms=1000)
    log = fixture.log
    assert asyncio.run(log.delete_old_segments(NOW_MS + 1000)) == 0
    bases = log.segments.base_offsets
    assert asyncio.run(log.delete_old_segments(NOW_MS + 1000 + bases[1])) == 1
    assert log.log_start_offset == bases[1]
    assert asyncio.run(log.delete_old_segments(NOW_MS + DAY_MS)) == len(bases) - 1
    assert log.segments.base_offsets == [20]
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert fixture.append() == 20


def test_segments_go_while_the_rest_still_has_the_retained_size() -> None:
    """SEG-10: total - segment >= retention.bytes."""
    fixture = filled(retention_ms=-1, retention_bytes=7000)
    log = fixture.log
    asyncio.run(log.delete_old_segments(NOW_MS))
    assert 7000 <= log.size_bytes < 7000 + 4096
    assert log.size_bytes == sum(item.size_bytes for item in log.segments.values())


def test_segments_below_the_log_start_offset_go() -> None:
    """SEG-10: also for a log that is only compacted."""
    fixture = filled(retention_ms=-1, cleanup_policy=frozenset({"compact"}))
    log = fixture.log
    bases = log.segments.base_offsets
    log.advance_log_start_offset(bases[2] + 1)
    assert asyncio.run(log.delete_old_segments(NOW_MS)) == 2
    assert log.log_start_offset == bases[2] + 1
    assert log.segments.base_offsets == bases[2:]


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    """SEG-11."""
    fixture = LogFixture(small_config(retention_ms=1))
    for _ in range(20):
        fixture.append(bytes(1000))
    bases = fixture.log.segments.base_offsets
    fixture.log.advance_high_watermark(bases[1])
    assert asyncio.run(fixture.log.delete_old_segments(NOW_MS + DAY_MS)) == 1


def test_files_stay_under_another_name_until_the_delay_is_over() -> None:
    """SEG-12: out of the map, `.deleted`, gone after file.delete.delay.ms; snapshots go along."""
    fixture = filled(retention_ms=1000)
    log = fixture.log
    old = log.segments.first
    second = log.segments.base_offsets[1]

    async def scenario() -> None:
        await log.flush()
        await log.delete_old_segments(NOW_MS + 1000 + second)
        try:
            log.read_nowait(0, 100, 20)
        except KafkaError as error:
            assert error.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert sorted(fixture.files(".deleted")) == [
            f"00000000000000000000{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")
        ]
        # A read that was under way goes on.
        assert len(old.file.read(100, 0)) == 100
        await asyncio.sleep(59)
        assert fixture.files(".deleted")
        await asyncio.sleep(2)
        assert not fixture.files(".deleted")
        await log.close()

    run_virtual(scenario())


def test_a_restart_removes_what_waited_for_its_deletion() -> None:
    """formats.md 5: `.deleted` files are removed at start."""
    fixture = filled(retention_ms=1000)

    async def scenario() -> None:
        await fixture.log.delete_old_segments(NOW_MS + DAY_MS)
        await fixture.log.close()

    asyncio.run(scenario())
    assert fixture.files(".deleted")
    log = fixture.reopen_now(was_clean=True)
    assert not fixture.files(".deleted")
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)


def test_largest_timestamps_of_loaded_segments_come_from_the_time_index() -> None:
    """SEG-10: after a restart too, without opening the segments' records."""
    fixture = filled(retention_ms=1000)
    asyncio.run(fixture.log.close())
    log = fixture.reopen_now(was_clean=True)
    log.advance_high_watermark(20)
    bases = log.segments.base_offsets
    assert asyncio.run(log.delete_old_segments(NOW_MS + 1000 + bases[1])) == 1


def test_segments_without_timestamps_count_from_the_files_modification() -> None:
    """SEG-10: file mtime if no timestamp."""
    fixture = LogFixture(small_config(retention_ms=1000))
    for _ in range(10):
        fixture.append(bytes(1000), timestamp=-1)
    log = fixture.log
    log.advance_high_watermark(10)
    first = log.segments.first
    fixture.disk.set_modified_ms(first.log_path, NOW_MS - 5000)
    for item in log.segments.values()[1:]:
        fixture.disk.set_modified_ms(item.log_path, NOW_MS)
    assert asyncio.run(log.delete_old_segments(NOW_MS)) == 1


def test_interrupted_swaps_end_with_the_new_segments() -> None:
    """REC-10, formats.md 5: a complete `.swap` replaces the segments that it covers."""
    fixture = filled()
    asyncio.run(fixture.log.close())
    names = sorted(fixture.files(".log", "index"))
    first = [name for name in names if name.startswith("0" * 20)]
    for name in first:
        fixture.disk.write_atomically(f"/logs/topic-0/{name}.swap", fixture.file(name))
    fixture.disk.write_atomically("/logs/topic-0/00000000000000000010.log.cleaned", b"half")
    fixture.disk.write_atomically("/logs/topic-0/00000000000000000011.log.swap", b"of a split")
    log = fixture.reopen_now(was_clean=True)
    assert sorted(fixture.files(".log", "index")) == names
    assert not fixture.files(".swap", ".cleaned")
    assert asyncio.run(fixture.offsets()) == list(range(20))
    assert log.log_end_offset == 20


def test_a_segment_that_was_begun_meanwhile_does_not_keep_the_old_ones() -> None:
    """SEG-10: a log that rolls faster than retention looks at it would otherwise never shrink."""
    fixture = filled(retention_ms=1000)
    log = fixture.log
    count = len(log.segments)

    async def main() -> int:
        retaining = asyncio.create_task(log.delete_old_segments(NOW_MS + DAY_MS))
        await asyncio.sleep(0)
        for _ in range(6):
            fixture.append(bytes(1000), timestamp=NOW_MS + 1000)
        assert len(log.segments) > count
        return await retaining

    assert asyncio.run(main()) == count - 1
    assert log.log_start_offset == log.segments.first.base_offset
    assert asyncio.run(fixture.offsets()) == list(range(log.log_start_offset, 26))


def test_a_segment_whose_renaming_a_power_cut_has_undone_is_there_as_before() -> None:
    """Seed 415322 of the log's histories: it lacked its index of aborted transactions."""
    fixture = filled()
    asyncio.run(fixture.log.close())
    disk, base = fixture.disk, f"{DIRECTORY}/{0:020d}"
    disk.write_atomically(f"{base}.txnindex", b"")
    before = fixture.files()
    for suffix in ("txnindex", "timeindex"):
        disk.rename(f"{base}.{suffix}", f"{base}.{suffix}.deleted")
    finish_interrupted_work(disk, DIRECTORY)
    assert fixture.files() == before
    for suffix in ("txnindex", "timeindex", "index", "log"):
        disk.rename(f"{base}.{suffix}", f"{base}.{suffix}.deleted")
    finish_interrupted_work(disk, DIRECTORY)
    assert fixture.files() == {
        name: data for name, data in before.items() if not name.startswith(f"{0:020d}.")
    }


def test_a_start_that_ends_while_it_removes_leaves_no_index_to_what_took_the_place() -> None:
    """A segment that compaction has replaced: its log goes last, so its index is never given back
    to the new one, whose aborted transactions may have lost their markers."""
    fixture = filled()
    asyncio.run(fixture.log.close())
    disk, base = fixture.disk, f"{DIRECTORY}/{0:020d}"
    for suffix in ("txnindex", "log"):
        disk.write_atomically(f"{base}.{suffix}.deleted", b"of the old segment")
    removed: list[str] = []
    remove = disk.remove
    disk.remove = lambda path: (removed.append(path), remove(path))[1]  # type: ignore[method-assign]
    finish_interrupted_work(disk, DIRECTORY)
    assert removed == [f"{base}.txnindex.deleted", f"{base}.log.deleted"]
