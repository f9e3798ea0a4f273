"""Histories by seed: a list of steps, plain data, so that one that fails can be shrunk.

(wait in ms, what, numbers)     numbers are taken modulo what there is when the step runs
"""

from __future__ import annotations

import random
from typing import NamedTuple

MEMBER_COUNT = 6
GROUP_COUNT = 3
TOPIC_COUNT = 2


class Step(NamedTuple):
    """Something that happens after a while."""

    wait_ms: int
    what: str
    numbers: tuple[int, ...] = ()


# What happens, with how often at the most and at the least; each history draws its own mixture.
WEIGHTS: dict[str, tuple[int, int]] = {
    "act": (60, 20),
    "join again": (6, 0),
    "sync again": (12, 0),
    "restart": (6, 0),
    "leave": (4, 0),
    "die": (3, 0),
    "come back": (4, 1),
    "commit": (14, 2),
    "fetch": (14, 4),
    "delete group": (4, 0),
    "delete offsets": (3, 0),
    "delete topic": (8, 0),
    "create topic": (8, 1),
    "remake topic": (8, 0),
    "refuse": (4, 0),
    "stop refusing": (5, 1),
    "doubt": (2, 0),
    "hang": (5, 0),
    "go on": (4, 1),
    "slow": (8, 0),
    "quick": (3, 1),
    "fail reads": (2, 0),
    "read": (3, 1),
    "move": (8, 0),
    "stand still": (1, 0),
    "pass": (2, 0),
}
WAITS_MS = (0, 0, 0, 1, 1, 5, 20, 100, 400, 1500, 4000)


def history(seed: int, length: int = 90) -> list[Step]:
    """Return the steps of a seed.

    Each history has some kinds of steps only, in its own mixture, and half of them look at one
    group alone: what is rare in a mixture of everything comes up there.
    """
    draw = random.Random(seed)
    weights = [draw.choice((low, high, high)) for high, low in WEIGHTS.values()]
    waits = draw.sample(WAITS_MS, 6)
    focus = draw.randrange(6) if draw.randrange(2) else None
    steps = []
    for what in draw.choices(list(WEIGHTS), weights, k=length):
        numbers = [draw.randrange(1 << 16) for _ in range(3)]
        if focus is not None:
            numbers[0] = focus + GROUP_COUNT * draw.randrange(4)
        steps.append(Step(draw.choice(waits), what, tuple(numbers)))
    return steps
