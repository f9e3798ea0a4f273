"""Appending to and reading from one log, against a list."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.log.errors import LogDirectoryError
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.batch import iterate_headers, read_header
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.broker.log.log_fixtures import (
    DIRECTORY,
    NOW_MS,
    LogFixture,
    client_batch,
    concatenated,
    small_config,
)

GOLDEN = (
    "0000000000000000 0000003a 00000007 02 fe917cab 0000 00000000 0000000000000000 "
    "0000000000000000 ffffffffffffffff ffff ffffffff 00000001 10 00 00 00 02 6b 02 76 00"
)


def refused(code: ErrorCode, call: Any, *arguments: Any, **keywords: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **keywords)
    assert caught.value.code == code


def test_the_file_holds_the_batch_with_its_offset_and_leader_epoch() -> None:
    """formats.md 2: golden bytes; offset and epoch are stamped in place, the CRC stays."""
    fixture = LogFixture()
    fixture.append(b"v", timestamp=0, epoch=7)
    assert fixture.file("00000000000000000000.log") == bytes.fromhex(GOLDEN)


def test_nothing_is_visible_before_it_is_written() -> None:
    """LOG-10: the log end offset moves only after the write."""
    fixture = LogFixture()
    log = fixture.log
    log.append_as_leader(client_batch(b"a", b"b"), 0, now_ms=NOW_MS)
    assert (log.log_end_offset, log.staged_end_offset) == (0, 2)
    assert log.read_nowait(0, 1000, 2) is not None
    assert not log.read_nowait(0, 1000, 2).buffers  # type: ignore[union-attr]
    log.append_as_leader(client_batch(b"c"), 0, now_ms=NOW_MS)
    log.write_staged()
    assert log.log_end_offset == 3
    assert asyncio.run(fixture.offsets()) == [0, 1, 2]


def test_all_batches_of_a_turn_are_one_write() -> None:
    """architecture.md 4: one writev per partition per loop turn."""
    fixture = LogFixture()
    for _ in range(10):
        fixture.log.append_as_leader(client_batch(), 0, now_ms=NOW_MS)
    writes: list[int] = []
    file = fixture.log.segments.active.file
    append = file.append
    file.append = lambda buffers: writes.append(len(buffers)) or append(buffers)  # type: ignore
    fixture.log.write_staged()
    fixture.log.write_staged()
    assert writes == [10]


def test_reads_out_of_range_are_refused_and_at_the_end_empty() -> None:
    """SEG-5."""
    fixture = LogFixture()
    for _ in range(5):
        fixture.append()
    log = fixture.log
    log.advance_high_watermark(5)
    log.advance_log_start_offset(2)
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.read_nowait, 1, 100, 5)
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.read_nowait, 6, 100, 5)
    empty = log.read_nowait(5, 100, 5)
    assert empty is not None
    assert (empty.buffers, empty.size_bytes) == ([], 0)


def test_duplicates_get_the_original_offsets_and_are_not_written() -> None:
    """LOG-8, TXL-2."""
    fixture = LogFixture()
    for sequence in (0, 2):
        fixture.append(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=sequence)
    again = fixture.log.append_as_leader(
        client_batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0), 0, now_ms=NOW_MS
    )
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset) == (0, 1)
    assert fixture.log.staged_end_offset == 4
    gap = client_batch(producer_id=9, producer_epoch=0, base_sequence=7)
    refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, fixture.log.append_as_leader, gap, 0, now_ms=NOW_MS
    )


def test_a_duplicate_is_found_among_batches_of_the_same_turn() -> None:
    """LOG-8: producer state is ahead of the file, like the staged end offset."""
    fixture = LogFixture()
    for expected in (False, True):
        info = fixture.log.append_as_leader(
            client_batch(producer_id=9, producer_epoch=0, base_sequence=0), 0, now_ms=NOW_MS
        )
        assert info.is_duplicate is expected


def test_transactions_bound_the_last_stable_offset_and_aborts_are_indexed() -> None:
    """TXL-5 to TXL-7."""
    fixture = LogFixture()
    log = fixture.log
    fixture.append(b"plain")
    fixture.append(
        b"a", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True
    )  # fmt: skip
    fixture.append(b"plain")
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    marker = encode_marker(
        ControlType.ABORT, producer_id=9, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS
    )
    log.append_as_leader(marker, 0, internal=True, now_ms=NOW_MS)
    log.write_staged()
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    assert log.aborted_transactions(0, 4) == [(9, 1)]
    assert log.aborted_transactions(4, 5) == []


def test_internal_appends_may_hold_several_batches() -> None:
    fixture = LogFixture()
    both = bytes(client_batch(b"a", b"b")) + bytes(client_batch(b"c"))
    info = fixture.log.append_as_leader(both, 5, internal=True, now_ms=NOW_MS)
    fixture.log.write_staged()
    assert (info.first_offset, info.last_offset, info.record_count) == (0, 2, 3)
    assert asyncio.run(fixture.offsets()) == [0, 1, 2]
    assert fixture.log.leader_epochs.latest == 5


def leader_batch(base: int, count: int = 1, epoch: int = 3) -> bytes:
    records = [Record(base + i, NOW_MS, b"k", b"v", ()) for i in range(count)]
    return encode_batch(records, base_offset=base, leader_epoch=epoch)


def test_followers_take_the_leaders_offsets_and_epochs() -> None:
    """LOG-9: they must rise; a partial batch at the end is dropped."""
    fixture = LogFixture()
    log = fixture.log
    log.append_as_follower(leader_batch(0, 2) + leader_batch(2) + leader_batch(3)[:-1])
    log.write_staged()
    assert log.log_end_offset == 3
    # Compaction on the leader leaves gaps.
    log.append_as_follower(leader_batch(7, epoch=4))
    log.write_staged()
    assert asyncio.run(fixture.offsets()) == [0, 1, 2, 7]
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(3, 0), (4, 7)]
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.append_as_follower, leader_batch(5))
    damaged = bytearray(leader_batch(8))
    damaged[-1] ^= 1
    refused(ErrorCode.CORRUPT_MESSAGE, log.append_as_follower, damaged)
    assert log.staged_end_offset == 8


def test_a_replica_that_comes_to_lead_reads_what_it_followed_and_what_it_led() -> None:
    """A tail has no hole: what was followed is read from the file, what is led from memory."""
    fixture = LogFixture()
    log = fixture.log
    fixture.append(b"led before")
    for base in (1, 3):
        log.append_as_follower(leader_batch(base, 2))
        log.write_staged()
        assert asyncio.run(fixture.offsets()) == [*range(base + 2)]
    assert log.local.tail.size_between(0, 5) is None
    log.append_as_follower(leader_batch(5))
    log.append_as_leader(client_batch(b"led now"), 4, now_ms=NOW_MS)
    log.write_staged()
    assert asyncio.run(fixture.offsets()) == [*range(7)]
    assert log.local.tail.size_between(6, 7) == log.size_between(6, 7) > 0
    log.append_as_follower(leader_batch(7, epoch=5))
    log.write_staged()
    assert asyncio.run(fixture.offsets()) == [*range(8)]


def test_an_empty_follower_may_begin_anywhere() -> None:
    """LOG-9: the first offset below the log end restarts an empty log there."""
    fixture = LogFixture()
    log = fixture.log
    log.truncate_fully_and_start_at(100)
    log.append_as_follower(leader_batch(40))
    log.write_staged()
    assert (log.log_start_offset, log.log_end_offset) == (40, 41)


def test_a_failing_disk_takes_the_log_offline() -> None:
    """LOG-11: KAFKA_STORAGE_ERROR (56) from then on."""
    fixture = LogFixture()
    log = fixture.log
    fixture.append()
    fixture.disk.fail("append", ".log")
    log.append_as_leader(client_batch(), 0, now_ms=NOW_MS)
    with pytest.raises(LogDirectoryError) as caught:
        log.write_staged()
    assert caught.value.path.startswith(DIRECTORY)
    assert log.is_offline
    refused(ErrorCode.KAFKA_STORAGE_ERROR, log.append_as_leader, client_batch(), 0, now_ms=NOW_MS)
    refused(ErrorCode.KAFKA_STORAGE_ERROR, log.read_nowait, 0, 100, 1)
    refused(ErrorCode.KAFKA_STORAGE_ERROR, log.truncate_to, 0)


def test_a_retired_log_never_blames_the_disk() -> None:
    """A deleted topic's files are gone for a reason: its directory must stay online."""
    fixture = LogFixture(cache_bytes=0)
    fixture.append()
    fixture.log.retire()
    fixture.disk.remove_tree(DIRECTORY)
    for work in (fixture.log.flush(), fixture.log.offset_for_timestamp(0, 1)):
        with pytest.raises(KafkaError) as caught:
            asyncio.run(work)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_delete_records_raises_the_log_start_offset() -> None:
    """SEG-13: up to the high watermark, -1 = high watermark, not in a compacted topic."""
    fixture = LogFixture()
    log = fixture.log
    for _ in range(5):
        fixture.append()
    log.advance_high_watermark(4)
    assert asyncio.run(log.delete_records(2)) == 2
    assert asyncio.run(log.delete_records(1)) == 2
    with pytest.raises(KafkaError) as caught:
        asyncio.run(log.delete_records(5))
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert asyncio.run(log.delete_records(-1)) == 4
    log.update_config(small_config(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(KafkaError) as caught:
        asyncio.run(log.delete_records(4))
    assert caught.value.code == ErrorCode.POLICY_VIOLATION


def test_size_between_is_exact_at_the_tail_and_never_less_below() -> None:
    fixture = LogFixture(cache_bytes=2000)
    sizes = []
    for number in range(30):
        sizes.append(len(client_batch(bytes(100 + number))))
        fixture.append(bytes(100 + number))
    log = fixture.log
    assert log.size_between(29, 30) == sizes[29]
    assert log.size_between(30, 30) == 0
    for start in range(30):
        assert log.size_between(start, 30) >= sum(sizes[start:])


# One append: number of records, size of a value, timestamp step.
APPENDS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 900), st.integers(-3, 50)), min_size=1, max_size=30
)


