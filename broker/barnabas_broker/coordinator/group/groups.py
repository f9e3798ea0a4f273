"""The groups of one shard by id, with what is needed to undo creations and removals.

Not here: what a group is (`classic.py`) and who removes it (`commits.py`, `shard.py`). Only what
records say is undone: a group that a join made is no business of the log before its first record.

Invariants: a group is taken out when its tombstones are decided, so that whatever comes next finds
what replay would find; rolling back to a sequence number gives back what was taken out since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState


class Groups(dict[str, ClassicGroup]):
    """Groups by id; joins put theirs in as into any dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._sequence = 0
        # Sequence number, group, whether it was created (else taken out).
        self._journal: deque[tuple[int, ClassicGroup, bool]] = deque()

    def create(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """Put an Empty group in, for the offsets of a commit."""
        group = ClassicGroup(group_id)
        group.state_changed_ms = wall_ms
        self[group_id] = group
        self._journal.append((self._sequence, group, True))
        return group

    def take_out(self, group: ClassicGroup) -> None:
        """Forget an Empty group whose tombstones are on their way."""
        assert group.is_empty
        del self[group.group_id]
        self._journal.append((self._sequence, group, False))

    # ---- undoing -------------------------------------------------------------------------------

    def begin(self, sequence: int) -> None:
        """Note changes under this number from now on."""
        self._sequence = sequence

    def committed(self, sequence: int) -> None:
        """Forget how to undo the changes up to this number."""
        journal = self._journal
        while journal and journal[0][0] <= sequence:
            journal.popleft()

    def roll_back(self, sequence: int, is_abandoned: Callable[[ClassicGroup], bool]) -> None:
        """Undo the changes from this number on, the newest first; offsets are back already."""
        journal = self._journal
        while journal and journal[-1][0] >= sequence:
            _, group, was_created = journal.pop()
            current = self.get(group.group_id)
            if not was_created:
                self._give_back(group, current)
            elif current is group and is_abandoned(group):
                del self[group.group_id]

    def _give_back(self, group: ClassicGroup, current: ClassicGroup | None) -> None:
        if current is None:
            self[group.group_id] = group
        elif current.is_empty:
            # Nobody has joined the new one yet; who was given an id may still do so.
            group.pending_member_ids |= current.pending_member_ids
            self[group.group_id] = group
        elif current.state is GroupState.PREPARING_REBALANCE:
            # Its members stay, and its next record follows the generation that the log knows.
            current.generation_id = max(current.generation_id, group.generation_id)
