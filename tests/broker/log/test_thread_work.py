"""What a thread does for a log it does to that log, whatever the loop renames meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_broker.log.errors import SegmentRenamedError
from barnabas_broker.log.layout import INDEX_SUFFIX
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.recovery.segment_recovery import (
    load_checked_indexes,
    read_largest_timestamp,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from tests.broker.log.cleaner_fixtures import Bench, compacted, contents, put, seal
from tests.broker.log.log_fixtures import NOW_MS, LogFixture, client_batch, small_config
from tests.support.simulated_disk import SimulatedDisk, SimulatedFile

OLD, NEW = bytes(range(16)), bytes(range(1, 17))
CONFIG = small_config(retention_ms=-1, segment_bytes=1 << 30)


class StoppingDisk(SimulatedDisk):
    """Threads stand still before they begin, while `gate` is closed."""

    gate: asyncio.Event | None = None
    waiting = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
        return await super().run(function, *args, **kwargs)


class MeddlingDisk(SimulatedDisk):
    """Does something else just before a file is opened, as the loop may while a thread does."""

    meddle: Callable[[], None] | None = None
    part = ""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        if self.meddle is not None and path.endswith(self.part):
            meddle, self.meddle = self.meddle, None
            meddle()
        return super().open(path, create=create, read_only=read_only)


def append(log: PartitionLog, epoch: int, count: int, size: int) -> None:
    for _ in range(count):
        log.append_as_leader(client_batch(bytes(size)), epoch, now_ms=NOW_MS)
        log.write_staged()


def files_of(disk: SimulatedDisk, folder: str) -> dict[str, bytes]:
    return {name: disk.read_bytes(f"{folder}/{name}") for name in disk.list_directory(folder)}


@pytest.mark.parametrize("work", ["flush", "checkpoint"])
def test_a_thread_of_a_deleted_topic_leaves_the_one_made_anew_alone(work: str) -> None:
    disk = StoppingDisk()
    bench = Bench(disk)

    async def scenario() -> None:
        old = await bench.open(CONFIG)
        name = old.topic_partition
        directory = bench.manager.directory_of(old)
        for epoch in range(3):
            append(old, 3 + epoch, 30, 300)
        if work == "checkpoint":
            await old.flush()
            append(old, 7, 30, 300)
            await old.flush()
        disk.gate = asyncio.Event()
        checkpointing = bench.manager.checkpointing
        running = asyncio.create_task(
            old.flush() if work == "flush" else checkpointing.write_recovery_points(directory)
        )
        while not disk.waiting:
            await asyncio.sleep(0)
        await bench.manager.delete(name)
        new = bench.manager.create(name, NEW, CONFIG)
        assert new.directory != old.directory
        append(new, 0, 60, 1000)
        gate, disk.gate = disk.gate, None
        await new.flush()
        before = files_of(disk, new.directory)
        gate.set()
        await asyncio.wait([running])
        assert not isinstance(running.exception(), OSError)
        assert files_of(disk, new.directory) == before
        assert not bench.manager.directories[0].is_offline

    asyncio.run(scenario())


async def replaced_while_opened(
    read: Callable[[PartitionLog], object], part: str
) -> tuple[PartitionLog, dict[str, bytes], MeddlingDisk]:
    """A closed segment of a log is replaced by another of its name while `read` opens files."""
    disk = MeddlingDisk()
    bench = Bench(disk)
    log = await bench.open(compacted(segment_bytes=1 << 30, index_interval_bytes=64))
    for number in range(40):
        put(log, (b"k%d" % (number % 3), bytes(100)), timestamp=1000 + number)
    await seal(log)
    for number in range(4):
        put(log, (b"k%d" % (number % 3), bytes(100)), timestamp=2000 + number)
    await log.flush()
    old = log.segments.first
    old.drop_indexes()
    old.release_file()
    old.largest_timestamp_offset = -1

    def swap() -> None:
        """As compaction does it: the names of one go to another."""
        log.local.removal.remove([old], 0)
        for suffix in (".log", ".index", ".timeindex"):
            file = SimulatedDisk.open(disk, f"{log.directory}/{0:020d}{suffix}", create=True)
            file.append([b"another segment's" * 8])

    disk.part, disk.meddle = part, swap
    with pytest.raises(SegmentRenamedError):
        read(log)
    assert disk.meddle is None
    return log, files_of(disk, log.directory), disk


@pytest.mark.parametrize("part", [".timeindex", ".index"])
def test_indexes_are_not_read_from_the_segment_that_took_the_place(part: str) -> None:
    """Nor are they made anew in its files."""

    async def scenario() -> None:
        segment = {}

        def read(log: PartitionLog) -> object:
            segment["old"] = log.segments.first
            return load_checked_indexes(log.segments.first, 64)

        _, files, _ = await replaced_while_opened(read, part)
        for suffix in (".log", ".index", ".timeindex"):
            assert files[f"{0:020d}{suffix}"] == b"another segment's" * 8
        offset_index, _ = load_checked_indexes(segment["old"], 64)
        assert offset_index.count > 20

    asyncio.run(scenario())


def test_retention_does_not_read_the_end_of_another_segment() -> None:
    async def scenario() -> None:
        segment = {}

        def read(log: PartitionLog) -> object:
            segment["old"] = log.segments.first
            return read_largest_timestamp(log.segments.first, 64)

        await replaced_while_opened(read, ".timeindex")
        assert read_largest_timestamp(segment["old"], 64) == 1039

    asyncio.run(scenario())


def test_indexes_are_not_made_anew_in_the_files_of_another_segment() -> None:
    async def scenario() -> None:
        def read(log: PartitionLog) -> object:
            log.disk.remove(log.segments.first.path(INDEX_SUFFIX))
            disk = log.disk
            assert isinstance(disk, MeddlingDisk)
            meddle, disk.meddle = disk.meddle, None
            opened = disk.open

            def open_late(path: str, *, create: bool = False, read_only: bool = False) -> Any:
                if create and path.endswith(".index"):
                    disk.meddle = meddle
                return opened(path, create=create, read_only=read_only)

            disk.open = open_late  # type: ignore[method-assign]
            return load_checked_indexes(log.segments.first, 64)

        _, files, _ = await replaced_while_opened(read, ".index")
        assert files[f"{0:020d}.index"] == b"another segment's" * 8

    asyncio.run(scenario())


@pytest.mark.parametrize("change", ["cut", "retention"])
def test_a_compaction_that_was_overtaken_does_not_come_back(change: str) -> None:
    """Its output is complete when the log is cut; the process is killed before it is dropped."""
    disk = StoppingDisk()
    bench = Bench(disk)
    settings = compacted(segment_bytes=2048, index_interval_bytes=64)

    async def scenario() -> None:
        log = await bench.open(settings)
        for number in range(60):
            put(log, (b"k%d" % (number % 3), bytes(100)))
        await log.flush()
        cleaning = asyncio.create_task(bench.manager.cleaner.clean_once())
        while not log.local.has_completed_output:
            await asyncio.sleep(0)
        disk.gate = asyncio.Event()  # the cleaner's thread gets no further
        if change == "cut":
            log.truncate_to(5)
            for number in range(20):
                put(log, (b"new%d" % number, bytes(100)))
        else:
            log.advance_log_start_offset(40)
            gate, disk.gate = disk.gate, None
            log.local.drop_completed_output()
            gone = [s for s in log.segments.values() if s.base_offset < 30]
            log.segments.remove(gone)
            log.local.removal.remove(gone, 0)
            disk.gate = gate
        before = contents(log)
        for directory in bench.manager.directories:
            directory.close()
        cleaning.cancel()
        disk.gate = None
        bench.manager = bench.new_manager()
        again = await bench.open(settings)
        assert contents(again) == before
        await asyncio.wait([cleaning])

    asyncio.run(scenario())


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "offline")]
)
def test_a_log_that_cannot_be_closed_does_not_end_the_shutdown(error: Exception) -> None:
    """The other logs are closed and the checkpoints written; a bug leaves no clean marker."""
    bench = Bench()

    async def scenario() -> None:
        await bench.open(CONFIG)
        names = [bench.manager.create(p, NEW, CONFIG) for p in _partitions(3)]
        for log in names:
            append(log, 0, 3, 100)

        async def fail() -> None:
            raise error

        names[1].close = fail  # type: ignore[method-assign]
        await bench.manager.close(7)
        directory = bench.manager.directories[0]
        assert names[0].local.is_closed
        assert names[2].local.is_closed
        assert directory.marker.exists() == isinstance(error, KafkaError)
        assert directory.recovery_points.read()[names[2].topic_partition] == 3

    asyncio.run(scenario())


def _partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("other", number) for number in range(count)]


def test_a_fixture_log_can_be_renamed_while_it_is_used() -> None:
    fixture = LogFixture()

    async def scenario() -> None:
        for _ in range(12):
            fixture.append(bytes(900))
        await fixture.log.flush()
        fixture.log.rename_directory("/logs/other-0")
        fixture.append(bytes(900))
        assert await fixture.offsets() == list(range(13))
        assert (await fixture.log.max_timestamp_offset(13)) is not None
        await fixture.log.close()

    asyncio.run(scenario())


def test_a_manager_that_is_closed_while_it_loads_waits_for_a_flush_of_the_metadata_log() -> None:
    """The metadata log is written before any directory is loaded, and a stop may come then."""
    disk = StoppingDisk()
    name = TopicPartition("__cluster_metadata", 0)

    async def scenario() -> None:
        manager = Bench(disk).manager
        log = await manager.load_partition(name, OLD, CONFIG)
        append(log, 1, 1, 10)
        disk.gate = asyncio.Event()
        log.start_flush()
        while not disk.waiting:
            await asyncio.sleep(0)
        closing = asyncio.create_task(manager.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        disk.gate.set()
        await closing
        assert log.recovery_point == log.log_end_offset

    asyncio.run(scenario())
