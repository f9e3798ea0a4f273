"""Waits between attempts."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.backoff import RETRY_JITTER, ExponentialBackoff


def test_waits_double_up_to_the_maximum() -> None:
    """CLI-6: 50 doubling to 1000."""
    for jitter in (0.0, RETRY_JITTER):
        backoff = ExponentialBackoff(50, 1000, jitter)
        waits = [backoff.wait_ms(failures) for failures in range(8)]
        assert waits == [50, 100, 200, 400, 800, 1000, 1000, 1000]


@given(
    st.integers(0, 10_000),
    st.integers(0, 100_000),
    st.integers(-1, 10**9),
    st.floats(0, 1, exclude_max=True),
)
def test_jitter_is_a_fifth_either_way(
    initial_ms: int, maximum_ms: int, failures: int, chance: float
) -> None:
    """KIP-580; also after a billion failures."""
    wait_ms = ExponentialBackoff(initial_ms, maximum_ms, RETRY_JITTER).wait_ms(failures, chance)
    assert 0 <= wait_ms <= maximum_ms * (1 + RETRY_JITTER)
    if initial_ms <= maximum_ms:
        assert wait_ms >= int(initial_ms * (1 - RETRY_JITTER))


def test_chance_alone_spreads_the_waits() -> None:
    """A fifth less and a fifth more are the ends."""
    backoff = ExponentialBackoff(100, 1000, RETRY_JITTER)
    assert [backoff.wait_ms(0, chance) for chance in (0.0, 0.25, 0.5, 0.75)] == [80, 90, 100, 110]
