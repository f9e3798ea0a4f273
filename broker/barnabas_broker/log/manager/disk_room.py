"""How much room a volume has left, and what that means: pure.

| state | entered below | what stops |
|---|---|---|
| LOW | 2 R | new replicas, where another broker has room |
| FULL | R | producing to client topics |
| CRITICAL | R / 2 | following client topics, too |

R is the reserve: a share of the volume within bounds, and never more than a tenth of it, so that a
small volume stays usable. A state is left at 1.25 times the bound by which it was entered. What the
broker itself needs (internal topics, the metadata log, checkpoints) goes on in all of them.

Not here: reading the file system and acting on it (`disk_guard`). Source: VOL-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

SHARE_OF_VOLUME_MAX: Final = 10
"""The reserve is at most one part in this many of a volume."""


class Room(IntEnum):
    """How much room there is; the higher, the worse."""

    ENOUGH = 0
    LOW = 1
    FULL = 2
    CRITICAL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """How much of a volume is kept free; a `bytes_max` of 0 keeps nothing free."""

    percent: int
    bytes_min: int
    bytes_max: int

    def of(self, total_bytes: int) -> int:
        """The reserve of a volume of that size."""
        wanted = min(max(total_bytes * self.percent // 100, self.bytes_min), self.bytes_max)
        return min(wanted, total_bytes // SHARE_OF_VOLUME_MAX)


def room_of(free_bytes: int, reserve_bytes: int, before: Room) -> Room:
    """The state of a volume with that many bytes free, which was in another until now."""
    for room, bound in (
        (Room.CRITICAL, reserve_bytes // 2),
        (Room.FULL, reserve_bytes),
        (Room.LOW, 2 * reserve_bytes),
    ):
        if free_bytes < (bound * 5 // 4 if before >= room else bound):
            return room
    return Room.ENOUGH
