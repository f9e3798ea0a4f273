"""Many seeds of cluster stories over all cores: `python -m tests.simulation.cluster`.

SIM_SEEDS says how many, SIM_FIRST where to begin, SIM_PROCESSES by how many processes, SEED which
single one to tell in all detail. Prints each failure with its story and, in the end, the rate.
"""

import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.cluster.story import Story

SEEDS_PER_TASK = 10
LINES_MAX = 60


def tell(seed: int, *, keeps_words: bool = False) -> str:
    """What is wrong with a seed's story; empty if nothing is."""
    story = Story(seed, keeps_words=keeps_words)
    try:
        story.run()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        notes = getattr(error, "__notes__", [])
        error.__notes__ = [] if keeps_words else notes[-LINES_MAX:]
        return "".join(traceback.format_exception(error))
    finally:
        if keeps_words:
            sys.stdout.write("\n".join(story.cluster.trace.lines) + "\n")
    return ""


def tell_all(seeds: range) -> list[tuple[int, str]]:
    """The seeds that fail, and why."""
    return [(seed, reason) for seed in seeds if (reason := tell(seed))]


def main() -> int:
    """Run what the environment asks for; returns the exit status."""
    write = sys.stdout.write
    chosen = os.environ.get("SEED")
    if chosen is not None:
        reason = tell(int(chosen), keeps_words=True)
        write(reason or f"seed {chosen} ends well\n")
        return 1 if reason else 0
    first = int(os.environ.get("SIM_FIRST", "0"))
    count = int(os.environ.get("SIM_SEEDS", "200"))
    started = time.monotonic()
    failures = 0
    workers = int(os.environ.get("SIM_PROCESSES", str(os.cpu_count() or 1)))
    with ProcessPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(tell_all, part) for part in parts(first, count)]):
            for seed, reason in future.result():
                failures += 1
                write(f"--- seed {seed} fails; repeat it with: make sim SEED={seed}\n{reason}\n")
                sys.stdout.flush()
    minutes = (time.monotonic() - started) / 60
    write(f"{count} seeds, {failures} fail, {count / minutes:.0f} seeds a minute\n")
    return 1 if failures else 0


def parts(first: int, count: int) -> Iterator[range]:
    """The seeds in portions for one process each."""
    for start in range(first, first + count, SEEDS_PER_TASK):
        yield range(start, min(start + SEEDS_PER_TASK, first + count))


if __name__ == "__main__":
    sys.exit(main())
