"""Many stories of clients over all cores: `python -m tests.simulation.client [FIRST [COUNT]]`.

Each failing seed is printed with the end of its timeline; SEED tells a single one, with all of it.
SIM_PROCESSES says how many processes there are, each of which is replaced after a while. The table
of cancellations is `python -m tests.simulation.client cancellations`.
"""

import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.simulation.client.telling import Failure, tell, tell_seeds, timeline

PART = 50
PARTS_PER_WORKER = 20
FAILURES_SHOWN = 5
SHOW_SECONDS = 15.0


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; returns the exit status."""
    if arguments[:1] == ["cancellations"]:
        from tests.simulation.client.cancellations import show_table

        return show_table()
    chosen = os.environ.get("SEED")
    if chosen is not None:
        return _tell_one(int(chosen))
    first = int(arguments[0]) if arguments else 0
    count = int(arguments[1]) if len(arguments) > 1 else 1000
    workers = int(os.environ.get("SIM_PROCESSES", str(os.cpu_count() or 1)))
    failures = _tell_all(first, count, workers)
    for failure in failures[:FAILURES_SHOWN]:
        story, _ = tell(failure.seed)
        sys.stdout.write(f"--- seed {failure.seed}: {failure.reason}\n{timeline(story)}\n")
    return 1 if failures else 0


def _tell_one(seed: int) -> int:
    story, failure = tell(seed)
    for seconds, words in story.world.timeline:
        sys.stdout.write(f"{seconds:9.4f}  {words}\n")
    sys.stdout.write(f"{story.kinds} {sorted(story.faults.features)}\n")
    sys.stdout.write("it ends well\n" if failure is None else f"{failure.reason}\n")
    return 0 if failure is None else 1


def _tell_all(first: int, count: int, workers: int) -> list[Failure]:
    """Tell the stories in processes that are renewed, so that none can grow."""
    failures: list[Failure] = []
    features: Counter[str] = Counter()
    told = requests = 0
    started = shown = time.monotonic()
    seeds = range(first, first + count)
    parts = [seeds[at : at + PART] for at in range(0, count, PART)]
    context = multiprocessing.get_context("forkserver")
    # An executor that has all its work does not replace a process that has done its share.
    with context.Pool(workers, maxtasksperchild=PARTS_PER_WORKER) as pool:
        for found in pool.imap_unordered(tell_seeds, parts):
            told += found.count
            requests += found.requests
            features += found.features
            for failure in found.failures:
                failures.append(failure)
                sys.stdout.write(f"seed {failure.seed} fails: {failure.reason}\n")
            if time.monotonic() - shown > SHOW_SECONDS or told == count:
                shown = time.monotonic()
                rate = 60 * told / (shown - started)
                sys.stdout.write(
                    f"{told} of {count}, {len(failures)} fail, {rate:.0f} a minute,"
                    f" {requests} requests\n"
                )
                sys.stdout.flush()
    shares = ", ".join(f"{name} {number}" for name, number in sorted(features.items()))
    sys.stdout.write(f"stories with {shares}\n")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
