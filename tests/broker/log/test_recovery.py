"""Loading and recovery (REC-1 to REC-5), with cuts at every byte and crashes at every moment."""

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas_broker.log.producer_snapshot import encode_snapshot
from barnabas_broker.log.recovery.log_loader import LogLoader
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.records.control import ControlType, encode_marker
from tests.broker.log.log_fixtures import (
    DIRECTORY,
    NOW_MS,
    LogFixture,
    client_batch,
    small_config,
)


def fill_transactions(fixture: LogFixture, count: int = 12) -> None:
    for number in range(count):
        fixture.append(
            b"t" * 100,
            producer_id=50 + number,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        if number % 3 != 2:
            marker = encode_marker(
                ControlType.ABORT if number % 2 else ControlType.COMMIT,
                producer_id=50 + number,
                producer_epoch=0,
                coordinator_epoch=1,
                timestamp=NOW_MS,
            )
            fixture.log.append_as_leader(marker, 0, internal=True, now_ms=NOW_MS)
            fixture.log.write_staged()


def filled(count: int = 30) -> LogFixture:
    fixture = LogFixture()
    sequence = 0
    for number in range(count):
        values = [bytes([number]) * (37 * (number % 7) + 50)] * (1 + number % 3)
        has_producer = number % 2 == 0
        fixture.append(
            *values,
            timestamp=NOW_MS + (number if number % 5 else -number),
            epoch=number // 10,
            producer_id=4 if has_producer else -1,
            producer_epoch=0 if has_producer else -1,
            base_sequence=sequence if has_producer else -1,
        )
        sequence += len(values) if has_producer else 0
    return fixture


def index_files(fixture: LogFixture) -> dict[str, bytes]:
    return fixture.files("index")


def memory_indexes(fixture: LogFixture) -> tuple[bytes, bytes]:
    active = fixture.log.segments.active
    assert active.offset_index is not None
    assert active.time_index is not None
    return bytes(active.offset_index.entries), bytes(active.time_index.entries)


def test_a_clean_stop_needs_no_scan_and_loses_nothing() -> None:
    """REC-1: clean marker present: no recovery."""
    fixture = filled()
    expected = asyncio.run(fixture.records())
    state = encode_snapshot(fixture.log.producer_state)
    asyncio.run(fixture.log.close())
    files = fixture.files()
    log = fixture.reopen_now(was_clean=True)
    assert log.recovery_point == log.log_end_offset == expected[-1].offset + 1
    assert asyncio.run(fixture.records()) == expected
    assert encode_snapshot(log.producer_state) == state
    assert tuple(log.leader_epochs.entries[0]) == (0, 0)
    assert fixture.files() == files


def test_a_reopened_log_goes_on_as_if_it_had_never_stopped() -> None:
    """formats.md 6: the same index entries, apart from the final time entry of a close."""
    stopped, running = filled(17), filled(17)
    asyncio.run(stopped.log.close())
    stopped.reopen_now(was_clean=True)
    for fixture in (stopped, running):
        for number in range(10):
            fixture.append(bytes(300), timestamp=NOW_MS + 100 + number)
    assert memory_indexes(stopped)[0] == memory_indexes(running)[0]
    assert stopped.files(".log") == running.files(".log")


def test_recovery_keeps_exactly_the_whole_batches_at_any_cut() -> None:
    """formats.md 13: cut at every byte of the last two batches; REC-1; indexes as a clean run's."""
    count = 16
    whole = filled(count)
    active = whole.log.segments.active
    assert active.size_bytes > 1000
    runs = {n: filled(n) for n in (count - 2, count - 1, count)}
    ends = {n: run.log.segments.active.size_bytes for n, run in runs.items()}
    assert {run.log.segments.active.base_offset for run in runs.values()} == {active.base_offset}
    for cut in range(ends[count - 2], ends[count] + 1):
        fixture = filled(count)
        fixture.log.segments.active.file.truncate(cut)
        log = fixture.reopen_now(was_clean=False)
        kept = max(n for n, end in ends.items() if end <= cut)
        assert log.log_end_offset == runs[kept].log.log_end_offset
        assert fixture.disk.size(log.segments.active.log_path) == ends[kept]
        assert memory_indexes(fixture) == memory_indexes(runs[kept])
        assert encode_snapshot(log.producer_state) == encode_snapshot(runs[kept].log.producer_state)
        assert log.leader_epochs.entries == runs[kept].log.leader_epochs.entries


@pytest.mark.parametrize("position", [0, 8, 16, 17, 21, 57, 61, 90])
def test_recovery_cuts_at_the_first_bad_byte_and_drops_later_segments(position: int) -> None:
    """REC-1: CRC, size and offsets are checked; all later segments are deleted."""
    fixture = filled(60)
    victim = fixture.log.segments.values()[1]
    assert victim.base_offset < fixture.log.segments.active.base_offset
    victim.file.write_at(b"\xee", position)
    log = fixture.reopen_now(was_clean=False)
    assert log.segments.base_offsets == [0, victim.base_offset]
    assert log.log_end_offset == victim.base_offset
    assert not [
        name for name in fixture.files() if name.startswith(f"{victim.base_offset + 1:020d}")
    ]
    fixture.append(b"goes on")
    assert asyncio.run(fixture.offsets())[-1] == victim.base_offset


def test_a_power_cut_brings_no_segment_back_that_a_recovery_has_dropped() -> None:
    """Seed 416290 of the log's histories: it would continue what was appended since."""
    fixture = filled(60)
    asyncio.run(fixture.log.flush())
    victim = fixture.log.segments.values()[1]
    victim.file.write_at(b"\xee", 61)
    victim.file.sync()
    assert fixture.reopen_now(was_clean=False).log_end_offset == victim.base_offset
    fixture.disk.crash(keep_some=False)
    assert max(fixture.files(".log")) == f"{victim.base_offset:020d}.log"


def test_rebuilt_indexes_equal_those_of_a_clean_run_byte_for_byte() -> None:
    """REC-2, formats.md 6: every segment, after losing every index."""
    fixture = filled(80)
    asyncio.run(fixture.log.close())
    expected = index_files(fixture)
    assert len(expected) > 6
    for name in expected:
        fixture.disk.remove(f"{DIRECTORY}/{name}")
    fixture.reopen_now(was_clean=True)
    asyncio.run(fixture.log.close())
    assert index_files(fixture) == expected
    for name in expected:
        fixture.disk.open(f"{DIRECTORY}/{name}").write_at(b"\xff\xee\xdd", 2)
    fixture.reopen_now(was_clean=False)
    asyncio.run(fixture.log.close())
    assert index_files(fixture) == expected


def test_a_damaged_index_of_a_closed_segment_is_rebuilt_when_it_is_read() -> None:
    """REC-2: that segment only."""
    fixture = filled(80)
    asyncio.run(fixture.log.close())
    expected = index_files(fixture)
    name = sorted(name for name in expected if name.endswith(".index"))[1]
    fixture.disk.open(f"{DIRECTORY}/{name}").write_at(b"\xff\xee", 0)
    fixture.cache.limit_bytes = 0
    fixture.reopen_now(was_clean=True)
    assert asyncio.run(fixture.offsets()) == list(range(fixture.log.log_end_offset))
    assert index_files(fixture) == expected


def test_an_index_without_its_log_is_deleted() -> None:
    """formats.md 5."""
    fixture = filled(5)
    fixture.disk.write_atomically(f"{DIRECTORY}/00000000000000009999.index", b"12345678")
    fixture.reopen_now(was_clean=True)
    assert "00000000000000009999.index" not in fixture.files()


def test_recovery_reads_only_behind_the_recovery_point() -> None:
    """REC-1 (ours): a scan from the recovery point's position, not the segment's start."""
    fixture = LogFixture(small_config(segment_bytes=1 << 20))
    for _ in range(200):
        fixture.append(bytes(1000))
    asyncio.run(fixture.log.flush())
    recovery_point = fixture.log.recovery_point
    assert recovery_point == 200
    for _ in range(5):
        fixture.append(bytes(1000))
    expected = memory_indexes(fixture)
    # A bad byte far below the recovery point is not looked at.
    file = fixture.log.segments.active.file
    file.write_at(b"\xee", 30_100)
    log = fixture.reopen_now(was_clean=False, recovery_point=recovery_point)
    assert log.log_end_offset == 205
    assert memory_indexes(fixture) == expected


def test_an_index_that_was_not_flushed_with_the_data_is_made_anew() -> None:
    """The recovery point may be ahead of the index files: scanning starts at their last entry."""
    fixture = LogFixture(small_config(segment_bytes=1 << 20))
    fixture.append(bytes(100))
    asyncio.run(fixture.log.flush())
    for _ in range(100):
        fixture.append(bytes(300))
    asyncio.run(fixture.log.flush())
    assert fixture.log.recovery_point == 101
    assert len(fixture.file("00000000000000000000.index")) == 0
    expected = memory_indexes(fixture)
    fixture.reopen_now(was_clean=False, recovery_point=101)
    assert memory_indexes(fixture) == expected
    assert len(expected[0]) > 100


def test_a_log_that_ends_below_its_start_offset_begins_anew_there() -> None:
    """REC-2: LEO < checkpointed start offset -> all segments dropped, empty at the start offset."""
    fixture = filled(10)
    end = fixture.log.log_end_offset
    log = asyncio.run(fixture.reopen(was_clean=False, log_start_offset=end + 50))
    assert (log.log_start_offset, log.log_end_offset) == (end + 50, end + 50)
    assert log.segments.base_offsets == [end + 50]
    assert fixture.append() == end + 50


def test_leader_epochs_are_kept_within_the_logs_range() -> None:
    """REC-2: the cache is truncated to [log start, log end)."""
    fixture = filled(30)
    asyncio.run(fixture.log.close())
    log = asyncio.run(fixture.reopen(was_clean=True, log_start_offset=25))
    assert log.leader_epochs.entries[0].start_offset == 25


def test_leader_epochs_survive_a_kill_right_after_a_recovery() -> None:
    """REP-14: the first recovery mends the index, the second one begins behind the first epoch.

    Found by a simulated cluster: a member of the metadata log ended in another history.
    """
    fixture = LogFixture(small_config(segment_bytes=1 << 20))
    fixture.append(bytes(100), epoch=1)
    asyncio.run(fixture.log.flush())
    for _ in range(100):
        fixture.append(bytes(300), epoch=1)
    asyncio.run(fixture.log.flush())
    assert not fixture.file("00000000000000000000.index")
    for _ in range(2):
        log = fixture.reopen_now(was_clean=False, recovery_point=101)
        assert log.leader_epochs.entries == ((1, 0),)


def test_an_epoch_without_records_does_not_come_back_when_its_offset_is_deleted() -> None:
    """The first start drops it in memory; when the next one begins behind it, no batch says so.

    Found by a history of the model (seed 623526).
    """
    fixture = filled(9)
    fixture.log.leader_epochs.assign(1, fixture.log.log_end_offset)
    fixture.log.leader_epochs.flush()
    fixture.reopen_now(was_clean=False)
    fixture.append(bytes(100), epoch=0)
    start = fixture.log.log_end_offset + 1
    for _ in range(2):
        log = asyncio.run(fixture.reopen(was_clean=False, log_start_offset=start))
        fixture.append(bytes(100), epoch=0)
    assert log.leader_epochs.entries == ((0, start),)


def test_broken_leader_epochs_are_assigned_from_the_batches() -> None:
    fixture = filled(30)
    expected = fixture.log.leader_epochs.entries
    asyncio.run(fixture.log.close())
    fixture.disk.write_atomically(f"{DIRECTORY}/leader-epoch-checkpoint", b"junk")
    log = fixture.reopen_now(was_clean=False)
    assert log.leader_epochs.entries == expected


def test_aborted_transactions_survive_recovery() -> None:
    """TXL-8: transaction index and producer state identical to those before."""
    fixture = LogFixture()
    fill_transactions(fixture)
    log = fixture.log
    log.advance_high_watermark(log.log_end_offset)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    stable, state = log.last_stable_offset, encode_snapshot(log.producer_state)
    indexes = fixture.files(".txnindex")
    assert aborted
    assert stable < log.log_end_offset
    log = fixture.reopen_now(was_clean=False)
    log.advance_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    assert (log.last_stable_offset, encode_snapshot(log.producer_state)) == (stable, state)
    assert fixture.files(".txnindex") == indexes


@settings(deadline=None, max_examples=80)
@example(0, ["a", "a", "t", "a", "r"], True)  # a segment was begun within the one before
@example(0, ["a", "a", "f", "a", "t", "r"], True)  # and at the recovery point
@given(st.integers(0, 10_000), st.lists(st.sampled_from("aaaaaafrt"), max_size=40), st.booleans())
def test_a_crash_loses_nothing_that_was_flushed(seed: int, steps: list[str], keep: bool) -> None:
    """REC-1, SEG-8: whatever survives of the rest is a prefix, readable, with right indexes."""
    fixture = LogFixture(seed=seed)
    appended: list[bytes] = []
    states: list[list[bytes]] = [[]]

    async def work() -> None:
        for step in steps:
            if step == "a":
                value = b"%d-" % len(appended) * (20 + len(appended) * 7 % 200)
                fixture.append(value, producer_id=1, producer_epoch=0, base_sequence=len(appended))
                appended.append(value)
            elif step == "f":
                await fixture.log.flush()
            elif step == "r":
                fixture.log.roll()
            else:
                target = max(fixture.log.log_end_offset - 2, 0)
                await fixture.log.truncate(target)
                del appended[target:]
            states.append(list(appended))

    asyncio.run(work())
    flushed = fixture.log.recovery_point
    fixture.disk.crash(keep_some=keep)
    log = fixture.reopen_now(was_clean=False, recovery_point=flushed)
    values = [record.value for record in asyncio.run(fixture.records())]
    # A truncation that was not flushed may be undone.
    assert any(values == state[: len(values)] for state in states)
    assert values[:flushed] == appended[:flushed]
    assert flushed <= len(values) == log.log_end_offset
    kept = bytes(memory_indexes(fixture)[0])
    log = fixture.reopen_now(was_clean=False)
    assert memory_indexes(fixture)[0] == kept
    fixture.append(b"next", producer_id=1, producer_epoch=0, base_sequence=len(values))
    assert log.log_end_offset == len(values) + 1


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 45), st.integers(0, 100))
def test_truncation_leaves_what_a_shorter_log_would_be(target: int, seed: int) -> None:
    """REC-5, TXL-8: files, indexes, epochs and producers as if the rest had never been."""
    fixture = filled(30)
    expected = [r for r in asyncio.run(fixture.records()) if r.offset < target]
    log = fixture.log
    end = log.log_end_offset
    log.advance_high_watermark(end)
    assert log.truncate_to(target) is (target < end)
    target = min(target, end)
    assert log.log_end_offset == log.staged_end_offset == target
    assert log.high_watermark <= target
    batches = asyncio.run(fixture.records())
    assert batches == expected[: len(batches)]
    state = encode_snapshot(log.producer_state)
    reopened = fixture.reopen_now(was_clean=False)
    assert encode_snapshot(reopened.producer_state) == state
    if reopened.log_end_offset == target:
        fixture.append(b"x")
        assert asyncio.run(fixture.offsets())[-1] == target


