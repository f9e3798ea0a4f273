"""A process that dies between a truncation and its fsync: the next one must not build on it."""

import asyncio
import errno
from typing import Any

import pytest

from barnabas_broker.env.disk import DiskDirectory
from barnabas_broker.log import log_flush
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.layout import INDEX_SUFFIX, TIME_INDEX_SUFFIX, UNSETTLED_CUT_FILE
from tests.broker.log.log_fixtures import DIRECTORY, NOW_MS, LogFixture


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
        assert not fixture.disk.exists(f"{DIRECTORY}/{UNSETTLED_CUT_FILE}")
        await cut_and_die(fixture, 0, "killed")
        assert not fixture.disk.exists(f"{DIRECTORY}/{UNSETTLED_CUT_FILE}")

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

    def cut_before_the_sync(folder: DiskDirectory, name: str, position: int, data: bytes) -> None:
        if name.endswith(TIME_INDEX_SUFFIX) and not done:
            done.append(name)
            write(folder, name, position, data, sync=False)
            fixture.log.truncate_to(4)  # on the loop, while the thread is at the indexes
            folder.open(name).sync()
        else:
            write(folder, name, position, data)
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