@settings(deadline=None, max_examples=60)
@given(
    APPENDS,
    st.sampled_from([0, 1500, 1 << 20]),
    st.booleans(),
    st.integers(0, 3000),
    st.data(),
)
def test_log_equals_a_list_of_batches(
    appends: list[tuple[int, int, int]],
    cache_bytes: int,
    is_cold: bool,
    max_bytes: int,
    data: st.DataObject,
) -> None:
    """SEG-5 to SEG-7: any offset, any limit, through the cache, memory or the device."""
    fixture = LogFixture(cache_bytes=cache_bytes)
    fixture.disk.is_cold = is_cold
    timestamp, stored = NOW_MS, []
    for count, size, step in appends:
        timestamp += step
        values = [bytes([len(stored) % 256]) * size for _ in range(count)]
        base = fixture.append(*values, timestamp=timestamp)
        stored.append((base, base + count - 1, timestamp))
    end = fixture.log.log_end_offset
    offset = data.draw(st.integers(0, end))
    limit = data.draw(st.integers(0, end))
    at_least_one = data.draw(st.booleans())
    target = data.draw(st.integers(NOW_MS - 5, timestamp + 5))

    async def scenario() -> None:
        log = fixture.log
        found = await log.read(offset, max_bytes, limit, at_least_one=at_least_one)
        content = concatenated(found.buffers)
        assert len(content) == found.size_bytes
        headers = [header for _, header in iterate_headers(content)]
        readable = [item for item in stored if item[1] >= offset and item[1] < limit]
        if offset < limit:
            assert [h.base_offset for h in headers] == [b[0] for b in readable[: len(headers)]]
        if readable and offset < limit and at_least_one:
            assert headers
        if len(headers) > 1 or not at_least_one:
            assert found.size_bytes <= max_bytes
        by_time = await log.offset_for_timestamp(target, limit)
        expected = next((item for item in stored if item[2] >= target), None)
        if expected is None or expected[0] >= limit:
            assert by_time is None
        else:
            assert by_time is not None
            assert by_time[:2] == (expected[2], expected[0])
        largest = await log.max_timestamp_offset(end)
        assert largest is not None
        assert largest.timestamp == max(item[2] for item in stored)
        assert await fixture.offsets() == list(range(end))

    asyncio.run(scenario())


