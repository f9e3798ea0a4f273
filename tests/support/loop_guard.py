"""Nothing that waits for a device may run on the event loop: an fsync there stops every connection.

Looks at the broker's calls of the durable operations of disks, real and simulated, wherever a loop
runs in the calling thread. What tests do to a disk themselves does not count.
"""

import asyncio
import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from barnabas_broker.env.disk import RealDirectory, RealDisk, RealFile
from tests.support.simulated_disk import SimulatedDirectory, SimulatedDisk, SimulatedFile

WAITING = {
    RealFile: ("sync",),
    RealDirectory: ("sync", "write_atomically"),
    RealDisk: ("sync_directory", "write_atomically", "remove_tree"),
    SimulatedFile: ("sync",),
    SimulatedDirectory: ("sync", "write_atomically"),
    SimulatedDisk: ("sync_directory", "write_atomically", "remove_tree"),
}
LINES_MAX = 12


class LoopGuard:
    """The calls that were made on a loop since the last look."""

    def __init__(self) -> None:
        self._calls: list[str] = []

    def take(self) -> list[str]:
        """The calls, each with how it came about; forgets them."""
        calls, self._calls = self._calls, []
        return calls

    def guarded(self, operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """The operation, noting when it is called where it must not be."""

        @functools.wraps(real)
        def call(disk_or_file: Any, *args: Any) -> Any:
            if _is_on_loop(disk_or_file):
                caller = sys._getframe(1).f_globals.get("__name__", "")
                if caller.startswith("barnabas_broker") and "env.disk" not in caller:
                    stack = "".join(traceback.format_stack(limit=LINES_MAX)[:-1])
                    self._calls.append(f"{operation} on the event loop:\n{stack}")
            return real(disk_or_file, *args)

        return call


def _is_on_loop(disk_or_file: Any) -> bool:
    """Whether the caller is on a loop and not in a thread, a simulated one included."""
    if asyncio._get_running_loop() is None:
        return False
    disk = getattr(disk_or_file, "_disk", disk_or_file)
    return not getattr(disk, "is_in_thread", False)


@contextmanager
def guarded_loops() -> Iterator[LoopGuard]:
    """Watch all disks until the end of the block."""
    guard = LoopGuard()
    real = {(kind, name): getattr(kind, name) for kind, names in WAITING.items() for name in names}
    for (kind, name), function in real.items():
        setattr(kind, name, guard.guarded(name, function))
    try:
        yield guard
    finally:
        for (kind, name), function in real.items():
            setattr(kind, name, function)
