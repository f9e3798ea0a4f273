"""The threads of log-ins: a few at a time, each address in turn, bounded."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.network import login_work
from barnabas_broker.network.login_work import WIDTH, LoginWork, TooManyLoginsError
from tests.support.virtual_loop import run_virtual


class Threads:
    """Runs functions when the test says so, in the order in which they came."""

    def __init__(self) -> None:
        self.at_work: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self.most = 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.at_work.append((lambda: function(*arguments), done))
        self.most = max(self.most, len(self.at_work))
        return await done

    async def end_one(self) -> None:
        function, done = self.at_work.pop(0)
        if not done.done():
            done.set_result(function())
        for _ in range(5):
            await asyncio.sleep(0)


def on_threads(work: Callable[[LoginWork, Threads], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        threads = Threads()
        work_of_logins = LoginWork(threads.run)
        await work(work_of_logins, threads)
        assert work_of_logins.waiting_count == 0
        assert threads.at_work == []

    run_virtual(run())


def test_an_address_that_floods_waits_behind_itself() -> None:
    """SEC-22: two at a time; a single log-in of another address is next."""

    async def work(logins: LoginWork, threads: Threads) -> None:
        order: list[str] = []
        flood = [
            asyncio.create_task(logins.run("flood", order.append, f"flood-{number}"))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        other = asyncio.create_task(logins.run("other", order.append, "other"))
        await asyncio.sleep(0)
        while not other.done():
            await threads.end_one()
        assert len(order) <= WIDTH + 2
        while threads.at_work:
            await threads.end_one()
        await asyncio.gather(*flood)
        assert threads.most == WIDTH
        assert order[-1] == "flood-19"

    on_threads(work)


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-22: of one address and in all; the others are refused at once."""
    monkeypatch.setattr(login_work, "WAITING_MAX", 6)
    monkeypatch.setattr(login_work, "WAITING_OF_ADDRESS_MAX", 3)

    async def work(logins: LoginWork, threads: Threads) -> None:
        tasks = [
            asyncio.create_task(logins.run(host, str))
            for host in ("a",) * 9 + ("b",) * 4 + ("c",) * 2
        ]
        for _ in range(3):
            await asyncio.sleep(0)
        assert logins.waiting_count == 6
        while threads.at_work:
            await threads.end_one()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [isinstance(result, TooManyLoginsError) for result in results]
        assert refused == [False] * 5 + [True] * 4 + [False] * 3 + [True] * 3
        assert logins.refused_count == 7

    on_threads(work)


def test_a_log_in_that_ends_early_gives_its_place_back() -> None:
    """SEC-22: waiting, or when its turn has just come, or at work."""

    async def work(logins: LoginWork, threads: Threads) -> None:
        tasks = [asyncio.create_task(logins.run("a", str)) for _ in range(6)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.sleep(0)
        function, done = threads.at_work.pop(0)
        done.set_result(function())
        await asyncio.sleep(0)  # the turn of the third has come
        tasks[2].cancel()
        while threads.at_work:
            await threads.end_one()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = [isinstance(result, asyncio.CancelledError) for result in results]
        assert cancelled == [False, False, True, True, False, False]

    on_threads(work)


def test_what_fails_in_a_thread_gives_its_place_back() -> None:
    """SEC-22: and the failure is the caller's."""

    async def work(logins: LoginWork, threads: Threads) -> None:
        tasks = [asyncio.create_task(logins.run("a", int, "x")) for _ in range(4)]
        await asyncio.sleep(0)
        while threads.at_work:
            _, done = threads.at_work.pop(0)
            done.set_exception(ValueError("x"))
            for _ in range(5):
                await asyncio.sleep(0)
        for task in tasks:
            with pytest.raises(ValueError, match="x"):
                await task

    on_threads(work)
