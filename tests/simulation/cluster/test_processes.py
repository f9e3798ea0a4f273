"""The loop of several processes: kill, stop, resume."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.process_loop import PROCESS, Process, ProcessLoop
from tests.support.virtual_loop import DeadlockError


def run(loop: ProcessLoop, work: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


async def count(seen: list[float], *, children: int = 0) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(children):
            group.create_task(count(seen))
        try:
            while True:
                seen.append(asyncio.get_running_loop().time())
                await asyncio.sleep(1)
        finally:
            seen.append(-1)


def test_a_killed_process_does_nothing_more() -> None:
    """Its tasks end where they wait, those that they have started too; others go on."""
    loop = ProcessLoop()
    process, other = Process("a"), Process("b")
    seen: list[float] = []
    rest: list[float] = []

    async def story() -> None:
        loop.spawn(process, count(seen, children=2))
        loop.spawn(other, count(rest))
        await asyncio.sleep(2.5)
        loop.kill(process)
        await asyncio.sleep(2)
        loop.kill(other)
        await asyncio.sleep(0)

    run(loop, story())
    assert seen == [0, 0, 0, 1, 1, 1, 2, 2, 2, -1, -1, -1]
    assert rest == [0, 1, 2, 3, 4, -1]


def test_a_task_that_would_rather_live_on_is_ended_too() -> None:
    loop = ProcessLoop()
    process = Process("a")
    ends: list[str] = []

    async def clinging() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            try:
                await asyncio.sleep(10)
            finally:
                ends.append("end")

    async def story() -> None:
        loop.spawn(process, clinging())
        await asyncio.sleep(1)
        loop.kill(process)
        await asyncio.sleep(100)

    run(loop, story())
    assert ends == ["end"]


def test_a_stopped_process_goes_on_where_it_was() -> None:
    """SIGSTOP and SIGCONT: what became due meanwhile runs late, and once."""
    loop = ProcessLoop()
    process = Process("a")
    seen: list[float] = []

    async def story() -> None:
        loop.spawn(process, count(seen))
        await asyncio.sleep(1.5)
        loop.stop_process(process)
        await asyncio.sleep(5)
        assert seen == [0, 1]
        loop.resume_process(process)
        await asyncio.sleep(2)
        loop.kill(process)
        await asyncio.sleep(0)

    run(loop, story())
    assert seen == [0, 1, 6.5, 7.5, -1]


def test_what_a_process_starts_is_its_own() -> None:
    loop = ProcessLoop()
    process = Process("a")
    owners: list[Process | None] = []

    async def work() -> None:
        owners.append(PROCESS.get())
        asyncio.get_running_loop().call_later(1, lambda: owners.append(PROCESS.get()))
        await asyncio.gather(asyncio.create_task(leaf()), leaf())

    async def leaf() -> None:
        owners.append(PROCESS.get())

    async def story() -> None:
        await loop.spawn(process, work())
        await asyncio.sleep(2)
        owners.append(PROCESS.get())

    run(loop, story())
    assert owners == [process] * 4 + [None]


def test_a_loop_that_would_wait_for_ever_says_so() -> None:
    loop = ProcessLoop()

    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        run(loop, story())
    # The task is abandoned with its loop.
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
