"""Is the machine ours alone? Waits for a quiet moment, and tells how much others took meanwhile.

Other work on the machine spoils every figure, and not evenly: a broker with many threads gets a
larger share of a crowded processor than one with a single thread. So each client run waits, for a
bounded time, until the machine is idle, and the report says how much of it others had.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CORES = len(os.sched_getaffinity(0))
_SAMPLE_SECONDS = 1.0
_IDLE_SHARE_MAX = 0.12
# ext4 does not use an inode again for 35 s after its file was removed, and looks at each such one
# anew for every file that is made: a hundred thousand removed files cost the next one half a
# millisecond.
_REMOVED_FILES_SECONDS = 40.0


def busy_seconds() -> float:
    """Processor time of all processes and the kernel since boot, stolen time included."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft_irq, steal = map(int, fields[:8])
    return (user + nice + system + irq + soft_irq + steal) / _TICKS_PER_SECOND


def wait_until_idle(patience_seconds: float) -> None:
    """Return when the machine was nearly idle for a second, or when patience has ended."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        before = busy_seconds()
        time.sleep(_SAMPLE_SECONDS)
        if (busy_seconds() - before) / (_SAMPLE_SECONDS * _CORES) < _IDLE_SHARE_MAX:
            return


def wait_for_removed_files(*, is_quick: bool) -> None:
    """Return when the files that an earlier trial removed do not slow down making new ones."""
    if not is_quick:
        time.sleep(_REMOVED_FILES_SECONDS)


class OthersLoad:
    """Measures from its making on: the machine's busy time that was not ours."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = busy_seconds()

    def share(self, own_cpu_seconds: float) -> float:
        """The share of all cores that went to others, 0 to 1."""
        capacity = (time.monotonic() - self._began) * _CORES
        others = busy_seconds() - self._busy - own_cpu_seconds
        return min(max(others / capacity, 0.0), 1.0) if capacity else 0.0
