"""Many stories of clients and clusters: `python -m tests.simulation.together [FIRST [COUNT]]`.

Each failing seed is printed with the end of its timeline; SEED tells a single one, with all of it.
SIM_PROCESSES says how many processes there are, all cores without it.
"""

import os
import sys

from tests.simulation.many import tell_many
from tests.simulation.together.telling import tell


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; returns the exit status."""
    chosen = os.environ.get("SEED")
    if chosen is not None:
        told = tell(int(chosen))
        sys.stdout.write("\n".join(told.lines) + f"\n{told.reason or 'it ends well'}\n")
        return 1 if told.reason else 0
    first = int(arguments[0]) if arguments else 0
    count = int(arguments[1]) if len(arguments) > 1 else 100
    return 1 if tell_many(tell, range(first, first + count)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