def test_reads_go_on_behind_a_gap_at_the_end_of_a_segment() -> None:
    """SEG-5: nothing at or after the offset in its segment: the next segment."""
    fixture = LogFixture(cache_bytes=0)
    log = fixture.log
    log.append_as_follower(leader_batch(0))
    log.write_staged()
    log.append_as_follower(leader_batch(10))
    log.roll()
    log.append_as_follower(leader_batch(20))
    log.write_staged()
    # The second batch goes, as compaction would remove it.
    first = log.segments.first
    first.size_bytes = len(leader_batch(0))
    assert asyncio.run(fixture.offsets()) == [0, 20]
    read = log.read_nowait(5, 1000, 21)
    assert read is not None
    assert read_header(read.buffers[0]).base_offset == 20


def test_empty_batches_are_returned() -> None:
    """formats.md 2: a batch emptied by compaction must still be returned to readers."""
    fixture = LogFixture(cache_bytes=0)
    empty = encode_batch([], base_offset=0, last_offset_delta=4, producer_id=3, producer_epoch=0,
                         base_sequence=0, leader_epoch=1)  # fmt: skip
    fixture.log.append_as_follower(empty + leader_batch(5))
    fixture.log.write_staged()
    read = fixture.log.read_nowait(2, 1000, 6)
    assert read is not None
    headers = [header for _, header in iterate_headers(concatenated(read.buffers))]
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers] == [
        (0, 4, 0),
        (5, 5, 1),
    ]
    assert not decode_records(empty)


