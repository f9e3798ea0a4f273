"""Runs histories by seed over all cores, and shrinks those that fail.

    python -m tests.broker.coordinator.model FIRST COUNT [FAULT]

With a fault (the beginning of its name in `faults.py`), tells how many histories find it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial

from tests.broker.coordinator.model.faults import FAULTS, planted
from tests.broker.coordinator.model.history import Step, history
from tests.broker.coordinator.model.world import run_history

SHOWN_MAX = 3


def violation_of(seed: int, fault: str | None = None) -> str | None:
    """Run one history; what was violated."""
    with nullcontext() if fault is None else planted(fault):
        error, _ = run_history(seed, history(seed))
    return None if error is None else f"{type(error).__name__}: {error}"


def shrunk(seed: int, steps: list[Step]) -> list[Step]:
    """Return fewer steps that fail in the same way: halves are left out, then ever less."""
    error, _ = run_history(seed, steps)
    kind = str(error)[:20]

    def fails(rest: list[Step]) -> bool:
        other, _ = run_history(seed, rest)
        return other is not None and str(other)[:20] == kind

    return shortest(steps, fails)


def shortest(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Leave out what is not needed for the failure."""
    size = max(len(steps) // 2, 1)
    while True:
        at = 0
        while at < len(steps):
            rest = steps[:at] + steps[at + size :]
            if fails(rest):
                steps = rest
            else:
                at += size
        if size == 1:
            return steps
        size //= 2


def main(arguments: list[str]) -> int:
    """Run what the command line says."""
    first, count = int(arguments[0]), int(arguments[1])
    fault = next((name for name in FAULTS if arguments[2:] and name.startswith(arguments[2])), None)
    if arguments[2:] and fault is None:
        raise SystemExit(f"no fault begins with {arguments[2]!r}")
    seeds = range(first, first + count)
    started = time.perf_counter()
    with ProcessPoolExecutor() as pool:
        outcomes = pool.map(partial(violation_of, fault=fault), seeds, chunksize=20)
        failed = {seed: told for seed, told in zip(seeds, outcomes, strict=True) if told}
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{count} histories from seed {first}, {count / seconds:.1f} a second: ")
    sys.stdout.write(f"{len(failed)} failed{'' if fault is None else f' with {fault!r}'}\n")
    for seed, told in list(failed.items())[:SHOWN_MAX]:
        sys.stdout.write(f"\nseed {seed}: {told}\n")
        with nullcontext() if fault is None else planted(fault):
            steps = shrunk(seed, history(seed))
            _, lines = run_history(seed, steps)
        sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failed and fault is None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
