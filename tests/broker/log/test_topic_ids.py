"""Topic ids on disk: when they become durable, and what happens to those that the power took."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_protocol.ids import ZERO_UUID
from tests.broker.log.manager_fixtures import (
    TOPIC_ID,
    append,
    crash,
    manager_over,
    partition,
    records_of,
    topic_config,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

DIRECTORY = Path("/data")
METADATA = "/data/t-0/partition.metadata"


def known(topic: str) -> bytes:
    return TOPIC_ID if topic == "t" else ZERO_UUID


def config_of_known(topic: str, topic_id: bytes) -> object:
    return topic_config() if topic_id == known(topic) != ZERO_UUID else None


async def loaded(disk: SimulatedDisk) -> LogManager:
    manager = manager_over(DIRECTORY, disk=disk)
    await manager.load(config_of_known, known)
    return manager


def test_making_partitions_waits_for_no_device() -> None:
    """LOG-14: 500 topics are made in a second; the loop must not stand still for each."""

    async def test() -> None:
        disk = SimulatedDisk()
        manager = await loaded(disk)
        before = disk.sync_count
        for number in range(50):
            manager.create(partition("t", number), TOPIC_ID, topic_config())
        assert disk.sync_count == before
        await manager.close(1)
        assert disk.sync_count - before < 20  # the checkpoints and the marker alone

    asyncio.run(test())


def test_the_first_flush_makes_the_topic_id_durable() -> None:
    """LOG-14: no recovery point above 0 without it."""

    async def test() -> None:
        disk = SimulatedDisk()
        log = (await loaded(disk)).create(partition("t"), TOPIC_ID, topic_config())
        append(log, (b"k", b"v"))
        disk.fail("sync", METADATA)
        with pytest.raises(Exception, match=r"t-0|offline"):
            await log.flush()
        assert log.recovery_point == 0
        disk.crash(keep_some=False)
        log = (await loaded(disk)).create(partition("t"), TOPIC_ID, topic_config())
        append(log, (b"k", b"v"))
        await log.flush()
        disk.crash(keep_some=False)
        assert b"topic_id" in disk.read_bytes(METADATA)
        manager = await loaded(disk)
        assert len(await records_of(manager.logs[partition("t")])) == log.log_end_offset

    asyncio.run(test())


@pytest.mark.parametrize("content", [None, b"", b"version: 0\ntopic_", b"\0" * 40])
def test_a_lost_or_torn_topic_id_is_that_of_the_topic_of_its_name(content: bytes | None) -> None:
    """LOG-14, TOP-15: what a crash tore is not put aside, and its records stay."""

    async def test() -> None:
        disk = SimulatedDisk()
        manager = await loaded(disk)
        log = manager.create(partition("t"), TOPIC_ID, topic_config())
        append(log, (b"k", b"v"))
        await log.flush()
        await manager.checkpointing.write_all(manager.directories[0])
        disk.remove(METADATA)
        if content is not None:
            disk.write_atomically(METADATA, content)
        disk.sync_directory("/data/t-0")
        disk.crash()
        manager = await loaded(disk)
        log = manager.logs[partition("t")]
        assert (log.topic_id, len(await records_of(log))) == (TOPIC_ID, 1)
        append(log, (b"k", b"w"))
        await log.flush()
        disk.crash(keep_some=False)
        assert b"topic_id" in disk.read_bytes(METADATA)

    asyncio.run(test())


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_at_any_time_leaves_no_stray(seed: int) -> None:
    """LOG-14, TOP-15: made, written, flushed or not: the partition is served again, or empty."""

    async def test() -> None:
        random = SimulatedRandom(seed)
        disk = SimulatedDisk(random)
        manager = await loaded(disk)
        flushed = 0
        for number in range(4):
            log = manager.create(partition("t", number), TOPIC_ID, topic_config())
            for _ in range(random.integer(3)):
                append(log, (b"k", b"v"))
            if random.integer(2):
                await log.flush()
                flushed += log.log_end_offset
        disk.crash()
        manager = await loaded(disk)
        assert manager.put_aside_count == 0
        assert all(log.topic_id == TOPIC_ID for log in manager.logs.values())
        assert sum(log.log_end_offset for log in manager.logs.values()) >= flushed

    asyncio.run(test())


def test_a_folder_that_a_killed_process_made_is_put_on_the_device_by_the_next_flush() -> None:
    """LOG-14: the next process finds it, but a power cut may still take it, with what is in it."""

    async def test() -> None:
        disk = SimulatedDisk()
        disk.make_directories(str(DIRECTORY))
        disk.forgets_directories = True
        manager = await loaded(disk)
        manager.create(partition("t"), TOPIC_ID, topic_config())
        crash(manager)
        manager = await loaded(disk)
        log = manager.logs[partition("t")]
        append(log, (b"k", b"v"))
        await log.flush()
        disk.crash(keep_some=False)
        manager = await loaded(disk)
        assert len(await records_of(manager.logs[partition("t")])) == 1

    asyncio.run(test())


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_gives_a_topic_made_anew_nothing_of_the_old_one(seed: int) -> None:
    """LOG-14: neither had been flushed, so that neither has an id that would tell them apart."""

    async def test() -> None:
        disk = SimulatedDisk(SimulatedRandom(seed))
        disk.make_directories(str(DIRECTORY))
        disk.forgets_directories = True
        manager = await loaded(disk)
        append(manager.create(partition("t"), bytes(16), topic_config()), (b"k", b"old"))
        await manager.delete(partition("t"))
        await manager.note_deletions()
        append(manager.create(partition("t"), TOPIC_ID, topic_config()), (b"k", b"new"))
        disk.crash()
        manager = await loaded(disk)
        log = manager.logs.get(partition("t"))
        found = [] if log is None else await records_of(log)
        assert [value for _, _, value in found] in ([], [b"new"])

    asyncio.run(test())


def test_no_power_cut_brings_a_log_back_once_its_name_is_free() -> None:
    """Seed 422427 of the log's histories: torn, its id was taken for that of a topic made anew.

    No checkpoint names the log, so that none is written, which would sync the folder.
    """

    async def test() -> None:
        disk = SimulatedDisk()
        disk.make_directories(str(DIRECTORY))
        disk.forgets_directories = True
        manager = await loaded(disk)
        for _ in range(2):
            log = manager.create(partition("t"), TOPIC_ID, topic_config())
            append(log, (b"k", b"old"))
            for folder in (str(DIRECTORY), log.directory):
                disk.sync_directory(folder)
            await manager.delete(partition("t"))
            await manager.note_deletions()
        disk.crash(keep_some=False)
        assert not disk.exists(METADATA)

    asyncio.run(test())


def test_a_partition_of_an_unknown_topic_is_still_put_aside() -> None:
    """TOP-15: without an id and without a topic of its name."""

    async def test() -> None:
        disk = SimulatedDisk()
        manager = await loaded(disk)
        disk.make_directories("/data/u-0")
        disk.crash()
        manager = await loaded(disk)
        assert (manager.put_aside_count, manager.logs) == (1, {})

    asyncio.run(test())
