"""Clocks that stand still until a test moves them."""

from dataclasses import dataclass


@dataclass(kw_only=True)
class HandClock:
    """One time for both readings, which a test sets as it likes."""

    now_ms: int = 1_800_000_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class SimulatedClock:
    """Monotonic and wall time, moved together by `advance`; the wall can also jump alone."""

    def __init__(self, monotonic_ms: int = 0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ns = monotonic_ms * 1_000_000
        self._wall_ahead_ns = wall_ms * 1_000_000 - self._monotonic_ns

    def monotonic_ms(self) -> int:
        return self._monotonic_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def wall_ms(self) -> int:
        return (self._monotonic_ns + self._wall_ahead_ns) // 1_000_000

    def advance(self, duration_ms: float) -> None:
        if duration_ms < 0:
            raise ValueError("time does not go back")
        self._monotonic_ns += int(duration_ms * 1_000_000)

    def jump_wall(self, by_ms: int) -> None:
        """What an administrator or NTP does: the wall moves, nothing else does."""
        self._wall_ahead_ns += by_ms * 1_000_000
