"""Many stories of clusters over all cores: `python -m tests.simulation.cluster [FIRST [COUNT]]`.

A run that is interrupted goes on where it was when it is started again with the same first seed and
count; SIM_STATE names the file that remembers it, SIM_FRESH=1 forgets it. Each failing story is
printed; the first few are made small (SIM_SHRINK says how many, 3 without it). SEED tells a single
one in all detail, SEED with SHRINK=1 makes it small. SIM_WITH names features that every story has
besides what its seed draws, SIM_WITHOUT those that none has. SIM_SEEDS, SIM_FIRST and SIM_PROCESSES
are count, first seed and how many processes.
"""

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from tests.simulation.cluster.run_state import RunState, default_path
from tests.simulation.cluster.telling import Part, smallest, tell_one, tell_part

PARTS_PER_WORKER = 50
SAVE_SECONDS = 5.0


def main(arguments: list[str]) -> int:
    """Run what the arguments and the environment ask for; returns the exit status."""
    chosen = os.environ.get("SEED")
    if chosen is not None:
        return tell_one(int(chosen))
    first = int(arguments[0] if arguments else os.environ.get("SIM_FIRST", "0"))
    count = int(arguments[1] if len(arguments) > 1 else os.environ.get("SIM_SEEDS", "200"))
    named = os.environ.get("SIM_STATE")
    path = Path(named) if named else default_path(first, count)
    fresh = bool(os.environ.get("SIM_FRESH")) or not (named or len(arguments) > 1)
    state = RunState(first, count) if fresh else RunState.load(path, first, count)
    if state.told:
        sys.stdout.write(f"{state.told} of {count} seeds were told before, by {path}\n")
    revision = _revision()
    if revision not in state.revisions:
        state.revisions.append(revision)
    workers = int(os.environ.get("SIM_PROCESSES", str(os.cpu_count() or 1)))
    _tell_missing(state, path, workers)
    sys.stdout.write("\n".join(state.summary()) + "\n")
    return 1 if state.failed_seeds else 0


def _revision() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def _tell_missing(state: RunState, path: Path, workers: int) -> None:
    """Tell the parts that are missing. Processes are renewed, so that none can grow."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.simulation.cluster.telling"])
    left = state.missing()[::-1]
    small_left = int(os.environ.get("SIM_SHRINK", "3"))
    before, started, saved = state.seconds, time.monotonic(), 0.0
    with ProcessPoolExecutor(
        workers, mp_context=context, max_tasks_per_child=PARTS_PER_WORKER
    ) as pool:
        running: set[Future[Part]] = set()
        small: list[Future[str]] = []
        while left or running:
            while left and len(running) < 2 * workers:
                part = left.pop()
                running.add(pool.submit(tell_part, part, state.seeds_of(part)))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                number, failures, exercised = future.result()
                state.done(number, [seed for seed, _ in failures], exercised)
                for seed, reason in failures:
                    repeat = f"repeat it with: make sim SEED={seed}"
                    sys.stdout.write(f"--- seed {seed} fails; {repeat}\n{reason}\n")
                    if small_left:
                        small_left -= 1
                        small.append(pool.submit(smallest, seed))
            state.seconds = before + time.monotonic() - started
            if state.seconds - saved > SAVE_SECONDS or not (left or running):
                saved = state.seconds
                state.save(path)
                _show_rate(state)
        for story in small:
            sys.stdout.write(f"--- {story.result()}\n")


def _show_rate(state: RunState) -> None:
    rate = 60 * state.told / max(state.seconds, 0.001)
    sys.stdout.write(
        f"{state.told} of {state.count}, {len(state.failed_seeds)} fail, {rate:.0f} a minute\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
