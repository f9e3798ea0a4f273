"""How the console collects cyclic garbage: seldom, and not of what was there at its start.

A collection of everything visits each module, class and function that was ever loaded: that took
the loop 30 to 50 ms at once, in whichever request came upon it (CON-136, CON-174). Source: the gc
module's documentation of `freeze`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (5_000, 5, 20)
"""Young objects before a collection, and how many of each generation before one of the next.

Requests leave no cycles behind; closed connections and exceptions do, a few each.
"""


@contextmanager
def paused() -> Iterator[None]:
    """Load modules without collections, which took a fifth of the time, and exempt what is there.

    A module that is loaded stays; each collection among hundreds of them visits all of it again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def forget_start_up() -> None:
    """Exempt all objects that exist now from collections, and collect less often."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
