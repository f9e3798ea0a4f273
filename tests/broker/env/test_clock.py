"""The contract of clocks, on the system's and on the simulated ones."""

import asyncio

import pytest

from barnabas_broker.env.clock import Clock, SystemClock
from tests.support.simulated_clock import SimulatedClock
from tests.support.virtual_loop import DeadlockError, VirtualClock, run_virtual


@pytest.mark.parametrize("clock", [SystemClock(), SimulatedClock(123)], ids=["real", "simulated"])
def test_the_readings_of_a_clock_agree_and_never_go_back(clock: Clock) -> None:
    """Deadlines are compared in both units; a disagreement would fire timers early."""
    before_ms, now_ns, after_ms = clock.monotonic_ms(), clock.monotonic_ns(), clock.monotonic_ms()
    assert before_ms <= now_ns // 1_000_000 <= after_ms
    assert clock.wall_ms() > 1_600_000_000_000


def test_a_jump_of_the_wall_leaves_monotonic_time_alone() -> None:
    """Durations must survive an administrator who sets the clock."""
    clock = SimulatedClock()
    clock.advance(5)
    wall_ms = clock.wall_ms()
    clock.jump_wall(-3_600_000)
    assert clock.monotonic_ms() == 5
    assert clock.wall_ms() == wall_ms - 3_600_000


def test_virtual_hours_pass_at_once_and_in_order() -> None:
    """style.md section 9: shells are tested on virtual time."""
    seen: list[str] = []

    async def work() -> int:
        clock = VirtualClock(asyncio.get_running_loop())

        async def later(name: str, hours: float) -> None:
            await asyncio.sleep(hours * 3600)
            seen.append(name)

        await asyncio.gather(later("second", 2), later("first", 1))
        return clock.monotonic_ms()

    assert run_virtual(work()) == 2 * 3_600_000
    assert seen == ["first", "second"]


def test_a_virtual_loop_that_would_wait_for_ever_says_so() -> None:
    """A forgotten wake-up fails at once, not after a test's time-out."""

    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError):
        run_virtual(work())
