"""A stop goes through all of its steps, and a broker in trouble does not wait for ever."""

import asyncio
import threading

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.server import stop_steps
from barnabas_broker.server.stop_steps import FAILED_STEP_SECONDS_MAX, run_stop_steps
from tests.support.virtual_loop import run_virtual


class Steps:
    """Steps that note when they began."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []

    def _note(self, name: str) -> None:
        self.begun.append((name, asyncio.get_running_loop().time()))

    async def quick(self) -> None:
        self._note("quick")

    async def failing(self) -> None:
        self._note("failing")
        raise OSError("No space left on device")

    async def slow(self) -> None:
        self._note("slow")
        await asyncio.sleep(3600)

    async def stuck(self) -> None:
        self._note("stuck")
        await asyncio.Event().wait()


def test_a_failed_step_keeps_no_other_from_running(caplog: pytest.LogCaptureFixture) -> None:
    """STOP-8."""
    steps = Steps()
    error = run_virtual(run_stop_steps([steps.failing, steps.quick], lambda: False))
    assert isinstance(error, OSError)
    assert [name for name, _ in steps.begun] == ["failing", "quick"]
    assert "Steps.failing" in caplog.text


def test_a_sound_broker_waits_for_its_steps() -> None:
    """Flushing thousands of logs may take minutes, and must not be cut short."""
    steps = Steps()
    assert run_virtual(run_stop_steps([steps.slow, steps.quick], lambda: False)) is None
    assert steps.begun == [("slow", 0), ("quick", 3600)]


def test_a_broker_in_trouble_leaves_a_stuck_step_behind() -> None:
    """It has to be gone for others to take over."""
    steps = Steps()
    error = run_virtual(run_stop_steps([steps.stuck, steps.quick], lambda: True))
    assert isinstance(error, TimeoutError)
    assert steps.begun == [("stuck", 0), ("quick", FAILED_STEP_SECONDS_MAX)]


def test_a_step_that_waits_for_a_thread_is_left_behind_with_it() -> None:
    """STOP-8: `Disk.run` is cancelled only when its thread has ended, and a device may hang."""
    steps = Steps()
    device = threading.Event()

    async def in_thread() -> None:
        await disk.run(device.wait)

    async def run() -> None:
        error = await run_stop_steps([in_thread, steps.quick], lambda: True)
        assert isinstance(error, TimeoutError)
        assert [name for name, _ in steps.begun] == ["quick"]
        device.set()

    disk = RealDisk(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stop_steps, "FAILED_STEP_SECONDS_MAX", 0.01)
        asyncio.run(run())
    disk.close()


def test_steps_after_a_failed_one_are_limited_too() -> None:
    steps = Steps()
    error = run_virtual(run_stop_steps([steps.failing, steps.stuck, steps.quick], lambda: False))
    assert isinstance(error, OSError)
    assert steps.begun[-1] == ("quick", FAILED_STEP_SECONDS_MAX)
