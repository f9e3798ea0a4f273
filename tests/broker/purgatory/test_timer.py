"""The timer on virtual time."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from barnabas_broker.purgatory.timer import Timer
from tests.support.virtual_loop import DeadlockError, VirtualClock, run_virtual


def make_timer() -> tuple[Timer, VirtualClock]:
    loop = asyncio.get_running_loop()
    clock = VirtualClock(loop)
    return Timer(loop, clock), clock


def test_callbacks_run_in_time_and_order() -> None:
    """TIM-5: never early, at most a tick late."""

    async def work() -> None:
        timer, clock = make_timer()
        fired: list[tuple[int, int]] = []
        await asyncio.sleep(0.0004)  # between two milliseconds
        start_ns = clock.monotonic_ns()
        delays = [0, 1, 7, 19, 20, 450, 8_000, 200_000, 450]

        def note(delay_ms: int) -> None:
            fired.append((delay_ms, clock.monotonic_ns() - start_ns))

        for delay in delays:
            timer.schedule(delay, lambda delay=delay: note(delay))  # type: ignore[misc]
        assert timer.pending_count == len(delays)
        await asyncio.sleep(300)
        assert [delay for delay, _ in fired] == sorted(delays)
        for delay, elapsed_ns in fired:
            assert delay * 1_000_000 <= elapsed_ns <= (delay + 2) * 1_000_000
        assert timer.fired_count == len(delays)

    run_virtual(work())


def test_a_callback_never_runs_inside_of_schedule() -> None:
    """A caller in the middle of a change must not be re-entered."""

    async def work() -> None:
        timer, _ = make_timer()
        fired = asyncio.Event()
        timer.schedule(0, fired.set)
        assert not fired.is_set()
        await fired.wait()

    run_virtual(work())


def test_an_earlier_task_wakes_the_loop_earlier_and_cancelling_lets_it_sleep() -> None:
    async def work() -> None:
        timer, clock = make_timer()
        fired = asyncio.Event()
        late = timer.schedule(10_000, fired.set)
        timer.schedule(5, fired.set)
        await fired.wait()
        assert clock.monotonic_ms() <= 7
        late.cancel()
        fired.clear()
        await fired.wait()  # nothing can wake it any more

    with pytest.raises(DeadlockError):
        run_virtual(work())


def test_a_failing_callback_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        timer, _ = make_timer()
        fired = asyncio.Event()
        timer.schedule(5, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        timer.schedule(5, fired.set)
        await fired.wait()

    run_virtual(work())
    assert "a timer's callback failed" in caplog.text


def test_callbacks_may_schedule_and_cancel() -> None:
    async def work() -> None:
        timer, _ = make_timer()
        fired: list[str] = []
        second = timer.schedule(7, lambda: fired.append("second"))

        def first() -> None:
            second.cancel()
            timer.schedule(3, lambda: fired.append("third"))

        timer.schedule(5, first)
        await asyncio.sleep(1)
        assert fired == ["third"]
        assert timer.pending_count == 0

    run_virtual(work())


def test_a_closed_timer_runs_nothing() -> None:
    """PUR-5: shutdown cancels timers."""

    async def work() -> None:
        timer, _ = make_timer()
        timer.schedule(5, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        timer.close()
        await asyncio.sleep(1)
        assert timer.fired_count == 0
        with pytest.raises(RuntimeError):
            timer.schedule(5, lambda: None)

    run_virtual(work())


def test_an_idle_timer_sets_no_timer_of_the_loop() -> None:
    """TIM-4: idle cost; many cancelled tasks leave one wake-up at most."""

    async def work() -> int:
        timer, _ = make_timer()
        for _ in range(10_000):
            timer.schedule(500, lambda: None).cancel()
        await asyncio.sleep(3_600)
        return timer.fired_count

    assert run_virtual(work()) == 0


def test_a_task_far_away_wakes_the_loop_once_and_in_whole_milliseconds() -> None:
    """TIM-4: no wake-up for a bucket of a higher level, none that comes too early under uvloop."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        delays: list[float] = []

        class Noting:
            def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
                delays.append(delay * 1000)
                return loop.call_later(delay, callback)

        timer = Timer(cast("asyncio.AbstractEventLoop", Noting()), VirtualClock(loop))
        await asyncio.sleep(0.0004)  # between two milliseconds
        timer.schedule(12_345, lambda: None)
        await asyncio.sleep(60)
        assert timer.fired_count == 1
        assert delays == [12_346]  # the millisecond that had begun does not count

    run_virtual(work())
