"""`python -m benchmarks.console_loop REPORT …`: the `barnabas` command, its event loop watched.

Notes how much processor time each turn of a callback takes, and whose it was. Processor time, not
time by the clock: a turn that a crowded machine interrupts holds nobody's loop by its own doing.
Collections of garbage are a kind of their own, since they fall on any turn. At the end the longest
turns stand in the file REPORT, as JSON: `[[milliseconds, how many above 10, what], …]`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from barnabas_cli.main import main

_KEPT: Final = 40
_NOTED_MS: Final = 2.0

#: The longest turn of each kind, in milliseconds, and how many were longer than 10 ms.
_longest: dict[str, float] = {}
_long_counts: dict[str, int] = {}
LONG_MS: Final = 10.0
#: Of the turn that runs now: when its collections began, and what they have taken, in seconds.
_collections: dict[str, float] = {"began": 0.0, "taken": 0.0}


def _name(callback: Any) -> str:
    """Whose turn it is: of a task its coroutine, and the innermost one that goes on."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", callback))
    outer = inner = task.get_coro()
    while (waits_for := _waits_for(inner)) is not None:
        inner = waits_for
    return f"{_place(outer)} > {_place(inner)}"


def _waits_for(one: Any) -> Any:
    """The coroutine or generator that this one waits for; None where it is the innermost."""
    for name in ("cr_await", "ag_await", "gi_yieldfrom"):
        found = getattr(one, name, None)
        if found is not None and _frame(found) is not None:
            return found
    return None


def _frame(one: Any) -> Any:
    names = ("cr_frame", "ag_frame", "gi_frame")
    return next((frame for name in names if (frame := getattr(one, name, None))), None)


def _place(one: Any) -> str:
    frame = _frame(one)
    line = "" if frame is None else f":{frame.f_lineno}"
    return f"{getattr(one, '__qualname__', one)}{line}"


def watch() -> None:
    """Watch all turns of this process from the first request on: a start holds nobody."""
    handle: Any = asyncio.events.Handle
    run = handle._run
    has_begun = False

    def timed(self: Any) -> None:
        nonlocal has_begun
        callback = self._callback
        if callback is None:
            return
        name = _name(callback)
        has_begun = has_begun or name.startswith("RequestHandler")
        _collections["taken"] = 0.0
        began = time.thread_time()
        run(self)
        collecting = _collections["taken"]
        if has_begun:
            _note(name, time.thread_time() - began - collecting)
            _note("a collection of garbage", collecting)

    handle._run = timed
    gc.callbacks.append(_see_collection)


def _see_collection(phase: str, _: dict[str, int]) -> None:
    if phase == "start":
        _collections["began"] = time.thread_time()
    else:
        _collections["taken"] += time.thread_time() - _collections["began"]


def _note(name: str, seconds: float) -> None:
    taken_ms = seconds * 1000
    if taken_ms >= _NOTED_MS:
        _longest[name] = max(taken_ms, _longest.get(name, 0.0))
        if taken_ms > LONG_MS:
            _long_counts[name] = _long_counts.get(name, 0) + 1


def write(report: Path) -> None:
    """Write the longest turns, the longest first."""
    longest = sorted(_longest.items(), key=lambda pair: -pair[1])[:_KEPT]
    rows = [[round(taken_ms, 1), _long_counts.get(name, 0), name] for name, taken_ms in longest]
    report.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    watch()
    path = Path(sys.argv.pop(1))
    try:
        main()
    finally:
        write(path)
