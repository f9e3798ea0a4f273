"""Quantities are read as the API server reads and writes them."""

from fractions import Fraction

import pytest

from barnabas_operator.kubernetes.quantity import quantity_text, read_quantity, whole_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10Gi", Fraction(10 * 2**30)),
        ("0.7Gi", Fraction(7 * 2**30, 10)),
        ("751619276800m", Fraction(7 * 2**30, 10)),
        ("100m", Fraction(1, 10)),
        ("5u", Fraction(5, 10**6)),
        ("5n", Fraction(5, 10**9)),
        ("1.", Fraction(1)),
        (".5k", Fraction(500)),
        ("1e3", Fraction(1000)),
        ("12E-1", Fraction(12, 10)),
        ("1E", Fraction(10**18)),
        ("8Ei", Fraction(2**63)),
        ("-1Ki", Fraction(-1024)),
        ("+1", Fraction(1)),
    ],
)
def test_every_spelling_of_a_number_is_read(text: str, number: Fraction) -> None:
    assert read_quantity(text) == number


@pytest.mark.parametrize("text", ["", "Gi", "10GB", "10 Gi", "1ki", "1e", "e3", "0x1", "1e123"])
def test_what_is_no_quantity_is_none(text: str) -> None:
    assert read_quantity(text) is None
    assert whole_quantity(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10Gi", 10 * 2**30),
        ("0.7Gi", 751619277),
        ("751619276800m", 751619277),
        ("99999999Pi", 2**63 - 1),
        ("9223372036854775807", 2**63 - 1),
        ("0", 0),
    ],
)
def test_a_number_of_bytes_is_what_the_api_server_keeps(text: str, number: int) -> None:
    """Rounded up, and of 64 bits: else what was asked for would differ from what is for ever."""
    assert whole_quantity(text) == number


def test_a_number_is_written_without_loss() -> None:
    for number in (0, 1, 1536, 2**30, 3 * 2**39, 751619277):
        assert whole_quantity(quantity_text(number)) == number
    assert quantity_text(3 * 2**29) == "1536Mi"
