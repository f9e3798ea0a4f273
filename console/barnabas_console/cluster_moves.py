"""How far moves and drains have come, and how long they will take: from what was seen before.

Pure but for the clock that callers give. Invariant: a time is told only where something was done
since they were first seen, so that a guess is never shown as knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MOVES_MAX: Final = 10_000
_LEAST_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done, of all there is to do: bytes that new replicas have, or leaders that went."""

    done: int
    total: int


class MoveProgress:
    """What was first seen of each move, by partition."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, int]] = {}

    def seconds_left(self, moves: Mapping[str, Progress], now_ms: int) -> dict[str, float | None]:
        """For each move: until it is done, at the speed since it was first seen; None: not known.

        Moves that are not named are over and forgotten.
        """
        self._first = {name: seen for name, seen in self._first.items() if name in moves}
        left: dict[str, float | None] = {}
        for name, move in moves.items():
            if name not in self._first and len(self._first) < MOVES_MAX:
                self._first[name] = (now_ms, move.done)
            left[name] = self._seconds(name, move, now_ms)
        return left

    def _seconds(self, name: str, move: Progress, now_ms: int) -> float | None:
        if move.done >= move.total:
            return 0.0
        since_ms, first = self._first.get(name, (now_ms, move.done))
        grown = move.done - first
        passed_ms = now_ms - since_ms
        if grown <= 0 or passed_ms < _LEAST_MS:
            return None
        return (move.total - move.done) * passed_ms / grown / 1000


def drain_rows(
    brokers: Sequence[Mapping[str, Any]], progress: MoveProgress, now_ms: int
) -> list[dict[str, Any]]:
    """Brokers that give away what they lead, as far as they tell; and how long the rest takes."""
    draining = [row for row in brokers if row["drain"] is not None]
    known = {
        str(row["id"]): Progress(-row["leaders"], 0)
        for row in draining
        if row["leaders"] is not None
    }
    left = progress.seconds_left(known, now_ms)
    return [
        {
            "broker": row["id"],
            "phase": row["drain"],
            "leaders_left": row["leaders"],
            "seconds_left": left.get(str(row["id"])),
        }
        for row in draining
    ]
