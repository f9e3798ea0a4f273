"""A process that dies between a truncation and its fsync: the next one must not build on it."""

import asyncio
import errno
from typing import Any

import pytest

from barnabas_broker.env.disk import DiskDirectory
from barnabas_broker.log import log_flush
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.layout import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from barnabas_broker.log.truncation_note import TRUNCATION_FILE
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import NAME, Bench, contents
from tests.broker.log.log_fixtures import DIRECTORY, NOW_MS, LogFixture, config, small_config
from tests.support.simulated_random import SimulatedRandom


async def cut_and_die(fixture: LogFixture, offset: int, how: str) -> None:
    """Flush two records, and die before the cut of one or both is settled."""
    for value in (b"old", b"old"):
        fixture.append(value)
    await fixture.log.flush()
    fixture.log.truncate_to(offset)
    if how == "the disk fails":
        fixture.disk.fail("sync", ".log")
        with pytest.raises((OSError, LogDirectoryError)):
            await fixture.log.settle_cut()
    await fixture.reopen(was_clean=False)


@pytest.mark.parametrize("how", ["killed", "the disk fails"])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_power_cut_brings_nothing_back_behind_what_the_next_process_appends(
    offset: int, how: str
) -> None:
    """Seeds 916324 and 930636: records that a leader did not have were in the log again.

    Here nothing of what was written since lives on; of some of it, they could be behind newer ones.
    """
    fixture = LogFixture()

    async def scenario() -> None:
        await cut_and_die(fixture, offset, how)
        assert fixture.log.log_end_offset == offset
        fixture.append(b"new")
        fixture.disk.crash(keep_some=False)
        await fixture.reopen(was_clean=False)
        assert fixture.log.log_end_offset == offset

    asyncio.run(scenario())


def test_the_note_of_a_cut_goes_when_it_is_settled() -> None:
    fixture = LogFixture()

    async def scenario() -> None:
        for value in (b"old", b"old"):
            fixture.append(value)
        await fixture.log.truncate(1)
        assert not fixture.disk.exists(f"{DIRECTORY}/{TRUNCATION_FILE}")
        await cut_and_die(fixture, 0, "killed")
        assert not fixture.disk.exists(f"{DIRECTORY}/{TRUNCATION_FILE}")

    asyncio.run(scenario())


def test_a_cut_within_a_flush_leaves_no_offset_index_ahead_of_its_time_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 951164: a start went on behind the last entry, and found no older time any more."""
    fixture = LogFixture()
    newest = NOW_MS + 1000
    fixture.append(bytes(300), timestamp=newest)
    for _ in range(4):
        fixture.append(bytes(300), timestamp=NOW_MS)
    fixture.disk.sync_directory(DIRECTORY)
    write, done = log_flush.write_index, []

    def cut_before_the_sync(
        folder: DiskDirectory, name: str, position: int, data: bytes, *, sync: bool
    ) -> None:
        if name.endswith(TIME_INDEX_SUFFIX) and not done:
            done.append(name)
            write(folder, name, position, data, sync=False)
            fixture.log.truncate_to(4)  # on the loop, while the thread is at the indexes
            folder.open(name).sync()
        else:
            write(folder, name, position, data, sync=sync)
            if name.endswith(INDEX_SUFFIX):
                raise OSError(errno.EIO, "the machine is dead")

    monkeypatch.setattr(log_flush, "write_index", cut_before_the_sync)

    async def scenario() -> None:
        with pytest.raises(LogDirectoryError):
            await fixture.log.flush()
        fixture.disk.crash(keep_some=False)
        await fixture.reopen(was_clean=False, recovery_point=4)
        found = await fixture.log.offset_for_timestamp(newest, 4)
        assert found is not None
        assert found.offset == 0

    asyncio.run(scenario())


def test_no_flush_runs_while_a_cut_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would write index entries that the other one takes for those of before the cut."""
    fixture = LogFixture()
    for _ in range(6):
        fixture.append(bytes(300))
    running: list[str] = []
    run = fixture.disk.run

    async def watched(call: Any, *arguments: Any) -> Any:
        assert not running, f"{call.__name__} while {running} runs"
        running.append(call.__name__)
        await asyncio.sleep(0)
        try:
            return await run(call, *arguments)
        finally:
            running.pop()

    monkeypatch.setattr(fixture.disk, "run", watched)

    async def scenario() -> None:
        first = asyncio.ensure_future(fixture.log.flush())
        await asyncio.sleep(0)
        fixture.log.truncate_to(4)
        cut = asyncio.ensure_future(fixture.log.settle_cut())
        await asyncio.sleep(0)
        second = asyncio.ensure_future(fixture.log.flush())
        await asyncio.gather(first, cut, second)
        assert fixture.log.recovery_point == 4

    asyncio.run(scenario())


def test_the_empty_segment_of_a_roll_goes_before_the_one_in_front_of_it_is_cut() -> None:
    """Seed 2301128: a power cut kept both, and where holes were allowed the lost end was one."""
    fixture = LogFixture()

    async def scenario() -> None:
        log = fixture.log
        for _ in range(4):
            fixture.append(b"value")
        log.roll()
        await log.flush()
        assert log.truncate_to(log.truncation_step(2))
        assert (len(log.segments), log.log_end_offset) == (1, 4)
        assert await log.truncate(2)
        assert (len(log.segments), log.log_end_offset) == (1, 2)

    asyncio.run(scenario())


