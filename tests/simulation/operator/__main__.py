"""Many stories of the operator: `python -m tests.simulation.operator [FIRST [COUNT]]`.

Each failing seed is printed with the end of its timeline; SEED tells a single one, with all of it.
SIM_PROCESSES says how many processes there are, all cores without it; BUG plants one again.
"""

import os
import sys
from functools import partial

from tests.simulation.many import tell_many
from tests.simulation.operator.bugs import tell_with
from tests.simulation.operator.story import tell


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
    return 1 if tell_many(story, range(first, first + count)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
