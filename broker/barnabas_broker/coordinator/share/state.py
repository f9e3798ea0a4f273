"""What is kept of one share partition, and what a write makes of it. Pure values.

Not here: who may write (`shard.py`), bytes (`records.py`). Source: SHR-23, SHR-25, SHR-26.

Invariant: a snapshot holds all of the state; an update changes it as its replay does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from barnabas_broker.coordinator.share.batches import UNKNOWN_START, merge
from barnabas_broker.share.persister import ShareState, ShareStateSummary, StateBatch

UNKNOWN_COUNT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """A change of a share partition; start offset -1 leaves the start."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshot:
    """A share partition as a whole; times are wall time in milliseconds."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...] = ()
    # Updates since the snapshot in the log that this rests on; not in any record.
    update_count: int = 0

    @property
    def read(self) -> ShareState:
        """The state as its reader gets it."""
        return ShareState(self.state_epoch, self.start_offset, self.batches)

    @property
    def summary(self) -> ShareStateSummary:
        """The state without its batches."""
        return ShareStateSummary(
            self.state_epoch, self.leader_epoch, self.start_offset, self.delivery_complete_count
        )

    def update(
        self,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> ShareUpdate:
        """Return what a write changes: the start never falls.

        The count belongs to the start that it was counted from. One of an older start says nothing;
        of two for the same start the higher is the newer.
        """
        if start_offset in (UNKNOWN_START, self.start_offset):
            count = max(delivery_complete_count, self.delivery_complete_count)
        elif start_offset < self.start_offset:
            count = self.delivery_complete_count
        else:
            count = delivery_complete_count
        start_offset = max(start_offset, self.start_offset)
        return ShareUpdate(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=merge((), batches, start_offset),
        )

    def updated(self, update: ShareUpdate) -> ShareSnapshot:
        """Return the state after an update; epochs and start of -1 leave what there is."""
        start_offset = self.start_offset
        if update.start_offset != UNKNOWN_START:
            start_offset = update.start_offset
        return replace(
            self,
            leader_epoch=max(self.leader_epoch, update.leader_epoch),
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=merge(self.batches, update.batches, start_offset),
            update_count=self.update_count + 1,
        )

    def renewed(self, now_ms: int, *, is_cold: bool = False) -> ShareSnapshot:
        """Return the same state as the next snapshot; a cold one keeps when it was created."""
        return replace(
            self,
            snapshot_epoch=self.snapshot_epoch + 1,
            created_ms=self.created_ms if is_cold else now_ms,
            written_ms=now_ms,
            update_count=0,
        )
