"""When a log begins a new segment, and what is done to the one before."""

import asyncio

from barnabas_broker.log.layout import segment_file_name
from tests.broker.log.log_fixtures import (
    DIRECTORY,
    NOW_MS,
    LogFixture,
    client_batch,
    small_config,
)


def test_segments_roll_when_a_batch_does_not_fit() -> None:
    """SEG-1: size > segment.bytes - incoming; SEG-2: a snapshot named by the new base offset."""
    fixture = LogFixture()
    for _ in range(20):
        fixture.append(bytes(1000))
    bases = fixture.log.segments.base_offsets
    assert len(bases) > 3
    assert all(item.size_bytes <= 4096 for item in fixture.log.segments.values())
    snapshots = {int(name[:20]) for name in fixture.files(".snapshot")}
    assert snapshots == set(bases[1:])
    assert asyncio.run(fixture.offsets()) == list(range(20))


def test_segments_roll_by_the_age_of_their_first_record() -> None:
    """SEG-1: measured from the first record's timestamp against the incoming maximum."""
    fixture = LogFixture(small_config(segment_ms=1000))
    fixture.append(timestamp=NOW_MS - 5000)
    fixture.append(timestamp=NOW_MS - 4000)
    assert len(fixture.log.segments) == 1
    fixture.append(timestamp=NOW_MS - 3999)
    assert fixture.log.segments.base_offsets == [0, 2]


def test_segments_of_a_compacted_log_roll_in_time_to_be_compacted() -> None:
    """SEG-1, REC-7: by max.compaction.lag.ms where that is shorter than segment.ms."""
    times = {"segment_ms": 10_000, "max_compaction_lag_ms": 1000}
    compacted = LogFixture(small_config(cleanup_policy=frozenset({"compact"}), **times))
    deleted = LogFixture(small_config(cleanup_policy=frozenset({"delete"}), **times))
    for fixture in (compacted, deleted):
        fixture.append(timestamp=NOW_MS - 5000)
        fixture.append(timestamp=NOW_MS - 3999)
    assert compacted.log.segments.base_offsets == [0, 1]
    assert deleted.log.segments.base_offsets == [0]


def test_segments_without_timestamps_roll_by_their_creation() -> None:
    """SEG-1: creation time if there is none."""
    fixture = LogFixture(small_config(segment_ms=1000))
    fixture.append(timestamp=-1)
    fixture.clock.advance(1000)
    fixture.append(timestamp=-1)
    assert len(fixture.log.segments) == 1
    fixture.clock.advance(1)
    fixture.append(timestamp=-1)
    assert fixture.log.segments.base_offsets == [0, 2]


def test_segments_roll_when_an_index_is_full() -> None:
    """SEG-1: offset or time index full, with a place kept for the final time entry."""
    fixture = LogFixture(small_config(segment_bytes=1 << 20, segment_index_bytes=64))
    for number in range(40):
        fixture.append(bytes(300), timestamp=NOW_MS + number)
    assert len(fixture.log.segments) > 3
    assert all(len(data) <= 64 for data in fixture.files("index").values())


def test_an_index_entry_is_due_after_more_than_the_interval() -> None:
    """SEG-3, formats.md 6: checked before the batch's own bytes are counted."""
    size = len(client_batch(bytes(100)))
    fixture = LogFixture(small_config(index_interval_bytes=2 * size))
    for number in range(8):
        fixture.append(bytes(100), timestamp=NOW_MS + number)
    index = fixture.log.segments.active.offset_index
    assert index is not None
    # Two batches are not more than the interval, three are; the entry names the fourth.
    assert [index.entry(i) for i in range(index.count)] == [(3, 3 * size), (6, 6 * size)]


def test_config_changes_apply_to_the_open_log() -> None:
    """SEG-14: the segment size at the next append."""
    fixture = LogFixture(small_config(segment_bytes=1 << 20))
    fixture.append(bytes(1000))
    fixture.log.update_config(small_config(segment_bytes=1200))
    fixture.append(bytes(1000))
    assert len(fixture.log.segments) == 2


def test_preallocated_segments_are_trimmed_when_they_are_left() -> None:
    """formats.md 6: preallocated with zeros, trimmed on roll or close."""
    fixture = LogFixture(small_config(preallocate=True))
    for _ in range(12):
        fixture.append(bytes(1000))
    active = fixture.log.segments.active
    assert fixture.disk.size(active.log_path) == 4096 > active.size_bytes
    assert asyncio.run(fixture.offsets()) == list(range(12))
    asyncio.run(fixture.log.close())
    for segment in fixture.log.segments.values():
        assert fixture.disk.size(segment.log_path) == segment.size_bytes
    fixture.reopen_now(was_clean=True)
    assert asyncio.run(fixture.offsets()) == list(range(12))


def test_what_a_crash_left_under_the_name_of_a_new_segment_is_gone() -> None:
    """REC-10: a new segment is empty, whatever its files held."""
    fixture = LogFixture()
    fixture.append()
    for suffix in (".log", ".index", ".timeindex"):
        path = f"{DIRECTORY}/{segment_file_name(1, suffix)}"
        file = fixture.disk.open(path, create=True)
        file.write_at(b"left over" * 10, 0)
        file.sync()
    fixture.disk.sync_directory(DIRECTORY)
    fixture.log.roll()
    fixture.append(b"next")
    assert asyncio.run(fixture.offsets()) == [0, 1]
    assert fixture.file("00000000000000000001.log")[:8] == (1).to_bytes(8)
    asyncio.run(fixture.log.flush())
    fixture.disk.crash(keep_some=False)  # what was left over was on the device as well
    assert fixture.files("1.index", "1.timeindex") == {
        "00000000000000000001.index": b"",
        "00000000000000000001.timeindex": b"",
    }
