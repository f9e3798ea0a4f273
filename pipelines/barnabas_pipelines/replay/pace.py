"""How fast a task may send: so many records a second, evenly. Pure; the caller knows the time."""

from __future__ import annotations

from typing import Final

_SLICES_PER_SECOND: Final = 10


class Pace:
    """The pace of one task; without a rate nothing is held back."""

    def __init__(self, records_per_second: float | None, start_ms: int) -> None:
        self._rate = records_per_second
        self._start_ms = start_ms

    @property
    def slice_records(self) -> int | None:
        """How many records to send at once at most, so that the load is even; None for any."""
        return None if self._rate is None else max(1, int(self._rate / _SLICES_PER_SECOND))

    def wait_ms(self, record_count: int, now_ms: int) -> int:
        """How long to wait before more than `record_count` records may have been sent."""
        if self._rate is None:
            return 0
        due_ms = self._start_ms + round(record_count * 1000 / self._rate)
        return max(0, due_ms - now_ms)


def task_rate(records_per_second: float, task_count: int, slot_count: int) -> float:
    """The share of one task, so that all that run at once stay below the rate together."""
    return records_per_second / max(1, min(task_count, slot_count))