def test_truncation_below_the_first_segment_starts_there() -> None:
    """REC-5: "truncate fully and start at" leaves one empty segment."""
    fixture = filled(5)
    log = fixture.log
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert log.segments.base_offsets == [1000]
    assert not log.producer_state.producers
    assert fixture.append() == 1000
    log.truncate_to(7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)


def test_a_truncated_log_has_no_old_file_of_any_segment() -> None:
    """REC-5: whole segments with base >= the offset are removed, on disk too."""
    fixture = filled(60)
    bases = fixture.log.segments.base_offsets
    fixture.log.truncate_to(bases[2])
    assert fixture.log.segments.base_offsets == bases[:2]
    fixture.append(b"one more")
    names = {int(name[:20]) for name in fixture.files(".log", "index")}
    assert max(names) < bases[2]


def test_recovery_after_an_error_of_the_disk_reports_it() -> None:
    """LOG-11: an unreadable directory is the caller's to take offline."""
    fixture = filled(5)
    fixture.disk.fail("list_directory", DIRECTORY)
    loading = LogLoader(fixture.disk, DIRECTORY, fixture.config, NOW_MS)
    with pytest.raises(OSError, match="simulated"):
        loading.load(recovery_point=0, log_start_offset=0, was_clean=False)


def test_a_closed_log_takes_nothing_more() -> None:
    fixture = filled(5)
    asyncio.run(fixture.log.close())
    with pytest.raises(KafkaError):
        fixture.log.append_as_leader(client_batch(), 0, now_ms=NOW_MS)
