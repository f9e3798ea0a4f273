"""What the leader of an epoch knows: whose disk holds how much, and which members must agree.

Pure. Rules 3 and 4 of the control plane (`docs/formats/arbiter.md`). From the moment a change of
the members is sent until its outcome is known, a record needs a majority of the old and of the new
ones: either may be what is stored.
"""

from __future__ import annotations

from barnabas_broker.metadata.quorum.messages import ArbiterView
from barnabas_broker.metadata.quorum.voters import Voter, committed_end_offset, majority_end_offset


class MembersRefusedError(Exception):
    """The members cannot be changed now, or not to these; try again when the reason is gone."""


class NotLeadingError(Exception):
    """This node does not lead the metadata log: what it staged may be lost."""


class Leadership:
    """One epoch of one leader."""

    __slots__ = ("_flushed_ends", "_proposed_members", "_voter", "own_epoch_start", "record")

    def __init__(self, voter: Voter, record: ArbiterView, own_epoch_start: int) -> None:
        self._voter = voter
        self.own_epoch_start = own_epoch_start
        self.record = record  # as last known to be stored
        self._proposed_members: frozenset[Voter] | None = None  # None: no change is under way
        # By voter, observers' too: they may become members. One entry a disk that fetches.
        self._flushed_ends: dict[Voter, int] = {}

    @property
    def configurations(self) -> tuple[frozenset[Voter], ...]:
        """The member sets that must each agree."""
        if self._proposed_members is None:
            return (self.record.members,)
        return (self.record.members, self._proposed_members)

    @property
    def committed(self) -> int:
        """The exclusive offset up to which records are committed, 0 if none is known to be."""
        return committed_end_offset(self.configurations, self._flushed_ends, self.own_epoch_start)

    def acknowledge(self, voter: Voter, end_offset: int) -> None:
        """Take note that everything below the offset is on the disk of a voter."""
        self._flushed_ends[voter] = max(self._flushed_ends.get(voter, 0), end_offset)

    def flushed_end_offset(self, voter: Voter) -> int:
        """How much of this epoch's log is known to be on the disk of a voter."""
        return self._flushed_ends.get(voter, 0)

    def propose_members(self, members: frozenset[Voter], high_watermark: int) -> None:
        """Count on the new members, too, from now on.

        Raises: MembersRefusedError, and then nothing has changed.
        """
        if self._proposed_members is not None:
            raise MembersRefusedError("another change of the members is under way")
        if self._voter not in members:
            raise MembersRefusedError("the leader must stay a member")
        if high_watermark <= self.own_epoch_start:
            raise MembersRefusedError("no record of the leader's own epoch is committed yet")
        held = majority_end_offset(members, self._flushed_ends)
        if held < high_watermark:
            raise MembersRefusedError(
                f"a majority of the new members has the log up to {held} only; it is committed up "
                f"to {high_watermark}"
            )
        self._proposed_members = members

    def stored(self, record: ArbiterView) -> None:
        """Take note of a newer record: what was asked for is stored in it or never will be."""
        self.record = record
        self._proposed_members = None
