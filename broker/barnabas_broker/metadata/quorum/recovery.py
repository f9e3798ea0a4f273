"""What the winner of an epoch gathers before it leads: promises, and which log is the best.

Pure. Rule 2 of the control plane (`docs/formats/arbiter.md`): with promises of a majority, its own
included, the winner takes over the best log: highest last epoch, then longest. Not here: asking.

Why the best log of a majority has every committed record: a majority has it, so one of those who
promised does; and a log whose last epoch is higher was begun by a leader that had it as well. That
stays true while the winner's own log is in the middle of taking over another: what it drops was not
in a log that has all, what it adds was. So the own end is always taken as it is now.
"""

from __future__ import annotations

from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.voters import Voter, has_majority


class Recovery:
    """The promises that the winner of one epoch has got."""

    __slots__ = ("_members", "_promises", "_voter", "source")

    def __init__(self, voter: Voter, members: frozenset[Voter]) -> None:
        self._voter = voter
        self._members = members
        self._promises: dict[Voter, LogEnd] = {}  # of other members only
        self.source: Voter | None = None  # whose log is being taken over

    @property
    def missing_node_ids(self) -> tuple[int, ...]:
        """The other members that have not promised."""
        missing = self._members - self._promises.keys() - {self._voter}
        return tuple(sorted({voter.node_id for voter in missing} - {self._voter.node_id}))

    @property
    def has_enough(self) -> bool:
        """Whether a majority of the members has promised."""
        return has_majority(self._members, (self._voter, *self._promises))

    def promised(self, voter: Voter, end: LogEnd) -> None:
        """Take note of a promise; that of somebody who is no member does not count."""
        if voter in self._members and voter != self._voter:
            self._promises[voter] = end

    def drop_source(self) -> None:
        """Do without what the source has promised: its log cannot be had."""
        if self.source is not None:
            self._promises.pop(self.source, None)
            self.source = None

    def choose_source(self, own_end: LogEnd) -> Voter | None:
        """The member whose log is to be taken over; None if this node's own is the best.

        Once chosen, a source stays until its end is reached or it is dropped.
        """
        if self.source is None or self._promises[self.source] <= own_end:
            best = max(sorted(self._promises), key=self._rank, default=None)
            is_better = best is not None and self._promises[best] > own_end
            self.source = best if is_better else None
        return self.source

    def _rank(self, voter: Voter) -> LogEnd:
        return self._promises[voter]
