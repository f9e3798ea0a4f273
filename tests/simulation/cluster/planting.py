"""How many stories find each planted bug: `python -m tests.simulation.cluster.planting`.

Arguments: FIRST and COUNT of the seeds, then the bugs (`bugs.py`), all of them without any.
SIM_PROCESSES is how many processes tell them.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from tests.simulation.cluster.bugs import BUGS, planted
from tests.simulation.cluster.telling import plan_of, reason_of

PART = 5
LINE_LENGTH_MAX = 100


class Found(NamedTuple):
    """A story that fails with a bug planted, and what it costs to tell it."""

    seed: int
    cpu_seconds: float
    reason: str


class Told(NamedTuple):
    """How many stories had what it takes to find a bug, and those that did."""

    count: int
    found: list[Found]


def find(bug: str, seeds: range) -> Told:
    """Tell the stories of some seeds that can find a bug."""
    found = []
    plans = list(filter(BUGS[bug].may_show, map(plan_of, seeds)))
    with planted(bug):
        for plan in plans:
            seed = plan.seed
            began_seconds = time.process_time()
            reason = reason_of(plan)
            if reason:
                found.append(Found(seed, time.process_time() - began_seconds, reason))
    return Told(len(plans), found)


def main(arguments: list[str]) -> int:
    """Plant each bug in each story; returns the exit status: 1 if one was never found."""
    first, count = (int(argument) for argument in (*arguments[:2], "0", "40")[:2])
    bugs = arguments[2:] or list(BUGS)
    workers = int(os.environ.get("SIM_PROCESSES", "1"))
    missed = 0
    with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
        parts = [
            range(start, min(start + PART, first + count))
            for start in range(first, first + count, PART)
        ]
        running = {bug: [pool.submit(find, bug, part) for part in parts] for bug in bugs}
        for bug, futures in running.items():
            told = [future.result() for future in futures]
            found = [one for part in told for one in part.found]
            missed += not found
            can_count = sum(part.count for part in told)
            sys.stdout.write(f"{bug}: {len(found)} of {can_count} that can, of {count}\n")
            for seed, cpu_seconds, reason in found:
                sys.stdout.write(f"  {seed} ({cpu_seconds:.1f} s) {reason[:LINE_LENGTH_MAX]}\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
