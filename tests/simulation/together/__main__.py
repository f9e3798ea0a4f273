"""Many stories of clients and clusters: `python -m tests.simulation.together [FIRST [COUNT]]`.

Each failing seed is printed with the end of its timeline; SEED tells a single one, with all of it.
SIM_PROCESSES says how many processes there are, all cores without it.
"""

import multiprocessing
import os
import sys
import time

from tests.simulation.together.telling import tell

SHOW_SECONDS = 15.0
STORIES_PER_WORKER = 200


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; returns the exit status."""
    chosen = os.environ.get("SEED")
    if chosen is not None:
        told = tell(int(chosen))
        sys.stdout.write("\n".join(told.lines) + f"\n{told.reason or 'it ends well'}\n")
        return 1 if told.reason else 0
    first = int(arguments[0]) if arguments else 0
    count = int(arguments[1]) if len(arguments) > 1 else 100
    workers = int(os.environ.get("SIM_PROCESSES", str(os.cpu_count() or 1)))
    return _tell_all(range(first, first + count), workers)


def _tell_all(seeds: range, workers: int) -> int:
    """Tell the stories in processes that are renewed, so that none can grow."""
    failed, sent, handed, number = 0, 0, 0, 0
    started = shown = time.monotonic()
    context = multiprocessing.get_context("forkserver")
    # An executor that has all its work does not replace a process that has done its share.
    with context.Pool(workers, maxtasksperchild=STORIES_PER_WORKER) as pool:
        for told in pool.imap_unordered(tell, seeds):
            number += 1
            sent += told.sent
            handed += told.handed
            if told.reason:
                failed += 1
                sys.stdout.write(f"--- seed {told.seed} fails: {told.reason}\n")
                sys.stdout.write("\n".join(told.lines) + "\n")
            if time.monotonic() - shown > SHOW_SECONDS or number == len(seeds):
                shown = time.monotonic()
                rate = 60 * number / (shown - started)
                sys.stdout.write(
                    f"{number} of {len(seeds)}, {failed} fail, {rate:.0f} a minute,"
                    f" {sent} records sent, {handed} handed out\n"
                )
                sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
