"""What a share group has done of records that the log has lost, and how that is taken back.

A log may end earlier than its state says: after an unclean election, or where power took the end of
the only replica. Other records come to those offsets, and nobody has processed them. Only states
are looked at, and first reads: who may be fenced is the share coordinator's.

Source: ours; Apache Kafka never delivers these records. Invariant: nothing is taken back that may
have been done under the present leadership.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_broker.share.persister import SharePartitionKey, ShareState, StateBatch
from barnabas_broker.share.record_states import RecordState

_Place = tuple[bytes, int]  # topic id and partition


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A state as it is without what is lost; `taken_back` is to be written to make it so.

    That has a count above what is kept, or the coordinator would keep the other. Where the start is
    lower than it was, all begins anew there instead.
    """

    start_offset: int
    batches: tuple[StateBatch, ...]
    taken_back: tuple[StateBatch, ...]


def without_lost(state: ShareState, end_offset: int) -> Reclaimed | None:
    """Return the state without what was done at or behind an offset; None if nothing was.

    `end_offset` is where the log ended before anything of the present leader was done in it.
    """
    lost = [batch for batch in state.batches if batch.last_offset >= end_offset]
    if lost and state.start_offset > end_offset:
        return Reclaimed(end_offset, (), ())
    if all(batch.delivery_state == RecordState.AVAILABLE for batch in lost):
        return None
    kept: list[StateBatch] = []
    taken_back: list[StateBatch] = []
    for batch in state.batches:
        first, last, delivery_state, count = (
            batch.first_offset,
            batch.last_offset,
            batch.delivery_state,
            batch.delivery_count,
        )
        if last < end_offset or delivery_state == RecordState.AVAILABLE:
            kept.append(batch)
            continue
        if first < end_offset:
            kept.append(StateBatch(first, end_offset - 1, delivery_state, count))
        again = StateBatch(max(first, end_offset), last, RecordState.AVAILABLE, count + 1)
        taken_back.append(again)
        kept.append(again)
    return Reclaimed(state.start_offset, tuple(kept), tuple(taken_back))


class FirstReads:
    """Which share partitions were read under which leadership of their partitions here."""

    def __init__(self, groups_max: int = 200_000) -> None:
        self._groups_max = groups_max
        self._count = 0
        self._groups: dict[_Place, tuple[int, set[str]]] = {}

    def is_first(self, key: SharePartitionKey, leader_epoch: int) -> bool:
        """Whether nobody has read it under this leadership; never where that can't be noted."""
        known = self._groups.get((key.topic_id, key.partition))
        if known is not None and known[0] == leader_epoch and key.group_id in known[1]:
            return False
        return self._count < self._groups_max

    def note(self, key: SharePartitionKey, leader_epoch: int) -> None:
        """Note that it was read, and what was lost before taken back."""
        place = key.topic_id, key.partition
        known_epoch, groups = self._groups.get(place, (leader_epoch, set[str]()))
        if known_epoch != leader_epoch:
            self._count -= len(groups)
            groups = set()
        if key.group_id not in groups and self._count < self._groups_max:
            groups.add(key.group_id)
            self._count += 1
        self._groups[place] = leader_epoch, groups
