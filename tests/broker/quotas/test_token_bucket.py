"""Tokens: a burst, a debt, and the time until it is paid."""

import pytest

from barnabas_broker.quotas.token_bucket import BURST_SECONDS, THROTTLE_MS_MAX, TokenBucket
from tests.support.simulated_clock import SimulatedClock


def bucket(rate: float) -> tuple[TokenBucket, SimulatedClock]:
    clock = SimulatedClock(monotonic_ms=1_000_000)
    made = TokenBucket(clock)
    made.rate = rate
    return made, clock


def test_a_bucket_is_full_at_first_and_refilled_by_the_rate() -> None:
    """QUO-7: full is eleven seconds of the rate, and never more."""
    made, clock = bucket(2)
    assert made.tokens == 22
    made.take(30)
    assert (made.tokens, made.throttle_ms) == (-8, 4_000)
    clock.advance(1_500)
    assert (made.tokens, made.throttle_ms) == (-5, 2_500)
    clock.advance(2_500)
    assert (made.tokens, made.throttle_ms) == (0, 0)
    clock.advance(3_600_000)
    assert made.tokens == 2 * BURST_SECONDS


def test_another_rate_holds_at_once_and_leaves_the_debt() -> None:
    """QUO-8: and a smaller bucket loses what is over its brim."""
    made, clock = bucket(1)
    made.take(31)
    assert made.throttle_ms == 20_000
    made.rate = 10
    assert made.throttle_ms == 2_000
    clock.advance(60_000)
    assert made.tokens == 110
    made.rate = 1
    assert made.tokens == 11


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-320, 5e-324, 1e308, float("inf")])
def test_no_rate_makes_the_arithmetic_fail(rate: float) -> None:
    """QUO-7: a quota that allows nothing has clients wait without an end, a huge one never."""
    made, clock = bucket(rate)
    for _ in range(3):
        made.take(10_000)
        clock.advance(1_000)
        assert made.throttle_ms == (0 if rate > 1 else THROTTLE_MS_MAX)
