"""What compaction keeps and what it drops."""

import asyncio
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.log.cleaner.offset_map import OffsetMap
from barnabas_protocol.records.control import ControlType
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.broker.log.cleaner_fixtures import (
    DAY_MS,
    Bench,
    batches,
    compacted,
    contents,
    mark,
    newest,
    offsets,
    put,
    seal,
)


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


def test_a_tombstone_and_a_marker_stay_while_a_replica_may_lack_them():
    """REC-8: a replica that comes back later would have the value for good, and may lead."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), (b"b", b"1"))
        put(log, (b"a", None))
        put(log, (b"c", b"3"), producer=(5, 0, 0), is_transactional=True)
        mark(log, 5, ControlType.ABORT)
        put(log, (b"d", b"5"), producer=(5, 0, 1))
        for advance_ms, is_whole, expected in (
            (0, False, [1, 2, 4]),
            (DAY_MS, False, [1, 2, 4]),
            (DAY_MS, False, [1, 2, 4]),
            (0, True, [1]),
        ):
            bench.clock.advance(advance_ms)
            bench.manager.is_whole = lambda topic_partition, is_whole=is_whole: is_whole
            put(log, (b"z", b"x"))
            await seal(log)
            assert await bench.manager.cleaner.clean_once()
            found = [record.offset for _, records in batches(log) for record in records]
            assert [offset for offset in found if offset < 5] == expected

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


@pytest.mark.interpreted
def test_the_last_committed_batch_of_a_producer_stays_where_later_ones_may_be_cut():
    """REC-9: the leader of another epoch has fewer, and the next sequence is known all the same."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"), producer=(5, 2, 0))
        put(log, (b"a", b"1"))
        await seal(log)
        committed = log.high_watermark
        with patch.object(log, "advance_high_watermark"):  # no follower has the rest
            put(log, (b"b", b"2"), producer=(5, 2, 1))
            await seal(log)
        assert log.high_watermark == committed
        assert await bench.manager.cleaner.clean_once()
        for offset in list(log.snapshots.offsets):
            log.snapshots.remove(offset)
        log.truncate_to(committed)
        assert log.producer_state.producers[5].last_sequence == 0

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


def test_a_gap_before_an_open_transaction_is_not_what_a_round_fails_on():
    """REC-11: a follower has it from a leader that was compacted; the log is not left alone."""

    async def main():
        bench = Bench()
        log = await bench.open()
        put(log, (b"a", b"0"))
        await seal(log)
        opened = encode_batch(
            [Record(40, 1, b"a", b"40")],
            base_offset=40,
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
            leader_epoch=0,
            is_transactional=True,
        )
        log.append_as_follower(opened)
        log.write_staged()
        log.advance_high_watermark(41)
        await seal(log)
        for _ in range(3):
            await bench.manager.cleaner.clean_once()
        assert bench.manager.cleaner.uncleanable == {}
        mark(log, 5, ControlType.COMMIT)
        await seal(log)
        assert await bench.manager.cleaner.clean_once()
        assert contents(log) == [(40, b"a", b"40")]

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
