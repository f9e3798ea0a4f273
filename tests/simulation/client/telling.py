"""Telling stories one after the other, and saying which do not end well."""

import logging
import time
import traceback
from collections import Counter
from typing import NamedTuple

from tests.simulation.client.story import Story

LINES_SHOWN = 60


class Failure(NamedTuple):
    """A story in which something did not hold."""

    seed: int
    reason: str


class Told(NamedTuple):
    """What a part of a run has come to."""

    count: int
    failures: list[Failure]
    requests: int
    seconds: float
    features: Counter[str]


def tell(seed: int) -> tuple[Story, Failure | None]:
    """Tell one story."""
    story = Story(seed)
    try:
        story.run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}"
        return story, Failure(seed, f"{reason}:{where.lineno})")
    return story, None


def tell_part(first: int, count: int) -> Told:
    """Tell some."""
    logging.getLogger("barnabas_client").setLevel(logging.CRITICAL + 1)
    started = time.perf_counter()
    failures, requests = [], 0
    features: Counter[str] = Counter()
    for seed in range(first, first + count):
        story, failure = tell(seed)
        requests += story.world.request_count
        features.update(story.faults.features)
        features.update(f"with a {kind} program" for kind in story.kinds)
        if failure is not None:
            failures.append(failure)
    return Told(count, failures, requests, time.perf_counter() - started, features)


def tell_seeds(seeds: range) -> Told:
    """Tell those of a range: what processes are given to do."""
    return tell_part(seeds.start, len(seeds))


def timeline(story: Story) -> str:
    """The last things that happened."""
    lines = story.world.timeline[-LINES_SHOWN:]
    return "\n".join(f"{seconds:9.4f}  {words}" for seconds, words in lines)
