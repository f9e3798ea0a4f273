"""Telling stories: one, some for a long run, or one made ever smaller."""

import os
import sys
import traceback
from collections import Counter
from typing import NamedTuple

from tests.simulation.cluster.plan import Feature, Plan, draw
from tests.simulation.cluster.shrink import Shrinker
from tests.simulation.cluster.story import Story

LINES_MAX = 60


class Part(NamedTuple):
    """What came of some seeds."""

    number: int
    failures: list[tuple[int, str]]
    exercised: Counter[str]


def plan_of(seed: int) -> Plan:
    """What a seed draws, with what the environment adds or forbids."""
    plan = draw(seed)
    plan = plan.with_features(*map(Feature, os.environ.get("SIM_WITH", "").split()))
    return plan.without(*map(Feature, os.environ.get("SIM_WITHOUT", "").split()))


def tell(plan: Plan, *, keeps_words: bool = False) -> tuple[str, Counter[str]]:
    """What is wrong with a plan's story, empty if nothing is, and what was in it."""
    story = Story(plan.seed, plan=plan, keeps_words=keeps_words)
    try:
        story.run()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        notes = getattr(error, "__notes__", [])
        error.__notes__ = [] if keeps_words else notes[-LINES_MAX:]
        return "".join(traceback.format_exception(error)), story.exercised
    finally:
        if keeps_words:
            sys.stdout.write("\n".join(story.cluster.trace.lines) + "\n")
    return "", story.exercised


def tell_part(number: int, seeds: range) -> Part:
    """Tell some seeds, one after the other."""
    failures, exercised = [], Counter[str]()
    for seed in seeds:
        reason, what = tell(plan_of(seed))
        exercised += what
        if reason:
            failures.append((seed, reason))
    return Part(number, failures, exercised)


def reason_of(plan: Plan) -> str:
    """What is wrong with a plan's story, in one line, empty if nothing is."""
    try:
        Story(plan.seed, plan=plan).run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def smallest(seed: int) -> str:
    """The smallest plan that fails as a seed's does, with its timeline."""
    plan = plan_of(seed)
    reason = reason_of(plan)
    if not reason:
        return f"seed {seed} ends well"
    shrinker = Shrinker(reason_of, plan, reason)
    plan = shrinker.run()
    story = Story(seed, plan=plan)
    try:
        story.run()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    lines = [f"the smallest of {shrinker.try_count} tries", *plan.lines(), "its timeline:"]
    return "\n".join([*lines, *story.cluster.trace.lines, reason])


def tell_one(seed: int) -> int:
    """One story, in all detail or made small; returns the exit status."""
    write = sys.stdout.write
    if os.environ.get("SHRINK"):
        write(smallest(seed) + "\n")
        return 0
    plan = plan_of(seed)
    write("\n".join(plan.lines()) + "\n")
    reason, _ = tell(plan, keeps_words=True)
    write(reason or f"seed {seed} ends well\n")
    return 1 if reason else 0
