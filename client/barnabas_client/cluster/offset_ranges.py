"""The offsets that a partition holds: lag of a group, and where a reset of its offsets goes.

Pure arithmetic, for whoever looks at groups from outside: command line, operator, pipelines.

Source: Kafka's `kafka-consumer-groups --reset-offsets`; CON-5 for offsets outside of the log.
Invariants: lag and lost records are never negative; the offset of a reset is one that the partition
holds, or its end.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class OffsetRange(NamedTuple):
    """The log start offset of a partition, and the offset behind its last record (exclusive)."""

    start: int
    end: int

    def clamped(self, offset: int) -> int:
        """The offset, or the end of the range that is nearest to it."""
        return min(max(offset, self.start), self.end)

    def position(self, committed: int) -> int:
        """Where a group that has committed this offset reads on: records may have been deleted."""
        return max(committed, self.start)

    def lag(self, committed: int) -> int:
        """How many offsets the group has left to read; deleted records do not count."""
        return lag_behind(self.end, self.position(committed))

    def lost_count(self, committed: int) -> int:
        """How many offsets were deleted before the group read them."""
        return max(self.start - committed, 0)


def lag_behind(end: int, position: int) -> int:
    """How many offsets are left from the position to the end; 0 if the log was truncated below."""
    return max(end - position, 0)


class ResetTarget(Enum):
    """Where a reset of a group's offsets goes."""

    EARLIEST = "earliest"
    LATEST = "latest"
    #: What is committed; the end where nothing is.
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT_BY = "shift by"
    #: An offset that was looked up, by a timestamp or in a file; the end where none was found.
    LOOKED_UP = "looked up"


class ResetOffset(NamedTuple):
    """The offset that a reset commits, and the one that was wanted, which may not exist."""

    offset: int
    wanted: int


def reset_offset(
    target: ResetTarget,
    held: OffsetRange,
    *,
    committed: int | None = None,
    value: int | None = None,
) -> ResetOffset:
    """Where one partition goes.

    `value` is the offset, the distance of a shift, or the offset that was looked up. A shift counts
    from 0 where nothing is committed.
    """
    match target:
        case ResetTarget.EARLIEST:
            wanted = held.start
        case ResetTarget.LATEST:
            wanted = held.end
        case ResetTarget.CURRENT:
            wanted = held.end if committed is None else committed
        case ResetTarget.OFFSET:
            wanted = value or 0
        case ResetTarget.SHIFT_BY:
            wanted = (committed or 0) + (value or 0)
        case ResetTarget.LOOKED_UP:
            wanted = held.end if value is None else value
    return ResetOffset(held.clamped(wanted), wanted)
