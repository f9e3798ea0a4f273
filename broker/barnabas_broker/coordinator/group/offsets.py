"""The committed offsets of one shard, with an undo journal and the pending ones of transactions.

Not here: who may commit (`commits.py`) and when offsets expire (`expiry.py`). Source: OFS-5,
formats.md 10 for transactional batches.

Invariants: rolling back to a sequence number restores exactly what was there before the command of
that number; an offset of a transaction shows only after its commit marker, and not even then if a
later record of the same key is in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from barnabas_broker.coordinator.group.records import CommittedOffset, OffsetKey

TopicPartitionKey = tuple[str, int]

_NOTHING: Mapping[TopicPartitionKey, CommittedOffset] = {}


class OffsetStore:
    """Offsets by group and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartitionKey, CommittedOffset]] = {}
        # By producer id; None marks one that a later record of the same key has superseded.
        self._pending: dict[int, dict[OffsetKey, CommittedOffset | None]] = {}
        self._sequence = 0
        self._keeps_journal = False
        # Sequence number, producer id (None: the committed ones), key, what was there before.
        self._journal: deque[tuple[int, int | None, OffsetKey, CommittedOffset | None]] = deque()

    # ---- reading -------------------------------------------------------------------------------

    def of_group(self, group_id: str) -> Mapping[TopicPartitionKey, CommittedOffset]:
        """Return the group's offsets by topic and partition; the mapping is the store's own."""
        return self._groups.get(group_id, _NOTHING)

    def group_ids(self) -> Iterator[str]:
        """Return the groups that have offsets, committed or pending."""
        yield from [group_id for group_id, offsets in self._groups.items() if offsets]
        yield from {key.group_id for key, _ in self._undecided()}

    def has_any(self, group_id: str) -> bool:
        """Whether the group has an offset, committed or pending."""
        return bool(self._groups.get(group_id)) or self.has_pending_of(group_id)

    def is_pending(self, key: OffsetKey, since_ms: int = -1) -> bool:
        """Whether an undecided transaction has an offset for the key, committed after `since_ms`.

        One that a later record of the key has superseded does not count: nothing comes of it.
        """
        for keys in self._pending.values():
            committed = keys.get(key)
            if committed is not None and committed.commit_ms > since_ms:
                return True
        return False

    def has_pending_of(self, group_id: str) -> bool:
        """Whether an undecided transaction has an offset of the group."""
        return any(key.group_id == group_id for key, _ in self._undecided())

    def pending_of(self, group_id: str) -> Mapping[TopicPartitionKey, CommittedOffset]:
        """Return what undecided transactions have for the group."""
        if not self._pending:
            return _NOTHING
        return {
            (key.topic, key.partition): committed
            for key, committed in self._undecided()
            if key.group_id == group_id
        }

    def _undecided(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for keys in self._pending.values():
            for key, committed in keys.items():
                if committed is not None:
                    yield key, committed

    def count(self) -> int:
        """Return how many offsets are committed."""
        return sum(map(len, self._groups.values()))

    def all_offsets(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Return group, topic, partition and offset of all that are committed."""
        for group_id, offsets in self._groups.items():
            for (topic, partition), committed in offsets.items():
                yield group_id, topic, partition, committed

    # ---- changing ------------------------------------------------------------------------------

    def put(self, key: OffsetKey, committed: CommittedOffset) -> None:
        """Set an offset."""
        self._supersede_pending(key)
        offsets = self._groups.setdefault(key.group_id, {})
        self._note(None, key, offsets.get((key.topic, key.partition)))
        offsets[key.topic, key.partition] = committed

    def remove(self, key: OffsetKey) -> None:
        """Remove an offset, if there is one."""
        self._supersede_pending(key)
        offsets = self._groups.get(key.group_id)
        if offsets is None:
            return
        before = offsets.pop((key.topic, key.partition), None)
        if before is not None:
            self._note(None, key, before)

    def forget_group(self, group_id: str) -> None:
        """Free what is kept for a group that has no offsets."""
        if not self._groups.get(group_id):
            self._groups.pop(group_id, None)

    def put_pending(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """Keep an offset until the producer's transaction ends."""
        self._pending.setdefault(producer_id, {})[key] = committed

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Take over or drop the pending offsets of a producer."""
        for key, committed in self._pending.pop(producer_id, {}).items():
            if is_committed and committed is not None:
                self.put(key, committed)

    # ---- undoing -------------------------------------------------------------------------------

    def start_journal(self) -> None:
        """Keep what is needed to undo from now on; replay does not need it."""
        self._keeps_journal = True

    def begin(self, sequence: int) -> None:
        """Note changes under this number from now on."""
        self._sequence = sequence

    def committed(self, sequence: int) -> None:
        """Forget how to undo the changes up to this number."""
        journal = self._journal
        while journal and journal[0][0] <= sequence:
            journal.popleft()

    def roll_back(self, sequence: int) -> None:
        """Undo the changes from this number on, the newest first."""
        journal = self._journal
        while journal and journal[-1][0] >= sequence:
            _, producer_id, key, before = journal.pop()
            if producer_id is not None:
                pending = self._pending.get(producer_id)
                if pending is not None and key in pending:
                    pending[key] = before
            elif before is None:
                self._groups.get(key.group_id, {}).pop((key.topic, key.partition), None)
            else:
                self._groups.setdefault(key.group_id, {})[key.topic, key.partition] = before

    def _supersede_pending(self, key: OffsetKey) -> None:
        for producer_id, keys in self._pending.items():
            before = keys.get(key)
            if before is not None:
                self._note(producer_id, key, before)
                keys[key] = None

    def _note(
        self, producer_id: int | None, key: OffsetKey, before: CommittedOffset | None
    ) -> None:
        if self._keeps_journal:
            self._journal.append((self._sequence, producer_id, key, before))
