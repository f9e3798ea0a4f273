"""What a start makes of copies of logs that were on their way to another directory."""

import asyncio

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.manager import log_moves
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.properties_files import MOVE_FILE
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from tests.broker.log.cleaner_fixtures import TOPIC_ID, Bench, put

CONFIG = LogConfig.build({}, {"retention.ms": "-1"})
LENGTHS = [5, 211, 212, 249]


async def load(bench: Bench, name: TopicPartition) -> PartitionLog | None:
    """Start, after a kill, and tell which log there is."""
    for directory in bench.manager.directories:
        directory.close()
    bench.manager = bench.new_manager()
    await bench.manager.load(
        lambda topic, topic_id: CONFIG if (topic, topic_id) == (name.topic, TOPIC_ID) else None,
        lambda topic: TOPIC_ID if topic == name.topic else ZERO_UUID,
    )
    return bench.manager.logs.get(name)


def directory(bench: Bench, path: str) -> LogDirectory:
    return next(one for one in bench.manager.directories if one.path == path)


def fill(log: PartitionLog, count: int) -> None:
    for number in range(count):
        put(log, (b"k", b"v%d" % number))


async def copied(
    bench: Bench, name: TopicPartition, count: int
) -> tuple[PartitionLog, PartitionLog]:
    """A log of 10 records in /a, and a copy with some of them in /b."""
    await load(bench, name)
    log = bench.manager.create(name, TOPIC_ID, CONFIG, "/a")
    fill(log, 10)
    await log.flush()
    copy = await log_moves.begin_copy(bench.manager, log, directory(bench, "/b"))
    fill(copy, count)
    await copy.flush()
    return log, copy


@pytest.mark.parametrize("length", LENGTHS)
def test_a_complete_copy_is_put_in_place_whatever_its_name(length: int) -> None:
    """Killed between the two renames: names of marked directories are cut where they are long."""
    name = TopicPartition("t" * length, 0)

    async def scenario() -> None:
        bench = Bench(log_dirs="/a,/b")
        await copied(bench, name, 10)
        await bench.manager.delete(name)
        bench.disk.sync_directory("/a")
        log = await load(bench, name)
        assert log is not None
        assert (log.directory, log.log_end_offset) == (f"/b/{name.topic}-0", 10)
        assert not bench.disk.exists(f"{log.directory}/{MOVE_FILE}")
        assert len(bench.manager.removals.paths) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("length", LENGTHS)
def test_an_interrupted_move_is_resumed_whatever_its_name(length: int) -> None:
    name = TopicPartition("t" * length, 0)

    async def scenario() -> None:
        bench = Bench(log_dirs="/a,/b")
        await copied(bench, name, 5)
        log = await load(bench, name)
        assert log is not None
        assert (log.directory, log.log_end_offset) == (f"/a/{name.topic}-0", 10)
        assert bench.manager.interrupted_moves == {name: ("/b", TOPIC_ID)}

    asyncio.run(scenario())


def test_a_copy_vouches_for_no_more_than_its_log_until_both_names_are_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A power cut in between may leave the log that it replaces, and not the copy."""
    name = TopicPartition("orders", 0)

    async def scenario() -> None:
        bench = Bench(log_dirs="/a,/b")
        log, copy = await copied(bench, name, 10)
        fill(log, 2)
        fill(copy, 2)
        await copy.flush()
        synced: list[tuple[str, int]] = []
        sync = bench.disk.sync_directory

        def noting_sync(path: str) -> None:
            synced.append((path, copy.recovery_point))
            sync(path)

        with monkeypatch.context() as patches:
            patches.setattr(bench.disk, "sync_directory", noting_sync)
            assert await log_moves.put_in_place(bench.manager, log, copy)
        assert synced[:2] == [("/a", 10), ("/b", 10)]
        assert copy.recovery_point == 12

    asyncio.run(scenario())


def test_an_incomplete_copy_is_never_put_in_place() -> None:
    """An earlier move has left its original for a minute, and the disk of the log is away."""
    name = TopicPartition("orders", 0)

    async def scenario() -> None:
        bench = Bench(log_dirs="/a,/b,/c")
        log, copy = await copied(bench, name, 10)
        assert await log_moves.put_in_place(bench.manager, log, copy)
        assert copy.directory == "/b/orders-0"
        second = await log_moves.begin_copy(bench.manager, copy, directory(bench, "/c"))
        fill(second, 3)
        await second.flush()
        bench.disk.fail("lock", "/b/.lock")
        assert await load(bench, name) is None
        assert directory(bench, "/b").is_offline
        assert not bench.disk.exists("/c/orders-0")

    asyncio.run(scenario())


def test_a_deleted_log_gives_its_incomplete_copy_no_right() -> None:
    name = TopicPartition("orders", 0)

    async def scenario() -> None:
        bench = Bench(log_dirs="/a,/b")
        await copied(bench, name, 3)
        await bench.manager.delete(name)
        assert await load(bench, name) is None

    asyncio.run(scenario())


@pytest.mark.parametrize("length", [5, 249])
def test_copies_of_an_earlier_release_have_no_note(length: int) -> None:
    """A short name says enough; with a cut one, nothing is renamed and nothing removed."""
    name = TopicPartition("t" * length, 0)

    async def scenario() -> None:
        bench = Bench(log_dirs="/a,/b")
        _, copy = await copied(bench, name, 10)
        await bench.manager.delete(name)
        bench.disk.remove(f"{copy.directory}/{MOVE_FILE}")
        log = await load(bench, name)
        assert (log is not None) == (length == 5)
        if log is None:
            assert not bench.manager.removals.paths
            assert bench.disk.exists(copy.directory)

    asyncio.run(scenario())
