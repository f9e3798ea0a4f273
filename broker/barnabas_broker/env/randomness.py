"""Randomness: the draws that placement, identifiers and jitter need.

Draws are not a source of keys or secrets: that is `secret_bytes`. A simulation replays a run by
putting a seeded source in.
"""

import os
import random
from collections.abc import Callable, MutableSequence
from typing import Any, Protocol

_FIRST_SIX_BITS_OF_A_DASH = 62  # the digit that base64's url-safe alphabet writes as '-'


secret_bytes: Callable[[int], bytes] = os.urandom
"""So many bytes that nobody can guess."""


class Random(Protocol):
    """A source of random draws."""

    def integer(self, below: int) -> int:
        """A whole number in [0, below)."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...

    def uuid(self) -> bytes:
        """16 bytes of a version 4 uuid; never zero, its text form never starts with a dash."""
        ...

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Reorder the items in place."""
        ...


def uuid_from(draw: Callable[[int], bytes]) -> bytes:
    """A uuid made from the bytes that `draw(count)` gives; draws again while the text is unfit.

    A leading dash would be read as an option by command lines, so Kafka's tools never make one.
    The version bits of RFC 9562 also keep clear of the reserved values zero and one.
    """
    while True:
        drawn = bytearray(draw(16))
        if drawn[0] >> 2 != _FIRST_SIX_BITS_OF_A_DASH:
            drawn[6] = drawn[6] & 0x0F | 0x40
            drawn[8] = drawn[8] & 0x3F | 0x80
            return bytes(drawn)


class SystemRandom:
    """Draws seeded by the operating system; uuids straight from its pool."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random()

    def integer(self, below: int) -> int:
        """A whole number in [0, below)."""
        return self._random.randrange(below)

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def uuid(self) -> bytes:
        """16 bytes of a version 4 uuid; never zero, its text form never starts with a dash."""
        return uuid_from(os.urandom)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Reorder the items in place."""
        self._random.shuffle(items)
