"""Reads while the disk fails, and while what they read is taken away."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log import local_log
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.local_log import UNSYNCED_SEGMENTS_MAX, LogContext
from barnabas_broker.log.log_reader import INDEXED_SEGMENTS_MAX, IndexCache, TimestampOffset
from barnabas_broker.log.log_reads import COMMITTED_BATCHES_MAX, LogReads, committed
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import LogRead, TailCache
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.log_fixtures import (
    NOW_MS,
    TOPIC_ID,
    TP,
    LogFixture,
    client_batch,
    small_config,
)
from tests.support.in_process_broker import eventually
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_random import SimulatedRandom


class GatedDisk(RealDisk):
    """Real files; what is to run in a thread waits until `gate` is set."""

    def __init__(self) -> None:
        super().__init__(thread_count=1)
        self.gate = asyncio.Event()
        self.waiting_count = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.waiting_count += 1
        await self.gate.wait()
        return await super().run(function, *args, **kwargs)


async def filled_log(disk: GatedDisk, directory: Path, **settings: Any) -> PartitionLog:
    """A log of several closed segments, none of it in the tail cache."""
    directory.mkdir()
    log = PartitionLog.create(
        LogContext(
            disk=disk,
            clock=SimulatedClock(wall_ms=NOW_MS),
            random=SimulatedRandom(1),
            tail_cache=TailCache(0),
            index_cache=IndexCache(),
        ),
        TP,
        TOPIC_ID,
        str(directory),
        small_config(file_delete_delay_ms=0, **settings),
    )
    for _ in range(40):
        log.append_as_leader(client_batch(b"x" * 500), 0, now_ms=NOW_MS)
        log.write_staged()
    log.advance_high_watermark(log.log_end_offset)
    assert len(log.segments) > 3
    return log


def remove_all_but_the_newest(log: PartitionLog) -> int:
    """As retention does; returns how many segments went."""
    gone = log.segments.values()[:-1]
    log.advance_log_start_offset(log.segments.active.base_offset)
    log.segments.remove(gone)
    log.local.removal.remove(gone, 0)
    return len(gone)


async def fewer_open(limit: int) -> None:
    """Files that a flush lets go of are closed when its thread lets go of them, too."""

    async def holds() -> bool:
        return open_descriptors() < limit

    await eventually(holds)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("operation", ["read", "open"])
def test_a_disk_that_fails_under_a_read_takes_its_directory_offline(operation: str) -> None:
    """LOG-11: the reader gets 56 instead of an exception that nobody answers."""
    fixture = LogFixture(small_config(), cache_bytes=0)
    for _ in range(20):
        fixture.append(b"x" * 500)
    fixture.log.segments.first.close()
    failures: list[LogDirectoryError] = []
    fixture.log.local.enter_service(failures.append, lambda removal: None)
    fixture.disk.fail(operation, ".log")

    async def read() -> None:
        await fixture.log.read(0, 100, fixture.log.log_end_offset)

    with pytest.raises(KafkaError) as raised:
        asyncio.run(read())
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1
    assert fixture.log.is_offline


def test_a_read_in_a_thread_survives_the_removal_of_its_segment(tmp_path: Path) -> None:
    """SEG-12: readers that hold the file finish, and the directory stays online."""

    async def main() -> None:
        disk = GatedDisk()
        log = await filled_log(disk, tmp_path / "topic-0")
        reading = asyncio.create_task(LogReads(log.local).read(0, 1000, log.log_end_offset, True))
        while not disk.waiting_count:
            await asyncio.sleep(0)
        remove_all_but_the_newest(log)
        while list((tmp_path / "topic-0").glob("*.deleted")):
            await asyncio.sleep(0.001)
        disk.gate.set()
        found = await reading
        assert found.size_bytes > 500
        assert not log.is_offline
        log.release_files()
        disk.close()

    asyncio.run(main())


def test_a_flush_in_a_thread_survives_the_removal_of_its_segments(tmp_path: Path) -> None:
    """SEG-12: what was removed meanwhile is no fault of the disk, and leaves no file behind."""

    async def main() -> None:
        disk = GatedDisk()
        directory = tmp_path / "topic-0"
        log = await filled_log(disk, directory)
        flushing = asyncio.create_task(log.flush())
        while not disk.waiting_count:
            await asyncio.sleep(0)
        remove_all_but_the_newest(log)
        while list(directory.glob("*.deleted")):
            await asyncio.sleep(0.001)
        disk.gate.set()
        await flushing
        assert not log.is_offline
        assert log.recovery_point == log.log_end_offset
        assert {path.stem for path in directory.glob("*.*index")} == {
            path.stem for path in directory.glob("*.log")
        }
        log.release_files()
        disk.close()

    asyncio.run(main())


@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS - 1])
def test_a_lookup_of_removed_segments_is_to_be_repeated(tmp_path: Path, timestamp: int) -> None:
    """SEG-7, SEG-12: a retriable error, and the directory stays online."""

    async def main() -> None:
        disk = GatedDisk()
        log = await filled_log(disk, tmp_path / "topic-0")
        for segment in log.segments.values()[:-1]:
            segment.close()
            segment.drop_indexes()
            segment.largest_timestamp_offset = -1
        looking = asyncio.create_task(log.offset_for_timestamp(timestamp, log.log_end_offset))
        while not disk.waiting_count:
            await asyncio.sleep(0)
        remove_all_but_the_newest(log)
        while list((tmp_path / "topic-0").glob("*.deleted")):
            await asyncio.sleep(0.001)
        disk.gate.set()
        with pytest.raises(KafkaError) as raised:
            await looking
        assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not log.is_offline
        log.release_files()
        disk.close()

    asyncio.run(main())


def test_retention_gives_way_to_what_removes_segments_meanwhile(tmp_path: Path) -> None:
    """SEG-10: compaction of the same log may swap segments while retention looks at them."""

    async def main() -> None:
        disk = GatedDisk()
        log = await filled_log(disk, tmp_path / "topic-0", retention_ms=1)
        for segment in log.segments.values()[:-1]:
            segment.largest_timestamp_offset = -1
        retaining = asyncio.create_task(log.delete_old_segments(NOW_MS))
        while not disk.waiting_count:
            await asyncio.sleep(0)
        remove_all_but_the_newest(log)
        while list((tmp_path / "topic-0").glob("*.deleted")):
            await asyncio.sleep(0.001)
        disk.gate.set()
        assert await retaining == 0
        assert not log.is_offline
        log.release_files()
        disk.close()

    asyncio.run(main())


def test_closed_logs_hold_no_descriptor(tmp_path: Path) -> None:
    """NET-13's rule for files: what was opened is closed."""

    async def main() -> None:
        before = open_descriptors()
        disk = GatedDisk()
        disk.gate.set()
        log = await filled_log(disk, tmp_path / "topic-0")
        await LogReads(log.local).read(0, 1000, log.log_end_offset, True)
        await log.flush()
        await log.close()
        disk.close()
        assert open_descriptors() == before

    asyncio.run(main())


