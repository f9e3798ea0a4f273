"""Who asks the same within two seconds shares a call to the brokers (CON-161)."""

import asyncio
import gc
import weakref

import pytest

from barnabas_console.shared_calls import ENTRIES_MAX, SHARED_MS, SharedCalls
from tests.support.simulated_clock import SimulatedClock


class Brokers:
    """Counts what it is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self) -> int:
        self.calls += 1
        number = self.calls
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return number


def test_those_that_ask_at_once_or_soon_after_share_a_call() -> None:
    async def run() -> None:
        clock, brokers = SimulatedClock(), Brokers()
        calls = SharedCalls(clock)
        asking = [asyncio.create_task(calls.shared("topics", brokers.ask)) for _ in range(50)]
        brokers.may_answer.set()
        assert set(await asyncio.gather(*asking)) == {1}
        clock.advance(SHARED_MS - 1)
        assert await calls.shared("topics", brokers.ask) == 1
        assert await calls.shared("groups", brokers.ask) == 2
        clock.advance(1)
        assert await calls.shared("topics", brokers.ask) == 3

    asyncio.run(run())


def test_a_call_goes_on_when_one_that_waits_for_it_goes_away() -> None:
    async def run() -> None:
        brokers = Brokers()
        calls = SharedCalls(SimulatedClock())
        first = asyncio.create_task(calls.shared("topics", brokers.ask))
        second = asyncio.create_task(calls.shared("topics", brokers.ask))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        brokers.may_answer.set()
        assert await second == 1
        assert first.cancelled()

    asyncio.run(run())


def test_an_error_is_told_to_all_that_wait_and_not_kept() -> None:
    async def run() -> None:
        brokers = Brokers()
        brokers.error = ConnectionError("gone")
        brokers.may_answer.set()
        calls = SharedCalls(SimulatedClock())
        found = await asyncio.gather(
            *(calls.shared("topics", brokers.ask) for _ in range(3)), return_exceptions=True
        )
        assert [type(one) for one in found] == [ConnectionError] * 3
        brokers.error = None
        assert await calls.shared("topics", brokers.ask) == 2

    asyncio.run(run())


def test_results_that_are_kept_are_bounded() -> None:
    async def run() -> None:
        brokers = Brokers()
        brokers.may_answer.set()
        calls = SharedCalls(SimulatedClock())
        for number in range(ENTRIES_MAX + 10):
            await calls.shared(number, brokers.ask)
        assert await calls.shared(ENTRIES_MAX + 9, brokers.ask) == ENTRIES_MAX + 10
        before = brokers.calls
        await calls.shared(0, brokers.ask)  # the oldest has made room
        assert brokers.calls == before + 1

    asyncio.run(run())


def test_what_was_changed_is_read_anew() -> None:
    async def run() -> None:
        brokers = Brokers()
        brokers.may_answer.set()
        calls = SharedCalls(SimulatedClock())
        await calls.shared("topics", brokers.ask)
        calls.forget()
        assert await calls.shared("topics", brokers.ask) == 2

    asyncio.run(run())


def test_closing_leaves_nothing_behind() -> None:
    async def run() -> None:
        brokers = Brokers()
        calls = SharedCalls(SimulatedClock())
        asking = asyncio.create_task(calls.shared("topics", brokers.ask))
        await asyncio.sleep(0)
        await calls.close()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_results_that_are_too_old_are_not_kept() -> None:
    """CON-172: a thousand descriptions of large topics would fill the memory."""

    async def large() -> Result:
        return Result()

    async def run() -> None:
        clock = SimulatedClock()
        calls = SharedCalls(clock)
        first = weakref.ref(await calls.shared("first", large))
        assert first() is not None
        clock.advance(SHARED_MS)
        await calls.shared("second", large)
        gc.collect()
        assert first() is None

    asyncio.run(run())


class Result:
    """Something that can be seen to go."""
