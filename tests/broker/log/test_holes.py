"""Offsets that are missing between two segments: compaction's holes, and ends that were lost."""

import asyncio
import dataclasses
from typing import Any

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.disk import DiskDirectory
from barnabas_broker.log.checkpoints import decode
from barnabas_broker.log.cleaner.log_cleaner import LogCleaner
from barnabas_broker.log.holes import HOLES_FILE, UNSYNCED_HOLES_FILE, Holes
from barnabas_broker.log.import_directory import import_partition, inspect_partition
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.truncation_note import TRUNCATION_FILE
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import NAME, TOPIC_ID, Bench, compacted, contents, put
from tests.broker.log.log_fixtures import DIRECTORY, NOW_MS, SMALL, LogFixture, config
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

FAR = 3_000_000_000
SETTINGS = compacted(segment_bytes=4096, index_interval_bytes=512)
DELETE = dataclasses.replace(
    LogConfig.build({}, {"retention.ms": "-1"}), segment_bytes=4096, index_interval_bytes=512
)


async def compacted_log(bench: Bench) -> None:
    """A log with holes between its segments, of which the checkpoint knows little."""
    log = await bench.open(SETTINGS)
    directory = bench.manager.directory_of(log)
    for number in range(20):
        put(log, (b"k%d" % (number % 3), bytes(200)))
    await log.flush()
    await bench.manager.checkpointing.write_recovery_points(directory)
    for number in range(100):
        put(log, (b"k%d" % (number % 3), bytes(200)))
    await log.flush()
    await bench.manager.cleaner.clean_once()


def kill(bench: Bench) -> None:
    for directory in bench.manager.directories:
        directory.close()
    bench.manager = bench.new_manager()


@pytest.mark.parametrize("checkpoint", ["old", "broken"])
@pytest.mark.parametrize("cleaner_checkpoint", ["there", "lost"])
def test_holes_of_compaction_stay_holes_under_another_policy(
    checkpoint: str, cleaner_checkpoint: str
) -> None:
    async def scenario() -> None:
        bench = Bench()
        await compacted_log(bench)
        log = bench.manager.logs[NAME]
        directory = bench.manager.directory_of(log)
        log.update_config(DELETE)
        for number in range(50):
            put(log, (b"n%d" % number, bytes(200)))
        await log.flush()
        before = contents(log)
        kill(bench)
        if checkpoint == "broken":
            bench.disk.open(directory.recovery_points.path).write_at(b"garbage", 0)
        if cleaner_checkpoint == "lost":
            bench.disk.remove(directory.cleaner_offsets.path)
        assert contents(await bench.open(DELETE)) == before

    asyncio.run(scenario())


def test_an_end_that_is_not_flushed_is_no_hole_that_a_round_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 506534 of the log's histories: a power cut took it, and the log did not end there."""

    async def not_now(self: PartitionLog) -> None:
        """A flush that fails, or that has begun before segments were added."""

    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(SETTINGS)
        for number in range(60):
            put(log, (b"k%d" % (number % 3), bytes(200)))
        await log.flush()
        flushed = log.log_end_offset
        for number in range(60):
            put(log, (b"k%d" % (number % 3), bytes(200)))
        assert log.segments.active.base_offset > flushed
        monkeypatch.setattr(PartitionLog, "flush", not_now)
        assert await bench.manager.cleaner.clean_once()
        assert 0 < log.local.holes.below <= flushed

    asyncio.run(scenario())


def test_a_log_that_an_earlier_release_compacted_has_no_note() -> None:
    """The cleaner's own checkpoint says how far it has been."""

    async def scenario() -> None:
        bench = Bench()
        await compacted_log(bench)
        log = bench.manager.logs[NAME]
        bench.disk.remove(f"{log.directory}/{HOLES_FILE}")
        before = contents(log)
        kill(bench)
        assert contents(await bench.open(DELETE)) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("settings", [DELETE, SETTINGS])
def test_a_lost_end_is_no_hole(settings: LogConfig) -> None:
    """Whole batches are missing at the end of a segment: what comes behind them goes too."""

    async def scenario() -> None:
        bench = Bench()
        await compacted_log(bench)
        log = bench.manager.logs[NAME]
        for _ in range(60):
            put(log, (b"k", bytes(200)))
        noted = log.local.holes.below
        victim = next(s for s in log.segments.values()[:-1] if s.base_offset >= noted)
        position = victim.offset_index.last()[1] if victim.offset_index else 0
        assert position
        bench.disk.open(victim.log_path).truncate(position)
        following = log.segments.after(victim)
        assert following is not None
        kill(bench)
        log = await bench.open(settings)
        assert log.segments.active.base_offset == victim.base_offset
        assert log.log_end_offset < following.base_offset

    asyncio.run(scenario())