@pytest.mark.parametrize("end", ["closed", "retired", "failed"])
def test_very_many_segments_have_few_files_open(tmp_path: Path, end: str) -> None:
    """A client makes a segment with each batch where it may: descriptors are not without end.

    A log that is gone is not counted any more.
    """

    async def main() -> None:
        disk = GatedDisk()
        log = await filled_log(disk, tmp_path / "topic-0", segment_ms=1)
        before = open_descriptors()
        for number in range(2 * UNSYNCED_SEGMENTS_MAX):
            batch = client_batch(timestamp=NOW_MS + 5 * number)
            log.append_as_leader(batch, 0, now_ms=NOW_MS)
            log.write_staged()
        log.advance_high_watermark(log.log_end_offset)
        await fewer_open(before + UNSYNCED_SEGMENTS_MAX + 10)
        disk.gate.set()
        await log.flush()
        # What was put off is done after it: there are more segments than files may be open.
        for number in range(UNSYNCED_SEGMENTS_MAX):
            batch = client_batch(timestamp=NOW_MS + 50_000 + 5 * number)
            log.append_as_leader(batch, 0, now_ms=NOW_MS)
            log.write_staged()
        await log.flush()
        log.advance_high_watermark(log.log_end_offset)
        assert len(log.segments) > 1.5 * INDEXED_SEGMENTS_MAX
        for offset in range(log.log_end_offset):
            await log.read(offset, 1000, log.log_end_offset)
        await fewer_open(before + INDEXED_SEGMENTS_MAX + 10)
        for segment in log.segments.values():
            segment.close()
            segment.drop_indexes()
            segment.largest_timestamp_offset = -1
        await log.offset_for_timestamp(NOW_MS + 50_001, log.log_end_offset)
        await log.max_timestamp_offset(log.log_end_offset)
        await fewer_open(before + 10)
        log.append_as_leader(client_batch(timestamp=NOW_MS + 90_000), 0, now_ms=NOW_MS)
        log.append_as_leader(client_batch(timestamp=NOW_MS + 90_005), 0, now_ms=NOW_MS)
        log.write_staged()
        cache = log.local.index_cache
        assert cache.unsynced
        if end == "failed":
            log.local.fail(log.directory, OSError(errno.ENOSPC, "full"))
        elif end == "retired":
            log.local.retire()
            log.flushing.flush_left(log.segments.active)
            log.release_files()
        else:
            await log.close()
        assert not cache.unsynced
        disk.close()

    asyncio.run(main())


