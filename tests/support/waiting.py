"""Waiting for a condition with a deadline, for tests of processes that nobody notifies about."""

import time
from collections.abc import Callable

INTERVAL_SECONDS = 0.05


def wait_until(
    condition: Callable[[], bool],
    timeout_seconds: float,
    describe: Callable[[], str],
    interval_seconds: float = INTERVAL_SECONDS,
) -> None:
    """Return when the condition holds; it may raise to give up early.

    Raises: TimeoutError with what `describe` says at the deadline.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_seconds} s: {describe()}")
        time.sleep(interval_seconds)