def test_a_cut_takes_the_note_back() -> None:
    async def scenario() -> None:
        bench = Bench()
        await compacted_log(bench)
        log = bench.manager.logs[NAME]
        assert log.local.holes.below > 30
        await log.truncate(30)
        assert Holes.load(bench.disk, log.directory, 0).below == 30

    asyncio.run(scenario())


def test_a_note_that_cannot_be_read_allows_holes_anywhere() -> None:
    async def scenario() -> None:
        bench = Bench()
        await compacted_log(bench)
        log = bench.manager.logs[NAME]
        before = contents(log)
        bench.disk.open(f"{log.directory}/{HOLES_FILE}").write_at(b"garbage", 0)
        kill(bench)
        assert contents(await bench.open(DELETE)) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("first", [[], [0, 1]])
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_gap_wider_than_a_segment_can_be_followed(first: list[int], policy: str) -> None:
    """As in a `__consumer_offsets` after 2^31 commits, of which few were not compacted away."""
    fixture = LogFixture(config({"cleanup.policy": policy}, **SMALL))

    async def scenario() -> None:
        offsets = [*first, *range(FAR, FAR + 40)]
        for offset in offsets:
            records = [Record(offset, 1, b"key", bytes(200))]
            batch = encode_batch(records, base_offset=offset, leader_epoch=0)
            fixture.log.append_as_follower(batch)
            fixture.log.write_staged()
        assert await fixture.offsets() == offsets
        fixture.log.release_files()
        await fixture.reopen(was_clean=False)
        assert await fixture.offsets() == offsets
        await fixture.log.flush()
        point = fixture.log.recovery_point
        fixture.disk.crash(keep_some=False)
        await fixture.reopen(was_clean=False, recovery_point=point)
        assert await fixture.offsets() == offsets

    asyncio.run(scenario())


def follow(fixture: LogFixture, *offsets: int) -> None:
    for offset in offsets:
        records = [Record(offset, 1, b"key", b"value")]
        batch = encode_batch(records, base_offset=offset, leader_epoch=0)
        fixture.log.append_as_follower(batch)
        fixture.log.write_staged()


