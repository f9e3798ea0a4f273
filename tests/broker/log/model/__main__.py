"""Runs many histories: `python -m tests.broker.log.model [--first N] [--count N] [--jobs N]`.

`--resume FILE` goes on where the last run with that file stopped; `--bug NAME` plants a fault and
counts the histories that find it. A history that finds something is shrunk and printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.broker.log.model.bugs import BUGS, planted
from tests.broker.log.model.history import draw_history, run_history, shrink

BLOCK = 50


def run_block(block: tuple[int, int, str]) -> list[tuple[int, str]]:
    """Seeds that found something, with what, of a range."""
    first, count, bug = block
    found = []
    for seed in range(first, first + count):
        if bug:
            with planted(bug):
                wrong = run_history(seed)
        else:
            wrong = run_history(seed)
        if wrong is not None:
            found.append((seed, wrong))
    return found


def blocks(first: int, count: int, bug: str) -> Iterator[tuple[int, int, str]]:
    """Ranges of seeds, for one process each."""
    for start in range(first, first + count, BLOCK):
        yield start, min(BLOCK, first + count - start), bug


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.log.model")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--bug", choices=sorted(BUGS), default="")
    options = parser.parse_args()
    first = options.first
    if options.resume is not None and options.resume.exists():
        first = int(options.resume.read_text())
    began, done, wrong = time.monotonic(), 0, 0
    with multiprocessing.Pool(options.jobs, maxtasksperchild=20) as pool:
        for found in pool.imap(run_block, blocks(first, options.count, options.bug)):
            done = min(done + BLOCK, options.count)
            wrong += len(found)
            for seed, what in found:
                print(f"seed {seed}: {what}", flush=True)
                if not options.bug:
                    for action in shrink(seed, draw_history(seed)):
                        print(f"    {action.name} {action.first} {action.second}", flush=True)
            if options.resume is not None:
                options.resume.write_text(str(first + done))
    seconds = time.monotonic() - began
    print(
        f"{done} histories from seed {first}, {wrong} found something, "
        f"{done / seconds:.1f} a second"
    )
    return 1 if bool(wrong) != bool(options.bug) else 0


if __name__ == "__main__":
    sys.exit(main())
