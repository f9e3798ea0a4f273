"""The first process of a container: starts one program, passes signals on, reaps children.

The kernel gives process 1 no default action for signals, and the orphans of all others. A job that
is process 1 itself would not get SIGTERM, and the Python workers of an executor that its JVM left
behind would stay as zombies.

Not here: which program (`command.py`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)
_NOT_FOUND: Final = 127


def run(command: Sequence[str]) -> int:
    """Run the program until it ends; its exit code, or 128 and the signal that ended it.

    Signals that come before the program runs wait for it. Only for a process with one thread.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child == 0:
        _become(command)

    def pass_on(number: int, _: FrameType | None) -> None:
        try:
            os.kill(child, number)
        except ProcessLookupError:
            return  # it has just ended, which the loop below sees

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _become(command: Sequence[str]) -> None:
    """Replace this process, which is the child, by the program."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
    os._exit(_NOT_FOUND)