ROLLING = config({"retention.ms": "-1"}, segment_bytes=9000, index_interval_bytes=256)


def follow(bench: Bench, first: int, count: int, leader_epoch: int, value: bytes) -> None:
    log = bench.manager.logs[NAME]
    for offset in range(first, first + count):
        records = [Record(offset, 1, b"k", value)]
        log.append_as_follower(encode_batch(records, base_offset=offset, leader_epoch=leader_epoch))
        log.write_staged()


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_recovery_does_not_believe_a_recovery_point_from_before_a_cut(
    seed: int, is_settled: bool
) -> None:
    """The checkpoint said 80, the log was cut to 50 and went on: 50 to 80 were never flushed."""

    async def scenario() -> None:
        bench = Bench()
        bench.disk.random = SimulatedRandom(seed)
        log = await bench.open(ROLLING)
        follow(bench, 0, 50, 1, b"common")
        follow(bench, 50, 30, 5, b"old")
        await log.flush()
        await bench.manager.checkpointing.write_all(bench.manager.directory_of(log))
        assert log.truncate_to(log.truncation_step(50))
        if is_settled:  # as the metadata log does, whose directory is not loaded yet
            await log.settle_cut()
        else:
            for directory in bench.manager.directories:
                directory.close()
            bench.manager = bench.new_manager()
            await bench.manager.load(lambda topic, topic_id: ROLLING)
            await bench.manager.forget_lost()
        follow(bench, 50, 45, 6, b"new" * 200)
        for _ in range(seed % 7):
            await asyncio.sleep(0)
        expected = contents(bench.manager.logs[NAME])
        bench.disk.crash()
        bench.manager = bench.new_manager()
        await bench.manager.load(lambda topic, topic_id: ROLLING)
        log = bench.manager.logs[NAME]
        found = contents(log)
        assert found == expected[: len(found)]
        assert log.log_end_offset == 50 or log.leader_epochs.latest == 6

    asyncio.run(scenario())


def test_the_note_of_a_cut_goes_when_the_old_recovery_point_is_reached_again() -> None:
    """Whatever the checkpoint says by then is true."""

    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(ROLLING)
        follow(bench, 0, 80, 1, b"old")
        await log.flush()
        await log.truncate(50)
        note = f"{log.directory}/{TRUNCATION_FILE}"
        follow(bench, 50, 29, 2, b"new")
        await log.flush()
        assert bench.disk.exists(note)
        follow(bench, 79, 1, 2, b"new")
        await log.flush()
        assert not bench.disk.exists(note)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_of_several_segments_leaves_no_hole_however_much_of_it_a_power_cut_keeps(
    seed: int,
) -> None:
    """Segments were removed lowest first: those behind them were still there."""
    fixture = LogFixture(small_config(segment_bytes=600), seed=seed)

    async def scenario() -> None:
        for _ in range(30):
            fixture.append(bytes(100))
        await fixture.log.flush()
        point = fixture.log.recovery_point
        assert fixture.log.truncate_to(fixture.log.truncation_step(4))
        fixture.disk.crash()
        await fixture.reopen(was_clean=False, recovery_point=point)
        found = await fixture.offsets()
        assert found == list(range(len(found)))

    asyncio.run(scenario())


@pytest.mark.parametrize("written_back", ["the log", "the index"])
def test_an_aborted_transaction_goes_with_its_marker_and_not_before(written_back: str) -> None:
    """A power cut keeps the cut of the one file and not of the other.

    A producer snapshot above the end, which it kept, vouched for an entry without a marker; and a
    marker that came back had no entry (seed 2201021).
    """

    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(config({"retention.ms": "-1"}))

        def lead(data: bytes, *, internal: bool = False) -> None:
            log.append_as_leader(bytearray(data), 0, internal=internal, now_ms=1000)
            log.write_staged()
            log.advance_high_watermark(log.log_end_offset)

        def mark(kind: ControlType) -> None:
            lead(
                encode_marker(
                    kind, producer_id=11, producer_epoch=0, coordinator_epoch=0, timestamp=1000
                ),
                internal=True,
            )

        lead(
            encode_batch(
                [Record(index, 1000, b"k", b"v") for index in range(3)],
                producer_id=11,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
        mark(ControlType.ABORT)
        await log.flush()
        await bench.manager.checkpointing.write_all(bench.manager.directory_of(log))
        log.truncate_to(log.truncation_step(3))
        index = log.segments.active.transaction_index
        assert index is not None
        if written_back == "the log":
            await bench.disk.run(log.segments.active.file.sync)
        else:
            await bench.disk.run(index.flush)
        bench.disk.crash(keep_some=False)
        bench.manager = bench.new_manager()
        await bench.manager.load(lambda topic, topic_id: config({"retention.ms": "-1"}))
        log = bench.manager.logs[NAME]
        if written_back == "the index":
            assert log.log_end_offset == 4
            assert log.aborted_transactions(0, 4) == [(11, 0)]
            return
        assert log.log_end_offset == 3
        mark(ControlType.COMMIT)  # by the new leader
        assert log.aborted_transactions(0, log.log_end_offset) == []

    asyncio.run(scenario())
