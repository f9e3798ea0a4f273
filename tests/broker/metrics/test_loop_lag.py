"""The lag of the loop, on virtual time."""

import asyncio

from barnabas_broker.metrics.loop_lag import INTERVAL_SECONDS, WINDOW_SECONDS, LoopLag
from tests.support.virtual_loop import run_virtual


def told(lag: LoopLag) -> dict[str, float]:
    return {
        sample.name: sample.value
        for sample in lag.samples()
        if isinstance(sample.value, int | float)
    }


def test_the_largest_lag_is_told_for_one_window_at_least_and_two_at_most() -> None:
    """MET-1: whoever scrapes once a minute must not miss a stall."""

    async def test() -> None:
        lag = LoopLag(asyncio.get_running_loop())
        lag.note(0.7, WINDOW_SECONDS - 1)
        lag.note(0.1, WINDOW_SECONDS)
        assert told(lag)["barnabas_loop_lag_seconds_max"] == 0.7
        lag.note(0.2, 2 * WINDOW_SECONDS)
        assert told(lag)["barnabas_loop_lag_seconds_max"] == 0.2
        assert round(told(lag)["barnabas_loop_lag_seconds_total"], 6) == 1.0

    run_virtual(test())


def test_a_loop_that_is_held_up_is_noticed() -> None:
    """A turn that takes long delays the timer; afterwards nothing is late any more."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        lag = LoopLag(loop)
        lag.start()
        await asyncio.sleep(INTERVAL_SECONDS * 4.5)
        assert told(lag)["barnabas_loop_lag_seconds_max"] < 0.001
        selector = loop._virtual_selector  # type: ignore[attr-defined]
        selector.now_seconds += 3.0
        await asyncio.sleep(INTERVAL_SECONDS)
        assert 2.4 < told(lag)["barnabas_loop_lag_seconds_max"] <= 3.0
        lag.stop()

    run_virtual(test())


def test_it_ends_with_the_admin_http() -> None:
    """Nothing is left in a loop of a broker that has stopped: this one would go on for ever."""

    async def test() -> None:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        lag.stop()
        await asyncio.sleep(INTERVAL_SECONDS * 10)
        assert told(lag)["barnabas_loop_lag_seconds_total"] == 0

    run_virtual(test())