@pytest.mark.parametrize("bit", [2, 8, 25, 33, 62])
def test_a_damaged_base_offset_is_no_gap_after_a_power_cut(bit: int) -> None:
    """Stories 78 and 3001258 of the clusters: no checksum covers it; what is behind it was cut."""
    fixture = LogFixture()
    for _ in range(4):
        fixture.append(b"value")
    damaged = bytearray(fixture.file("00000000000000000000.log"))
    position = 2 * (len(damaged) // 4)
    base_offset = int.from_bytes(damaged[position : position + 8], "big") | 1 << bit
    damaged[position : position + 8] = base_offset.to_bytes(8, "big")
    segment = fixture.log.segments.active
    segment.file.write_at(bytes(damaged), 0)

    async def scenario() -> None:
        await fixture.reopen(was_clean=False, is_page_cache_lost=True)
        assert await fixture.offsets() == [0, 1]
        assert fixture.log.log_end_offset == 2

    asyncio.run(scenario())


GAPS = [0, 1, 5, 6, 40]


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("is_page_cache_lost", [False, True])
def test_gaps_that_were_followed_stay_unless_a_power_cut_came_before_their_flush(
    is_page_cache_lost: bool, is_flushed: bool
) -> None:
    """A kill takes nothing; the recovery point in the checkpoint may be older than the flush."""
    fixture = LogFixture()

    async def scenario() -> None:
        follow(fixture, *GAPS[:3])
        await fixture.log.flush()
        follow(fixture, *GAPS[3:])
        if is_flushed:
            await fixture.log.flush()
        await fixture.reopen(was_clean=False, is_page_cache_lost=is_page_cache_lost)
        is_kept = is_flushed or not is_page_cache_lost
        assert await fixture.offsets() == (GAPS if is_kept else GAPS[:4])

    asyncio.run(scenario())


def test_a_gap_that_a_killed_process_left_is_noted_by_the_next_flush() -> None:
    """Seed 1400311 of the log's histories: the process that flushed it had not followed it."""
    fixture = LogFixture()
    follow(fixture, *GAPS)

    async def scenario() -> None:
        await fixture.reopen(was_clean=False)
        await fixture.log.flush()
        await fixture.reopen(was_clean=False, is_page_cache_lost=True)
        assert await fixture.offsets() == GAPS

    asyncio.run(scenario())


def test_a_gap_that_a_follower_staged_is_noted_though_it_leads_when_it_is_written() -> None:
    """Nothing makes the log write what is staged when it is led from now on."""
    fixture = LogFixture()

    async def scenario() -> None:
        for offset in (0, 40):
            records = [Record(offset, NOW_MS, b"key", b"value")]
            batch = encode_batch(records, base_offset=offset, leader_epoch=0)
            fixture.log.append_as_follower(batch)
        fixture.append(b"led", epoch=1)
        await fixture.log.flush()
        await fixture.reopen(was_clean=False, is_page_cache_lost=True)
        assert await fixture.offsets() == [0, 40, 41]

    asyncio.run(scenario())


def test_a_gap_that_was_cut_off_again_is_not_noted() -> None:
    fixture = LogFixture()

    async def scenario() -> None:
        follow(fixture, 0, 1, 40)
        fixture.log.truncate_to(2)
        follow(fixture, 2, 3)
        await fixture.log.flush()
        follow(fixture, 30)
        await fixture.reopen(was_clean=False, is_page_cache_lost=True)
        assert await fixture.offsets() == [0, 1, 2, 3]

    asyncio.run(scenario())


@pytest.mark.parametrize("end", [41, 42, 70, 71])
def test_a_gap_below_a_cut_is_noted_by_the_flush_after_it(end: int) -> None:
    """Seed 7000886 of the log's histories: what was flushed went with the power."""
    fixture = LogFixture()

    async def scenario() -> None:
        follow(fixture, 0, 1, 40, 41, 70, 71)
        fixture.log.truncate_to(end)
        await fixture.log.settle_cut()
        await fixture.log.flush()
        await fixture.reopen(was_clean=False, is_page_cache_lost=True)
        assert await fixture.offsets() == [o for o in (0, 1, 40, 41, 70) if o < end]

    asyncio.run(scenario())


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_torn_note_of_a_cut_makes_no_damage_of_gaps_that_were_flushed(policy: str) -> None:
    """Of a log that has no note of gaps, as an earlier release left it: all behind them was cut."""
    fixture = LogFixture(config({"cleanup.policy": policy}, **SMALL))

    async def scenario() -> None:
        follow(fixture, 0, 1, 40, 41)
        await fixture.log.flush()
        fixture.disk.remove(f"{DIRECTORY}/{HOLES_FILE}")
        follow(fixture, 42)
        fixture.log.truncate_to(42)
        fixture.disk.open(f"{DIRECTORY}/{TRUNCATION_FILE}").truncate(1)
        await fixture.reopen(was_clean=False, recovery_point=42, is_page_cache_lost=True)
        assert await fixture.offsets() == [0, 1, 40, 41]

    asyncio.run(scenario())


def test_a_gap_that_a_killed_process_noted_is_noted_on_the_device_by_the_next_flush() -> None:
    """The note was in the page cache only; the recovery point passes the gap."""
    fixture = LogFixture()
    follow(fixture, 0, FAR)

    async def scenario() -> None:
        await fixture.reopen(was_clean=False)
        await fixture.log.flush()
        point = fixture.log.recovery_point
        fixture.disk.crash(keep_some=False)
        await fixture.reopen(was_clean=False, recovery_point=point)
        assert await fixture.offsets() == [0, FAR]

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_torn_note_of_a_gap_makes_no_hole_of_a_lost_end(size: int) -> None:
    """A power cut tears what was noted on the loop, and takes a batch that was not flushed."""
    fixture = LogFixture()
    follow(fixture, 0, FAR)
    gap = fixture.log.segments.active
    fixture.log.roll()
    follow(fixture, FAR + 1)
    fixture.disk.open(f"{DIRECTORY}/{UNSYNCED_HOLES_FILE}").truncate(size)
    fixture.disk.open(gap.log_path).truncate(0)

    async def scenario() -> None:
        await fixture.reopen(was_clean=False)
        assert await fixture.offsets() == [0]
        assert fixture.log.log_end_offset == 1

    asyncio.run(scenario())


def lose_the_end(fixture: LogFixture) -> None:
    """A power cut takes a batch that was not flushed, and keeps all that was written after it."""
    fixture.append(b"lost")
    lost, size = fixture.log.segments.active, fixture.log.segments.active.size_bytes
    fixture.append(b"lost")
    follow(fixture, FAR)
    lost.file.truncate(size)


def test_a_note_of_another_boot_makes_no_hole_of_a_lost_end() -> None:
    """Seed 816178 of the log's histories: the note lived, what had been written before did not."""
    fixture = LogFixture()
    lose_the_end(fixture)
    for name in fixture.disk.list_directory(DIRECTORY):
        fixture.disk.open(f"{DIRECTORY}/{name}").sync()
    fixture.disk.sync_directory(DIRECTORY)
    fixture.disk.crash(keep_some=False)

    async def scenario() -> None:
        await fixture.reopen(was_clean=False)
        assert await fixture.offsets() == [0]
        assert fixture.log.log_end_offset == 1

    asyncio.run(scenario())


def noted_on_device(fixture: LogFixture) -> int:
    path = f"{DIRECTORY}/{HOLES_FILE}"
    if not fixture.disk.exists(path):
        return 0
    ((offset,),) = decode(path, fixture.disk.read_bytes(path), 1)
    return int(offset)


def test_a_flush_that_began_before_a_gap_leaves_its_note_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 824566: in front of the gap was a batch that this flush did not sync."""
    fixture = LogFixture()
    noted: list[tuple[int, int]] = []
    flush = Holes.flush

    def watched(self: Holes, folder: DiskDirectory, below: int) -> None:
        if not noted:
            follow(fixture, 1, FAR)  # on the loop, while the thread is at its segments
        flush(self, folder, below)
        noted.append((self.below, noted_on_device(fixture)))

    monkeypatch.setattr(Holes, "flush", watched)
    fixture.append(b"flushed")

    async def scenario() -> None:
        await fixture.log.flush(1)
        assert noted[0][0] > 1 >= noted[0][1]
        assert Holes.load(fixture.disk, DIRECTORY, 0).below == noted[0][0]  # a kill finds it
        await fixture.log.flush()
        assert noted[-1][0] == noted[-1][1] > 1

    asyncio.run(scenario())


def test_an_older_note_in_the_page_cache_does_not_come_back() -> None:
    """It would forbid holes that compaction made since, and cost all that comes behind them."""
    fixture = LogFixture(config({"cleanup.policy": "compact"}, **SMALL))
    follow(fixture, 0, FAR)

    async def scenario() -> None:
        await fixture.log.flush()
        folder = fixture.disk.open_directory(DIRECTORY)
        fixture.log.local.holes.allow(2 * FAR)
        await fixture.disk.run(fixture.log.local.holes.flush, folder, 2 * FAR)
        fixture.disk.crash(keep_some=False)
        assert Holes.load(fixture.disk, DIRECTORY, 0).below == 2 * FAR

    asyncio.run(scenario())


def test_a_compacted_log_is_imported_with_its_holes() -> None:
    """Though the topic that it gets here is not compacted."""

    async def scenario() -> None:
        bench = Bench()
        await compacted_log(bench)
        log = bench.manager.logs[NAME]
        before = contents(log)
        await bench.manager.close()
        disk = bench.disk
        disk.rename(log.directory, f"/{log.directory.rpartition('/')[2]}")
        disk.remove(f"/{log.directory.rpartition('/')[2]}/{HOLES_FILE}")
        found = inspect_partition(disk, f"/{log.directory.rpartition('/')[2]}")
        assert found.has_holes
        random = SimulatedRandom()
        await disk.run(
            import_partition,
            *(disk, bench.clock, random, found, "/data", DELETE),
            topic_id=TOPIC_ID,
        )
        bench.manager = bench.new_manager()
        assert contents(await bench.open(DELETE)) == before

    asyncio.run(scenario())


def test_a_compacted_log_of_one_segment_is_imported_with_its_gaps() -> None:
    """Else a power cut that loses the checkpoints would cost all that comes behind the first."""
    fixture = LogFixture()
    follow(fixture, *GAPS)

    async def scenario() -> None:
        await fixture.log.close()
        found = inspect_partition(fixture.disk, DIRECTORY)
        assert found.has_holes
        fixture.disk.make_directories("/data")
        imported = await fixture.disk.run(
            import_partition,
            *(fixture.disk, fixture.clock, fixture.random, found, "/data", fixture.config),
            topic_id=TOPIC_ID,
        )
        assert Holes.load(fixture.disk, imported.path, 0).flushed_below >= GAPS[-1]

    asyncio.run(scenario())


def test_a_log_that_was_never_compacted_has_no_note() -> None:
    fixture = LogFixture()
    for _ in range(30):
        fixture.append(bytes(900))
    asyncio.run(fixture.log.close())
    assert len(fixture.log.segments) > 3
    assert not fixture.disk.exists(f"{DIRECTORY}/{HOLES_FILE}")


@pytest.mark.parametrize("seed", range(60))
def test_the_cleaner_s_checkpoint_of_a_deleted_topic_makes_no_hole_of_a_lost_end(seed: int) -> None:
    """What says of a log without a note where holes may be was that of the topic before."""

    async def scenario() -> None:
        bench = Bench()
        bench.disk.random = SimulatedRandom(seed)
        await compacted_log(bench)
        directory = bench.manager.directory_of(bench.manager.logs[NAME])
        await bench.manager.delete(NAME)
        await bench.manager.note_deletions()
        assert NAME not in directory.cleaner_offsets.read()
        log = bench.manager.create(NAME, bytes(15) + b"x", DELETE)
        put(log, (b"first", b"flushed"))
        await log.flush()
        for number in range(60):
            put(log, (b"n%d" % number, bytes(200)))
        before = contents(log)
        for _ in range(seed % 12):
            await asyncio.sleep(0)
        bench.disk.crash()
        bench.manager = bench.new_manager()
        await bench.manager.load(lambda topic, topic_id: DELETE)
        found = contents(bench.manager.logs[NAME])
        assert found == before[: len(found)]

    asyncio.run(scenario())


class HeldFlushes:
    """Keeps flushes from ending, or from beginning: a slow device."""

    def __init__(self, disk: SimulatedDisk, *, after: bool) -> None:
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        self._run, self._after, self._disk = disk.run, after, disk
        disk.run = self._held  # type: ignore[method-assign]

    async def _held(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        is_first = getattr(function, "__qualname__", "") == "LogFlush._write" and (
            not self.begun.is_set()
        )
        if not is_first:
            return await self._run(function, *args, **kwargs)
        self.begun.set()
        if self._after:
            result = await self._run(function, *args, **kwargs)
            await self.released.wait()
            return result
        await self.released.wait()
        return await self._run(function, *args, **kwargs)


def test_a_settled_cut_leaves_the_note_of_a_gap_to_the_flush_of_what_is_in_front() -> None:
    """The note was on the device, the batches in front of the gap were not."""
    fixture = LogFixture()

    async def scenario() -> None:
        log = fixture.log
        follow(fixture, 0)
        held = HeldFlushes(fixture.disk, after=True)
        flushing = asyncio.ensure_future(log.flush(1))
        await held.begun.wait()
        follow(fixture, 1, 2, FAR, FAR + 1, FAR + 2)
        assert log.truncate_to(FAR + 2)
        settling = asyncio.ensure_future(log.settle_cut())
        await asyncio.sleep(0)
        held.released.set()
        await settling
        fixture.disk.crash(keep_some=False)
        await asyncio.gather(flushing, return_exceptions=True)
        await fixture.reopen(was_clean=False)
        found = await fixture.offsets()
        assert found == [0, 1, 2, FAR, FAR + 1][: len(found)]

    asyncio.run(scenario())


def test_a_round_of_the_cleaner_leaves_a_gap_s_note_to_the_flush_of_what_is_in_front(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came after the round was planned, and what is in front of it was not flushed."""

    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(SETTINGS)
        for number in range(60):
            put(log, (b"k%d" % (number % 3), bytes(200)))
        await log.flush()
        end = log.log_end_offset
        held = HeldFlushes(bench.disk, after=False)
        plan = LogCleaner.plan

        async def plan_then_append(cleaner: LogCleaner, planned: PartitionLog) -> Any:
            found = await plan(cleaner, planned)
            for offset in (end, end + 1, FAR):
                records = [Record(offset, 1, b"k", b"value")]
                log.append_as_follower(encode_batch(records, base_offset=offset, leader_epoch=0))
                log.write_staged()
            return found

        monkeypatch.setattr(LogCleaner, "plan", plan_then_append)
        assert await bench.manager.cleaner.clean_once()
        path = f"{log.directory}/{HOLES_FILE}"
        ((text,),) = decode(path, bench.disk.read_bytes(path), 1)
        assert int(text) <= log.recovery_point
        held.released.set()

    asyncio.run(scenario())
