"""Many stories over all cores, each told by its seed: the failing ones whole, and the rate."""

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

SHOW_SECONDS = 15.0
STORIES_PER_WORKER = 200
LINES_SHOWN = 80


class Told(Protocol):
    """How a story went; `reason` is empty where all was well, `lines` are its timeline."""

    @property
    def seed(self) -> int: ...

    @property
    def reason(self) -> str: ...

    @property
    def lines(self) -> list[str]: ...

    @property
    def counts(self) -> Counter[str]:
        """What is added up over all of them, by what it is called."""
        ...


def tell_many(tell: Callable[[int], Told], seeds: range) -> int:
    """Tell the stories in processes that are renewed, so that none can grow; how many failed.

    `SIM_PROCESSES` says how many processes there are, all cores without it.
    """
    workers = int(os.environ.get("SIM_PROCESSES", str(os.cpu_count() or 1)))
    failed = number = 0
    sums: Counter[str] = Counter()
    started = shown = time.monotonic()
    context = multiprocessing.get_context("forkserver")
    # An executor that has all its work does not replace a process that has done its share.
    with context.Pool(workers, maxtasksperchild=STORIES_PER_WORKER) as pool:
        for told in pool.imap_unordered(tell, seeds):
            number += 1
            sums.update(told.counts)
            if told.reason:
                failed += 1
                sys.stdout.write(f"--- seed {told.seed} fails: {told.reason}\n")
                sys.stdout.write("\n".join(told.lines[-LINES_SHOWN:]) + "\n")
            if time.monotonic() - shown > SHOW_SECONDS or number == len(seeds):
                shown = time.monotonic()
                rate = 60 * number / (shown - started)
                words = ", ".join(f"{count} {name}" for name, count in sums.items())
                sys.stdout.write(
                    f"{number} of {len(seeds)}, {failed} fail, {rate:.0f} a minute, {words}\n"
                )
                sys.stdout.flush()
    return failed
