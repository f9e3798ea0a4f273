"""What the programs share: their arguments, and how a task is measured.

Only the standard library: every program runs with the Python of the client that it measures. A task
is warmed up with `warm_up_count` records; what counts are the `count` records behind them. CPU is
that of the whole process, the threads of C libraries included.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

LINGER_MS = 5
BATCH_BYTES = 16384
#: So many records a client hands out at once, where it lets one choose.
POLL_COUNT_MAX = 500
# Nothing waits longer than this for the next records.
SILENCE_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Task:
    """What to do."""

    name: str
    bootstrap: str
    topic: str
    warm_up_count: int
    count: int
    record_bytes: int

    def values(self) -> list[bytes]:
        """Some different values to send in turn; none of them compresses."""
        seed = range(self.record_bytes)
        return [bytes((i * 7919 + salt * 131) % 251 for i in seed) for salt in range(16)]


def read_task(*names: str) -> Task:
    """The task of the command line; `names` are those that the program can do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=names)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("warm_up_count", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("record_bytes", type=int)
    return Task(**vars(parser.parse_args()))


class Stopwatch:
    """Runs from its making on."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._began = time.perf_counter()

    def print(self, count: int) -> None:
        """Stop, and print the figures of so many records as the program's answer."""
        seconds = time.perf_counter() - self._began
        cpu_seconds = time.process_time() - self._cpu
        print(json.dumps({"count": count, "seconds": seconds, "cpu_seconds": cpu_seconds}))


class Reading:
    """Counts what a consumer gets and starts the watch when it is warm."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._watch: Stopwatch | None = None
        self._count = 0
        self._watched_from = 0
        self._heard_at = time.monotonic()

    def add(self, count: int) -> bool:
        """Whether the task is done."""
        now = time.monotonic()
        if count:
            self._heard_at = now
        elif now - self._heard_at > SILENCE_SECONDS_MAX:
            raise TimeoutError(f"no records for {SILENCE_SECONDS_MAX} s after {self._count}")
        self._count += count
        task = self._task
        if self._watch is None:
            if self._count >= task.warm_up_count:
                self._watched_from = self._count
                self._watch = Stopwatch()
            return False
        if self._count < task.warm_up_count + task.count:
            return False
        self._watch.print(self._count - self._watched_from)
        return True
