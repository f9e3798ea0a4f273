"""The files of a new log: `.log` comes with the first batch, indexes with the first flush."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.import_directory import (
    ImportRefusedError,
    import_partition,
    inspect_partition,
)
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_protocol.ids import TopicPartition
from tests.broker.log.log_fixtures import DIRECTORY, LogFixture, small_config
from tests.broker.log.manager_fixtures import (
    TOPIC_ID,
    append,
    manager_over,
    partition,
    records_of,
    run_with,
    topic_config,
)

NEW = ["partition.metadata"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def create(manager: LogManager) -> None:
    manager.create(partition("t"), TOPIC_ID, topic_config())


def test_new_log_has_no_segment_file_before_its_first_batch(tmp_path: Path) -> None:
    """Creating thousands of topics costs one file a partition."""

    async def work(manager: LogManager) -> None:
        await create(manager)
        assert names(tmp_path / "t-0") == NEW
        append(manager.logs[partition("t")], (b"k", b"v"))
        assert names(tmp_path / "t-0") == ["00000000000000000000.log", *NEW]
        await manager.logs[partition("t")].flush()
        found = names(tmp_path / "t-0")
        assert [name for name in found if name.startswith("0" * 20)] == [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
        ]

    run_with(manager_over(tmp_path), work)


@pytest.mark.parametrize("is_clean_stop", [True, False])
def test_log_without_segment_is_empty_after_a_restart(tmp_path: Path, is_clean_stop: bool) -> None:
    """REC-1: also after a kill; nothing is created by looking at it, and it takes batches."""
    run_with(manager_over(tmp_path), create, is_clean_stop=is_clean_stop)
    assert names(tmp_path / "t-0") == NEW

    async def look(manager: LogManager) -> None:
        log = manager.logs[partition("t")]
        assert (log.log_start_offset, log.log_end_offset, log.topic_id) == (0, 0, TOPIC_ID)
        assert await log.offset_for_timestamp(0, 1) is None
        assert await log.max_timestamp_offset(1) is None
        await manager.tasks.retain()
        await manager.cleaner.clean_once()
        await log.flush()

    run_with(manager_over(tmp_path), look)
    assert names(tmp_path / "t-0") == NEW

    async def use(manager: LogManager) -> list[tuple[int, bytes | None, bytes | None]]:
        log = manager.logs[partition("t")]
        append(log, (b"k", b"v"))
        return await records_of(log)

    assert run_with(manager_over(tmp_path), use) == [(0, b"k", b"v")]


def test_follower_that_starts_above_zero_has_a_segment_of_that_name() -> None:
    """LOG-9: the name alone says where an empty log goes on."""
    fixture = LogFixture()
    fixture.log.truncate_fully_and_start_at(40)
    assert fixture.files(".log") == {f"{40:020d}.log": b""}
    fixture.reopen_now(was_clean=False)
    assert fixture.log.log_end_offset == 40


def test_killed_before_the_first_flush_makes_the_indexes_of_all_segments() -> None:
    """REC-1, REC-2: what has no index file is scanned, once."""
    fixture = LogFixture(small_config())
    for _ in range(12):
        fixture.append(bytes(900))
    assert len(fixture.log.segments) == 3
    assert not fixture.files("index")
    fixture.reopen_now(was_clean=False)
    assert asyncio.run(fixture.offsets()) == list(range(12))
    asyncio.run(fixture.log.close())
    assert len(fixture.files(".timeindex")) == 3
    expected = fixture.files("index")
    for name in fixture.files(f"{fixture.log.segments.first.base_offset:020d}.index"):
        fixture.disk.remove(f"{DIRECTORY}/{name}")
    fixture.reopen_now(was_clean=True)
    assert fixture.files("index") == expected


@pytest.fixture
def disk():
    disk = RealDisk()
    yield disk
    disk.close()


def test_partition_that_never_had_a_record_is_imported(tmp_path: Path, disk: RealDisk) -> None:
    """A directory of this broker's own, with no segment yet."""
    run_with(manager_over(tmp_path / "source"), create)
    found = inspect_partition(disk, str(tmp_path / "source" / "t-0"))
    assert (found.segment_count, found.log_start_offset, found.log_end_offset) == (0, 0, 0)
    target = manager_over(tmp_path / "target", node_id=2)

    async def nothing(manager: LogManager) -> None:
        return None

    run_with(target, nothing)
    import_partition(
        disk,
        SystemClock(),
        SystemRandom(),
        found,
        str(tmp_path / "target"),
        topic_config(),
        topic_id=found.topic_id,
    )

    async def ends(manager: LogManager) -> dict[TopicPartition, int]:
        return {name: log.log_end_offset for name, log in manager.logs.items()}

    assert run_with(manager_over(tmp_path / "target", node_id=2), ends) == {partition("t"): 0}


@pytest.mark.parametrize("lost", ["00000000000000000000.log", "*.*"])
def test_partition_that_lost_its_segments_is_not_imported(
    tmp_path: Path, disk: RealDisk, lost: str
) -> None:
    """Neither by what is left of it nor by the checkpoints is it one that never had a record."""

    async def fill(manager: LogManager) -> None:
        await create(manager)
        append(manager.logs[partition("t")], (b"k", b"v"))

    run_with(manager_over(tmp_path), fill)
    for path in (tmp_path / "t-0").glob(lost):
        if path.name != "partition.metadata":
            path.unlink()
    with pytest.raises(ImportRefusedError, match="no segment"):
        inspect_partition(disk, str(tmp_path / "t-0"))
