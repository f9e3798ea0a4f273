"""Numbers for people that do not change all the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_operator.reconcile.rounding import rate_text, significant


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0"), (0.0123, "0.012"), (1.26, "1.3"), (99.4, "99"), (12345, "12000")]
)
def test_rates_have_two_digits_that_count(rate: float, text: str) -> None:
    assert rate_text(rate) == text


def test_a_rate_that_wavers_stays_what_it_was() -> None:
    """Steady traffic is no steady stream of writes."""
    assert rate_text(95, "110") == "110"
    assert rate_text(60, "110") == "60"
    assert rate_text(0, "110") == "0"
    assert rate_text(3, "0") == "3"
    assert rate_text(3, "strange") == "3"


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_rounding_is_off_by_a_twentieth_at_most(number: float) -> None:
    assert abs(significant(number) - number) <= 0.051 * number
    assert significant(significant(number)) == significant(number)
