"""Sizes as people write and read them."""

import pytest

from barnabas_protocol.settings.sizes import parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("12B", 12),
        ("64 MiB", 64 << 20),
        ("64m", 64 << 20),
        ("1 GiB", 1 << 30),
        ("2tib", 2 << 40),
    ],
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    """Units are powers of 1024, whatever their case."""
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "big", "-1", "1.5 MiB", "5 MB", "MiB", "1 M iB"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    """MB is two things to two people."""
    with pytest.raises(ValueError, match="64 MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size_bytes", "digits", "text"),
    [
        (0, 3, "0 B"),
        (999, 3, "999 B"),
        (1023, 2, "1023 B"),
        (1536, 3, "1.5 KiB"),
        (12, 3, "12 B"),
        (1 << 20, 3, "1 MiB"),
        (5 << 30, 3, "5 GiB"),
        (234_567_890, 3, "224 MiB"),
        (234_567_890, 2, "220 MiB"),
        (1 << 60, 3, "1020 PiB"),
        (1000 << 10, 3, "1000 KiB"),
    ],
)
def test_sizes_are_shown_with_the_digits_that_count(
    size_bytes: int, digits: int, text: str
) -> None:
    """The largest unit has whatever is left."""
    assert size_text(size_bytes, digits) == text
