"""Waits between attempts."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.network.backoff import JITTER, Backoff


def test_waits_double_up_to_the_maximum() -> None:
    """CLI-6: 50 doubling to 1000."""
    waits = [Backoff(50, 1000).wait_ms(attempt, 0.5) for attempt in range(8)]
    assert waits == [50, 100, 200, 400, 800, 1000, 1000, 1000]


@given(
    st.integers(0, 10_000),
    st.integers(0, 100_000),
    st.integers(-1, 10**9),
    st.floats(0, 1, exclude_max=True),
)
def test_jitter_is_a_fifth_either_way(
    initial_ms: int, maximum_ms: int, attempt: int, random: float
) -> None:
    """KIP-580; also after a billion failures."""
    wait_ms = Backoff(initial_ms, maximum_ms).wait_ms(attempt, random)
    assert 0 <= wait_ms <= maximum_ms * (1 + JITTER)
    if initial_ms <= maximum_ms:
        assert wait_ms >= int(initial_ms * (1 - JITTER))
