"""Offset index and time index: bytes, searches, repairs."""

from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.log.index_file import write_index
from barnabas_broker.log.offset_index import OffsetIndex
from barnabas_broker.log.time_index import TimeIndex
from tests.support.simulated_disk import SimulatedDisk

WARM_OFFSET_ENTRIES = 1024
WARM_TIME_ENTRIES = 682


def offset_index(offsets: list[int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex("/x.index", base)
    for number, offset in enumerate(offsets):
        index.append(offset, (number + 1) * 5000)
    return index


def time_index(timestamps: list[int], base: int = 100) -> TimeIndex:
    index = TimeIndex("/x.timeindex", base)
    for number, timestamp in enumerate(timestamps):
        index.append_if_later(timestamp, base + number)
    return index


def test_offset_index_has_kafkas_bytes() -> None:
    """formats.md 6: int32 relative offset, int32 position."""
    assert offset_index([103, 110]).entries == bytes.fromhex("00000003000013880000000a00002710")


def test_time_index_has_kafkas_bytes() -> None:
    """formats.md 6: int64 timestamp, int32 relative offset."""
    assert time_index([7, 9]).entries == bytes.fromhex(
        "000000000000000700000000000000000000000900000001"
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 3 * WARM_OFFSET_ENTRIES), st.data())
def test_offset_search_equals_a_plain_binary_search(count: int, data: st.DataObject) -> None:
    """SEG-4: warm part or cold part, the result is the largest entry <= target."""
    offsets = [100 + 3 * (i + 1) for i in range(count)]
    index = offset_index(offsets)
    target = data.draw(st.integers(90, 110 + 3 * count))
    number = bisect_right(offsets, target) - 1
    expected = (100, 0) if number < 0 else (offsets[number], (number + 1) * 5000)
    assert index.lookup(target) == expected


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 3 * WARM_TIME_ENTRIES), st.data())
def test_time_search_equals_a_plain_binary_search(count: int, data: st.DataObject) -> None:
    """SEG-4: target below the first entry: none, which is the segment's start."""
    timestamps = [1000 + 2 * i for i in range(count)]
    target = data.draw(st.integers(990, 1010 + 2 * count))
    number = bisect_right(timestamps, target) - 1
    expected = (-1, 100) if number < 0 else (timestamps[number], 100 + number)
    assert time_index(timestamps).lookup(target) == expected


def test_search_looks_at_the_warm_part_only_when_it_can() -> None:
    """SEG-4: the warm section is 8192 bytes: 1024 offset entries, 682 time entries."""
    looked_at: list[int] = []
    for index, warm in (
        (offset_index([]), WARM_OFFSET_ENTRIES),
        (time_index([]), WARM_TIME_ENTRIES),
    ):
        count = 5000
        index.entries += bytes(count * index.ENTRY_BYTES)

        def key(number: int) -> int:
            looked_at.append(number)
            return number

        looked_at.clear()
        assert index.last_at_most(count - 10, key) == count - 10
        assert min(looked_at) == count - 1 - warm
        looked_at.clear()
        assert index.last_at_most(10, key) == 10
        assert max(looked_at) == count - 1 - warm


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 50), max_size=20), st.integers(95, 160))
def test_truncation_keeps_exactly_what_lies_below(deltas: list[int], end: int) -> None:
    offsets = sorted({101 + delta for delta in deltas})
    index = offset_index(offsets)
    index.truncate_to(end)
    assert [index.entry(i)[0] for i in range(index.count)] == [o for o in offsets if o < end]


def test_time_entry_is_added_only_for_a_later_timestamp() -> None:
    """formats.md 6: timestamps strictly rise; "none" (-1) never gets an entry."""
    index = time_index([-1, 5, 5, 4, 6])
    assert [index.entry(i) for i in range(index.count)] == [(5, 101), (6, 104)]


def test_preallocated_zeros_are_cut_without_being_damage() -> None:
    """formats.md 6: trailing zeros are allowed and trimmed."""
    offsets, times = offset_index([105, 120]), time_index([5, 6])
    whole = bytes(offsets.entries), bytes(times.entries)
    offsets.entries += bytes(8 * 50)
    times.entries += bytes(12 * 50)
    assert not offsets.trim(1 << 20)
    assert not times.trim()
    assert (bytes(offsets.entries), bytes(times.entries)) == whole


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=60))
def test_damage_is_found_and_cut(garbage: bytes) -> None:
    """REC-2: what remains after trimming always rises and lies inside the log."""
    index = OffsetIndex("/x.index", 0, garbage)
    index.trim(10_000)
    entries = [index.entry(i) for i in range(index.count)]
    assert entries == sorted(set(entries))
    assert all(0 < position < 10_000 and offset > 0 for offset, position in entries)
    assert index.written_bytes == len(index.entries)
    times = TimeIndex("/x.timeindex", 0, garbage)
    times.trim()
    stamps = [times.entry(i)[0] for i in range(times.count)]
    assert stamps == sorted(set(stamps))


def test_file_follows_the_entries_through_flush_and_truncation() -> None:
    disk = SimulatedDisk()
    index = offset_index([105, 110, 120])
    position, missing = index.pending()
    write_index(disk, index.path, position, missing)
    index.mark_written(position + len(missing))
    assert index.pending() == (24, b"")
    index.truncate_to(110)
    index.append(111, 90_000)
    write_index(disk, index.path, *index.pending())
    assert disk.read_bytes(index.path) == index.entries
    assert index.count == 2
