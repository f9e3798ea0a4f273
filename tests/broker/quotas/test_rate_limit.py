"""The window of all rates, at its edges; the rest is tested where it is used."""

import pytest

from barnabas_broker.quotas.rate_limit import SAMPLE_COUNT, UNLIMITED_RATE, RateLimit
from tests.support.simulated_clock import SimulatedClock


@pytest.mark.parametrize("rate", [1e-320, 5e-324, 1e-300, 0.0, -1.0])
def test_a_rate_near_nothing_throttles_without_an_end(rate: float) -> None:
    """QUO-3: and is no fault of the arithmetic."""
    limit = RateLimit(SimulatedClock(monotonic_ms=5_000), rate)
    limit.record(10**15)
    assert limit.throttle_ms() == UNLIMITED_RATE


@pytest.mark.parametrize("rate", [1e308, float("inf"), UNLIMITED_RATE])
def test_a_rate_near_infinity_never_throttles(rate: float) -> None:
    """QUO-3."""
    limit = RateLimit(SimulatedClock(monotonic_ms=5_000), rate)
    limit.record(10**15)
    assert limit.throttle_ms(10**15) == 0


def test_samples_do_not_grow_without_end() -> None:
    """QUO-3: eleven of a second, however often something passes."""
    clock = SimulatedClock(monotonic_ms=5_000)
    limit = RateLimit(clock, 10)
    for _ in range(1_000):
        limit.record(1)
        clock.advance(100)
    assert limit.observed_rate == pytest.approx(10, rel=0.1)
    clock.advance(SAMPLE_COUNT * 1_000)
    assert limit.observed_rate == 0
