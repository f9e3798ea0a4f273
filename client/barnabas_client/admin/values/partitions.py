"""Values of `admin.partitions`: offsets, elections, reassignments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class OffsetSpec(IntEnum):
    """Which offset of a partition; a timestamp is given as plain milliseconds instead.

    The numbers are the wire's. LATEST is the high watermark, or the last stable offset for
    `read_committed`; MAX_TIMESTAMP is the offset of the record with the largest timestamp.
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """The offset for an `OffsetSpec` or timestamp; all None where no record fits.

    The timestamp is set only in a search by timestamp.
    """

    offset: int | None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


class ElectionType(IntEnum):
    """PREFERRED takes the first replica if in sync, UNCLEAN any that lives: data may be lost."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on the move; `replica_ids` holds those that are added and those that go."""

    replica_ids: tuple[int, ...]
    adding_replica_ids: tuple[int, ...]
    removing_replica_ids: tuple[int, ...]