@pytest.mark.interpreted
def test_a_write_that_ends_half_done_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-10, LOG-11: whatever the reason; what came after it would be lost at the next start."""
    fixture = LogFixture()
    fixture.append(b"kept")
    active = fixture.log.segments.active

    def out_of_memory(*arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(type(active), "note_batch", out_of_memory)
        with pytest.raises(LogDirectoryError):
            fixture.append(b"half")
    refused(ErrorCode.KAFKA_STORAGE_ERROR, fixture.append, b"later")
    log = fixture.reopen_now(was_clean=False)
    assert log.log_end_offset == 2


def test_local_log_start_lies_above_the_log_start_where_segments_are_elsewhere() -> None:
    """KIP-405: what is below it is moved, not out of range; log start and records stay."""
    fixture = LogFixture()
    for _ in range(4):
        fixture.append()
    log = fixture.log
    log.advance_high_watermark(4)
    log.advance_log_start_offset(1)
    assert (log.log_start_offset, log.local_log_start_offset) == (1, 1)
    log.advance_local_log_start_offset(3)
    assert (log.log_start_offset, log.local_log_start_offset) == (1, 3)
    for offset, code in (
        (0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE),
        (2, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE),
        (5, ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        with pytest.raises(KafkaError) as caught:
            log.read_nowait(offset, 1000, 4)
        assert caught.value.code == code
    found = log.read_nowait(3, 1000, 4)
    assert found is not None
    assert found.buffers
    found_by_time = asyncio.run(log.offset_for_timestamp(0, 4))
    assert found_by_time is not None
    assert found_by_time.offset == 3
    log.advance_log_start_offset(4)
    assert (log.log_start_offset, log.local_log_start_offset) == (4, 4)


def test_truncation_below_both_starts_lowers_both() -> None:
    """KIP-405: the local log start is never below the log start, nor above the log end."""
    fixture = LogFixture()
    for _ in range(4):
        fixture.append()
    log = fixture.log
    log.advance_high_watermark(4)
    log.advance_log_start_offset(2)
    log.advance_local_log_start_offset(3)
    log.truncate_to(1)
    assert log.log_start_offset == log.local_log_start_offset == log.log_end_offset == 1