@pytest.mark.parametrize("was_cut", [False, True])
def test_segments_that_no_flush_is_on_its_way_for_keep_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, was_cut: bool
) -> None:
    """SEG-1: a crash, or a new leader, leaves logs that nobody may write to, and flush, for long.

    More than 500 of them had every full segment of the broker go on, up to 2 GiB.
    """
    monkeypatch.setattr(local_log, "UNSYNCED_SEGMENTS_MAX", 0)
    fixture = LogFixture()

    async def main() -> None:
        for _ in range(12):
            fixture.append(b"x" * 700)
        await fixture.log.flush()
        if was_cut:
            await fixture.log.truncate(6)
        else:
            await fixture.reopen(was_clean=False)
        count = len(fixture.log.segments)
        for _ in range(12):
            fixture.append(b"x" * 700)
        assert len(fixture.log.segments) > count

    asyncio.run(main())


def append_aborted(log: PartitionLog, producer_id: int, timestamp: int = NOW_MS) -> None:
    """A transaction of one record, and its marker."""
    log.append_as_leader(
        client_batch(
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        ),
        0,
        now_ms=NOW_MS,
    )
    marker = encode_marker(
        ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp=timestamp,
    )
    log.append_as_leader(marker, 0, internal=True, now_ms=NOW_MS)
    log.write_staged()
    log.advance_high_watermark(log.log_end_offset)


def test_aborted_transactions_of_closed_segments_hold_no_descriptor(tmp_path: Path) -> None:
    async def main() -> None:
        disk = GatedDisk()
        disk.gate.set()
        log = await filled_log(disk, tmp_path / "topic-0", segment_ms=1)
        await log.flush()
        before = open_descriptors()
        for number in range(20):
            append_aborted(log, number, NOW_MS + 50_000 + 5 * number)
        await log.flush()
        assert len(log.aborted_transactions(0, log.log_end_offset)) == 20
        await fewer_open(before + 5)
        await log.close()
        disk.close()

    asyncio.run(main())


def test_a_reader_hears_of_the_aborted_transactions_in_what_it_reads() -> None:
    """TXL-7: of very many, those behind it would be told again and again."""
    fixture = LogFixture(cache_bytes=0)
    log = fixture.log
    for number in range(10):
        append_aborted(log, number)

    async def main() -> None:
        for offset in range(0, 20, 2):
            read, aborted = await log.read_with_aborted(offset, 1, log.log_end_offset)
            assert aborted == [(offset // 2, offset)]
            assert read.size_bytes == sum(map(len, read.buffers))

    asyncio.run(main())
    assert log.aborted_transactions(0, 0) == []


def test_a_reader_of_committed_records_gets_some_batches_at_a_time() -> None:
    batches = [bytes(client_batch(b"v")) for _ in range(COMMITTED_BATCHES_MAX + 10)]
    stamped = [number.to_bytes(8, "big") + one[8:] for number, one in enumerate(batches)]
    size = len(batches[0])
    several = b"".join(stamped)
    for buffers in (list(stamped), [several], [stamped[0], several[size:]]):
        read, end_offset = committed(LogRead(list(buffers), len(several)))
        assert end_offset == COMMITTED_BATCHES_MAX
        assert read.size_bytes == COMMITTED_BATCHES_MAX * size
        assert b"".join(bytes(one) for one in read.buffers) == several[: read.size_bytes]
    cut = several[: 3 * size + 65]
    read, end_offset = committed(LogRead([cut], len(cut)))
    assert (end_offset, read.size_bytes) == (3, len(cut))
    assert committed(LogRead([], 0))[1] == 0


def test_a_follower_finds_no_timestamp_in_a_batch_that_compaction_has_emptied() -> None:
    """SEG-7: it keeps its largest timestamp, but no look-up finds a record there."""
    fixture = LogFixture(small_config(index_interval_bytes=1))
    kept = encode_batch([Record(0, NOW_MS, b"k", b"v", ())], leader_epoch=0)
    emptied = [
        encode_batch(
            [], base_offset=o, leader_epoch=0, last_offset_delta=0, max_timestamp=NOW_MS + o
        )
        for o in (1, 2)
    ]
    fixture.log.append_as_follower(b"".join([kept, *emptied]))
    fixture.log.write_staged()

    async def newest() -> TimestampOffset | None:
        return await fixture.log.max_timestamp_offset(3)

    assert asyncio.run(newest()) == TimestampOffset(NOW_MS, 0, 0)
    asyncio.run(fixture.log.flush())
    written = fixture.files(".index", ".timeindex")
    fixture.reopen_now(was_clean=False)
    asyncio.run(fixture.log.flush())
    assert fixture.files(".index", ".timeindex") == written
