"""The committed offsets of one shard, and the pending ones of transactions.

Not here: who may commit (`commits.py`) and when offsets expire (`expiry.py`). Source: OFS-5,
TXN-12; formats.md 10 for transactional batches.

Invariants: rolling back to a sequence number restores exactly what was there before the command of
that number; an offset of a transaction shows only after its commit marker, and not even then if a
later record of the same key is in the log. Later is what was written later: an offset of a
transaction that is still open does not yield to one that was written before it and is published
now. One that has yielded is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas_broker.coordinator.group.records import CommittedOffset, OffsetKey
from barnabas_broker.coordinator.runtime.journal import UndoJournal

TopicPartitionKey = tuple[str, int]


class _Pending(NamedTuple):
    """An offset that waits for the end of a transaction, and when it was written."""

    committed: CommittedOffset
    order: int


_NOTHING: Mapping[TopicPartitionKey, CommittedOffset] = {}


class OffsetStore:
    """Offsets by group and partition."""

    def __init__(self, journal: UndoJournal) -> None:
        self._groups: dict[str, dict[TopicPartitionKey, CommittedOffset]] = {}
        # Group, then topic and partition, then producer id.
        self._pending: dict[str, dict[TopicPartitionKey, dict[int, _Pending]]] = {}
        # Producer id -> what it has pending; the values mean nothing, the order is that of writing.
        self._keys_of: dict[int, dict[OffsetKey, None]] = {}
        self._order = 0
        self._count = 0
        self._metadata_bytes = 0
        self._journal = journal

    # ---- reading -------------------------------------------------------------------------------

    def of_group(self, group_id: str) -> Mapping[TopicPartitionKey, CommittedOffset]:
        """Return the group's offsets by topic and partition; the mapping is the store's own."""
        return self._groups.get(group_id, _NOTHING)

    def group_ids(self) -> Iterator[str]:
        """Return the groups that have offsets, committed or pending."""
        yield from [group_id for group_id, offsets in self._groups.items() if offsets]
        yield from [group_id for group_id in self._pending if not self._groups.get(group_id)]

    def has_any(self, group_id: str) -> bool:
        """Whether the group has an offset, committed or pending."""
        return bool(self._groups.get(group_id)) or self.has_pending_of(group_id)

    def is_pending(self, key: OffsetKey, since_ms: int = -1) -> bool:
        """Whether an undecided transaction has an offset for the key, committed after `since_ms`.

        One that a later record of the key has superseded does not count: nothing comes of it.
        """
        return any(
            pending.committed.commit_ms > since_ms for pending in self._pending_at(key).values()
        )

    def has_pending_of(self, group_id: str) -> bool:
        """Whether an undecided transaction has an offset of the group."""
        return group_id in self._pending

    def pending_of(self, group_id: str) -> Mapping[TopicPartitionKey, CommittedOffset]:
        """Return what undecided transactions have for the group, the newest of each partition."""
        return {
            topic_partition: max(by_producer.values(), key=lambda one: one.order).committed
            for topic_partition, by_producer in self._pending.get(group_id, {}).items()
        }

    def undecided(self) -> Iterator[tuple[int, OffsetKey, CommittedOffset]]:
        """Yield the producer id, key and offset of all that waits for the end of a transaction."""
        for group_id, by_partition in self._pending.items():
            for (topic, partition), by_producer in by_partition.items():
                for producer_id, pending in by_producer.items():
                    yield producer_id, OffsetKey(group_id, topic, partition), pending.committed

    def _pending_at(self, key: OffsetKey) -> Mapping[int, _Pending]:
        return self._pending.get(key.group_id, {}).get((key.topic, key.partition), {})

    def count(self) -> int:
        """Return how many offsets are kept, those of open transactions included."""
        return self._count

    def metadata_bytes(self) -> int:
        """Return how much metadata is kept with them."""
        return self._metadata_bytes

    def all_offsets(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Return group, topic, partition and offset of all that are committed."""
        for group_id, offsets in self._groups.items():
            for (topic, partition), committed in offsets.items():
                yield group_id, topic, partition, committed

    # ---- changing ------------------------------------------------------------------------------

    def put(self, key: OffsetKey, committed: CommittedOffset) -> None:
        """Set an offset."""
        self._supersede_pending(key, self._next_order())
        self._put(key, committed)

    def _put(self, key: OffsetKey, committed: CommittedOffset) -> None:
        offsets = self._groups.setdefault(key.group_id, {})
        before = offsets.get((key.topic, key.partition))
        self._journal.note(self._restore, key, before)
        self._account(before, committed)
        offsets[key.topic, key.partition] = committed

    def remove(self, key: OffsetKey) -> None:
        """Remove an offset, if there is one."""
        self._supersede_pending(key, self._next_order())
        offsets = self._groups.get(key.group_id)
        if offsets is None:
            return
        before = offsets.pop((key.topic, key.partition), None)
        if before is not None:
            self._account(before, None)
            self._journal.note(self._restore, key, before)

    def forget_group(self, group_id: str) -> None:
        """Free what is kept for a group that has no offsets."""
        if not self._groups.get(group_id):
            self._groups.pop(group_id, None)

    def put_pending(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """Keep an offset until the producer's transaction ends."""
        pending = _Pending(committed, self._next_order())
        self._change_pending(producer_id, key, pending)

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Take over or drop the pending offsets of a producer."""
        for key in list(self._keys_of.get(producer_id, ())):
            pending = self._pending_at(key)[producer_id]
            self._change_pending(producer_id, key, None)
            if is_committed:
                self._supersede_pending(key, pending.order)
                self._put(key, pending.committed)

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def _supersede_pending(self, key: OffsetKey, order: int) -> None:
        """Drop what transactions have for a key that is written later, at this place."""
        older = [
            producer_id
            for producer_id, pending in self._pending_at(key).items()
            if pending.order < order
        ]
        for producer_id in older:
            self._change_pending(producer_id, key, None)

    def _change_pending(self, producer_id: int, key: OffsetKey, pending: _Pending | None) -> None:
        """Set or drop what a producer has pending for a key, in a way that can be undone."""
        before = self._pending_at(key).get(producer_id)
        self._journal.note(self._set_pending, producer_id, key, before)
        self._set_pending(producer_id, key, pending)

    def _set_pending(self, producer_id: int, key: OffsetKey, pending: _Pending | None) -> None:
        group_id, topic_partition = key.group_id, (key.topic, key.partition)
        known = self._pending_at(key).get(producer_id)
        self._account(known and known.committed, pending and pending.committed)
        if pending is not None:
            by_partition = self._pending.setdefault(group_id, {})
            by_partition.setdefault(topic_partition, {})[producer_id] = pending
            self._keys_of.setdefault(producer_id, {})[key] = None
            return
        by_producer = self._pending_at(key)
        if producer_id not in by_producer:
            return
        by_partition = self._pending[group_id]
        del by_partition[topic_partition][producer_id]
        if not by_partition[topic_partition]:
            del by_partition[topic_partition]
        if not by_partition:
            del self._pending[group_id]
        keys = self._keys_of[producer_id]
        del keys[key]
        if not keys:
            del self._keys_of[producer_id]

    # ---- undoing -------------------------------------------------------------------------------

    def _restore(self, key: OffsetKey, before: CommittedOffset | None) -> None:
        if before is None:
            gone = self._groups.get(key.group_id, {}).pop((key.topic, key.partition), None)
            self._account(gone, None)
        else:
            offsets = self._groups.setdefault(key.group_id, {})
            self._account(offsets.get((key.topic, key.partition)), before)
            offsets[key.topic, key.partition] = before

    # ---- counting ------------------------------------------------------------------------------

    def _account(self, before: CommittedOffset | None, after: CommittedOffset | None) -> None:
        """Count that one offset takes the place of another, or comes, or goes."""
        if before is not None:
            self._count -= 1
            if before.metadata:
                self._metadata_bytes -= len(before.metadata.encode())
        if after is not None:
            self._count += 1
            if after.metadata:
                self._metadata_bytes += len(after.metadata.encode())
