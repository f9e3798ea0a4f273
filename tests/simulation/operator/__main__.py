"""Many stories of the operator: `python -m tests.simulation.operator [FIRST [COUNT]]`.

Each failing seed is printed with the end of its timeline; SEED tells a single one, with all of it.
SIM_PROCESSES says how many processes there are, all cores without it; BUG plants one again.
"""

import multiprocessing
import os
import sys
import time
from functools import partial

from tests.simulation.operator.bugs import tell_with
from tests.simulation.operator.story import tell

SHOW_SECONDS = 15.0
STORIES_PER_WORKER = 200
LINES_SHOWN = 40


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; returns the exit status."""
    bug = os.environ.get("BUG", "")
    story = partial(tell_with, bug) if bug else tell
    chosen = os.environ.get("SEED")
    if chosen is not None:
        told = story(int(chosen))
        sys.stdout.write("\n".join(told.lines) + f"\n{told.reason or 'it ends well'}\n")
        return 1 if told.reason else 0
    first = int(arguments[0]) if arguments else 0
    count = int(arguments[1]) if len(arguments) > 1 else 100
    workers = int(os.environ.get("SIM_PROCESSES", str(os.cpu_count() or 1)))
    failed = number = deeds = 0
    started = shown = time.monotonic()
    with multiprocessing.get_context("forkserver").Pool(
        workers, maxtasksperchild=STORIES_PER_WORKER
    ) as pool:
        for told in pool.imap_unordered(story, range(first, first + count)):
            number += 1
            deeds += told.deeds
            if told.reason:
                failed += 1
                sys.stdout.write(f"--- seed {told.seed} fails: {told.reason}\n")
                sys.stdout.write("\n".join(told.lines[-LINES_SHOWN:]) + "\n")
            if time.monotonic() - shown > SHOW_SECONDS or number == count:
                shown = time.monotonic()
                rate = number / (shown - started)
                sys.stdout.write(
                    f"{number} of {count}, {failed} fail, {rate:.1f} a second, {deeds} deeds\n"
                )
                sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
