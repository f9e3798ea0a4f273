"""Draws that a seed repeats."""

import random
from collections.abc import MutableSequence
from typing import Any

from barnabas_broker.env.randomness import uuid_from


class SimulatedRandom:
    """The same draws for the same seed; `seed` is there to be printed when a test fails."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._random = random.Random(seed)

    def integer(self, below: int) -> int:
        return self._random.randrange(below)

    def fraction(self) -> float:
        return self._random.random()

    def uuid(self) -> bytes:
        return uuid_from(self._random.randbytes)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        self._random.shuffle(items)
