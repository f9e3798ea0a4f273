"""A log that is cut below its start, and leader epochs whose file is lost."""

import asyncio

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import Bench

CONFIG = LogConfig.build({}, {"retention.ms": "-1"})


def follow(bench: Bench, log: PartitionLog, count: int, epoch: int) -> None:
    for _ in range(count):
        end = log.log_end_offset
        record = Record(end, bench.clock.wall_ms(), b"k", b"v")
        log.append_as_follower(encode_batch([record], base_offset=end, leader_epoch=epoch))
        log.write_staged()


def kill(bench: Bench) -> None:
    for directory in bench.manager.directories:
        directory.close()
    bench.manager = bench.new_manager()


async def cut_below_its_start(bench: Bench) -> PartitionLog:
    """A log of [100, 200) that a leader which ends at 50 has cut."""
    log = await bench.open(CONFIG)
    follow(bench, log, 200, 1)
    log.advance_high_watermark(200)
    await log.flush()
    await log.delete_records(100)
    await bench.manager.checkpointing.write_all(bench.manager.directory_of(log))
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (50, 50, 0)
    return log


def test_a_lowered_log_start_outlives_a_crash() -> None:
    """What is appended from then on is not hidden below the old one."""

    async def scenario() -> None:
        bench = Bench()
        log = await cut_below_its_start(bench)
        await bench.manager.note_truncations([log])
        follow(bench, log, 150, 2)
        await log.flush()
        kill(bench)
        log = await bench.open(CONFIG)
        assert (log.log_start_offset, log.log_end_offset) == (50, 200)

    asyncio.run(scenario())


@pytest.mark.parametrize("power", ["stays", "is lost"])
def test_a_crash_before_the_lowered_start_is_written_leaves_the_cut_log(power: str) -> None:
    """It must not go on at its old start, which its leader has not reached, or with others."""

    async def scenario() -> None:
        bench = Bench()
        log = await cut_below_its_start(bench)
        if power == "is lost":
            await log.settle_cut()
            bench.disk.crash(keep_some=False)
        kill(bench)
        log = await bench.open(CONFIG)
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)

    asyncio.run(scenario())


def test_a_log_that_is_cut_at_its_start_begins_there() -> None:
    """Seed 1054628: of an empty first segment a start thought that its end had been lost."""

    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(CONFIG)
        follow(bench, log, 3, 1)
        log.advance_high_watermark(3)
        await log.delete_records(1)
        await log.truncate(1)
        log.roll()
        follow(bench, log, 2, 2)
        kill(bench)
        log = await bench.open(CONFIG)
        assert (log.log_start_offset, log.log_end_offset) == (1, 3)

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["clean", "killed"])
@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_lost_leader_epochs_are_taken_from_all_batches(how: str, damage: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(CONFIG)
        for epoch in range(5):
            follow(bench, log, 2, epoch)
            log.roll()
        log.advance_high_watermark(10)
        await log.flush()
        before = log.leader_epochs.entries
        await bench.manager.checkpointing.write_all(bench.manager.directory_of(log))
        if how == "clean":
            await bench.manager.close(7)
        path = log.leader_epochs.path
        if damage == "missing":
            bench.disk.remove(path)
        else:
            bench.disk.open(path).truncate(3)
        kill(bench)
        log = await bench.open(CONFIG)
        assert log.leader_epochs.entries == before
        await bench.manager.close(7)
        assert bench.disk.exists(path)

    asyncio.run(scenario())


def test_a_cut_goes_on_before_an_empty_segment() -> None:
    """A segment was begun and nothing written to it: a step to its beginning cuts nothing."""

    async def scenario() -> None:
        bench = Bench()
        log = await bench.open(CONFIG)
        follow(bench, log, 5, 1)
        log.roll()
        assert await log.truncate(3)
        assert log.log_end_offset == 3

    asyncio.run(scenario())
