"""One node of the metadata log: who leads it, what it may obey, and what it does about it.

Pure: events in, effects out (`effects`), no clock. A node is a follower (members and
observers alike), recovering (it has won an epoch and gathers promises and the best log), or
leading. The rules are those of the control plane in `docs/formats/arbiter.md`; replication is by
pull, see `docs/decisions/0005-metadata-log-by-pull.md`. Not here: when to take over, to give up or
to send again; those are events that the shell times. They cannot do harm at any time.

Invariants: the promised epoch never falls, and is durable before anything is said in it; it is
promised to one node only, whatever the arbiter says later; an epoch is led at most once, by the
node that the arbiter names, and not after a restart; only what is flushed is promised or
acknowledged.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from barnabas_broker.metadata.log_ends import LogEnd, LogView
from barnabas_broker.metadata.quorum.effects import (
    Effects,
    HoldFetch,
    Lead,
    PersistPromise,
    ReadRecord,
    Send,
    StepDown,
    Swap,
)
from barnabas_broker.metadata.quorum.leadership import Leadership, MembersRefusedError
from barnabas_broker.metadata.quorum.log_copy import LogCopy, QuorumBrokenError
from barnabas_broker.metadata.quorum.messages import (
    UNKNOWN_RECORD,
    ArbiterView,
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    Proposal,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.recovery import Recovery
from barnabas_broker.metadata.quorum.voters import Voter


class Role(Enum):
    """What a node is to the metadata log."""

    FOLLOWER = "follower"
    RECOVERING = "recovering"
    LEADING = "leading"


class QuorumNode:
    """The state of one node since its start, from its disk: log and promise, and nothing else."""

    __slots__ = (
        "_owed",
        "_promised_to",
        "_swap",
        "copy",
        "leader_id",
        "leadership",
        "member_ends",
        "promised_epoch",
        "record",
        "recovery",
        "voter",
    )

    def __init__(
        self, voter: Voter, log: LogView, promised_epoch: int, known_committed_offset: int = 0
    ) -> None:
        self.voter = voter
        self.copy = LogCopy(voter, log, known_committed_offset)
        # A record of an epoch is only taken after the epoch was promised.
        self.promised_epoch = max(promised_epoch, self.copy.end.last_epoch)
        self._promised_to: int | None = None  # since a restart nobody knows
        self.leader_id: int | None = None  # who leads the promised epoch, as far as is known
        self.record = UNKNOWN_RECORD
        self.recovery: Recovery | None = None  # exactly while recovering
        self.leadership: Leadership | None = None  # exactly while leading
        # What is known to have been committed and on the disk of a voter: it only grows.
        self.member_ends: dict[Voter, LogEnd] = {}
        self._owed: PromiseRequest | None = None  # to be answered once all is flushed
        self._swap: Swap | None = None  # under way: sent again until the outcome is known

    @property
    def role(self) -> Role:
        """From follower to recovering to leading; from either back to follower."""
        if self.leadership is not None:
            return Role.LEADING
        return Role.FOLLOWER if self.recovery is None else Role.RECOVERING

    def start(self) -> Effects:
        """First of all events: what was recovered is flushed, so that it may be told of."""
        return (*self.copy.flush(), ReadRecord())

    # ---- the arbiter -----------------------------------------------------------------------------

    def record_read(self, view: ArbiterView) -> Effects:
        """The arbiter's record was read; reads may be told late and in any order (rule 7)."""
        known = self.record
        if view.controller_epoch > 0 and view.age < known.age:
            return ()
        self.record = view
        for voter, end in view.ends:
            self.member_ends[voter] = max(end, self.member_ends.get(voter, end))
        is_mine = view.leader_id == self.voter.node_id
        down: Effects = ()
        if view.token != known.token or view.controller_epoch != known.controller_epoch:
            self._swap = None  # a swap with an older token cannot be stored any more
        if self.role is not Role.FOLLOWER:
            if is_mine and view.controller_epoch == self.promised_epoch:
                return self._reaffirmed(known)
            down = self._step_down()
        if is_mine and self._is_unled(view) and self._may_lead(view):
            return (*down, *self._recover(view))
        if view.leader_id is None or is_mine:
            return down
        return (*down, *self._follow(view.controller_epoch, view.leader_id))

    def _reaffirmed(self, known: ArbiterView) -> Effects:
        if self.leadership is not None and self.record.age > known.age:
            self.leadership.stored(self.record)
            return self._commit()
        return self._step_down() if self.record.members != known.members else ()

    def _is_unled(self, view: ArbiterView) -> bool:
        # Rule 1: an epoch that was promised may have been led by this node before a restart.
        return view.controller_epoch > self.promised_epoch

    def take_over(self) -> Effects:
        """Try to lead the next epoch, if this node is a member (rule 1); else nothing."""
        record = self.record
        if not (self._is_free and self._may_lead(record)) or self.is_record_old:
            return ()
        return self._propose(record.controller_epoch + 1, self.voter.node_id, record.members)

    @property
    def is_record_old(self) -> bool:
        """Whether the record is older than a promise: then it is a copy that was brought back.

        An epoch is promised after it was stored. The members of an old record need not have what
        was committed since, so that none may lead by it (rule 10).
        """
        return 0 < self.record.controller_epoch < self.promised_epoch

    @property
    def _is_free(self) -> bool:
        return self.role is Role.FOLLOWER and self._swap is None

    def _may_lead(self, record: ArbiterView) -> bool:
        return self.voter in record.members and not self.is_disk_old

    @property
    def is_disk_old(self) -> bool:
        """Whether this disk lacks what it is known to have had: it was restored from a copy."""
        return self.copy.end < self.member_ends.get(self.voter, self.copy.end)

    def found_cluster(self) -> Effects:
        """Make a record with this node as the only member, if it was seen that there is none.

        The caller knows that this is a new cluster, or one of this node alone: the members of any
        other cannot be told from this node's log, and what they have committed would be lost.
        """
        if not self._is_free or self.record.token < 0 or self.record.controller_epoch > 0:
            return ()
        return self._propose(self.promised_epoch + 1, self.voter.node_id, frozenset((self.voter,)))

    def renew(self) -> Effects:
        """Show the arbiter's observers a sign of life, unless a swap is under way anyway."""
        if self.leadership is None or self._swap is not None:
            return ()
        return self._propose(self.promised_epoch, self.voter.node_id, self.record.members)

    def change_members(self, members: frozenset[Voter]) -> Effects:
        """Ask for other members (rule 4).

        Raises: MembersRefusedError, and then nothing has changed.
        """
        if self.leadership is None:
            raise MembersRefusedError("this node does not lead")
        if self._swap is not None:
            raise MembersRefusedError("another swap is under way")
        if members == self.record.members:
            return ()
        self.leadership.propose_members(members, self.copy.high_watermark)
        return self._propose(self.promised_epoch, self.voter.node_id, members)

    def resign(self) -> Effects:
        """Stop leading, and tell the arbiter so: no majority is heard, or the broker stops."""
        if self.role is Role.FOLLOWER:
            return ()
        record = self.record
        down = self._step_down()
        resigned = Proposal(
            controller_epoch=record.controller_epoch, leader_id=None, members=record.members
        )
        return (*down, Swap(expected_token=record.token, proposal=resigned))

    def _propose(self, epoch: int, leader_id: int, members: frozenset[Voter]) -> Effects:
        proposal = Proposal(controller_epoch=epoch, leader_id=leader_id, members=members)
        self._swap = Swap(expected_token=self.record.token, proposal=proposal)
        return (self._swap,)

    # ---- promises (rule 2) -----------------------------------------------------------------------

    def on_promise_request(self, request: PromiseRequest) -> Effects:
        """The winner of an epoch asks for a promise.

        An epoch that was promised to another, or before a restart to nobody knows whom, gets no
        response: an old record that was brought back lets epochs be won again (rule 10). Whoever
        has no majority resigns after a while, and takes the next one.
        """
        # The record may know of a later promise than a disk that was restored from a copy.
        if request.controller_epoch < self._known_epoch:
            return (self._promise_response(request),)
        effects: Effects = ()
        if request.controller_epoch > self.promised_epoch:
            if self.role is not Role.FOLLOWER:
                effects = self._step_down()
        elif request.leader_id != self._promised_to:
            return ()
        effects += self._promise(request.controller_epoch, request.leader_id)
        # Neither more than a crash leaves may be told, nor less than was ever acknowledged.
        if not self.copy.is_flushed:
            self._owed = request
            return (*effects, *self.copy.flush())
        effects += (self._promise_response(request),)
        return effects if self.copy.is_waiting else (*effects, *self._proceed())

    @property
    def _known_epoch(self) -> int:
        return max(self.promised_epoch, self.record.controller_epoch)

    def _promise_response(self, request: PromiseRequest) -> Send:
        response = PromiseResponse(
            controller_epoch=request.controller_epoch,
            promised_epoch=self._known_epoch,
            voter=self.voter,
            end=self.copy.end,
        )
        return Send(node_id=request.leader_id, message=response)

    def _promise(self, epoch: int, leader_id: int) -> Effects:
        self.leader_id = leader_id
        if epoch == self.promised_epoch:
            return ()
        self.promised_epoch, self._promised_to = epoch, leader_id
        self.copy.forget()
        return (PersistPromise(controller_epoch=epoch),)

    def on_promise_response(self, response: PromiseResponse) -> Effects:
        """A member has promised or refused."""
        if response.promised_epoch > self.promised_epoch:
            return self._surpassed(response.promised_epoch, None)
        recovery = self.recovery
        if recovery is None or response.controller_epoch != self.promised_epoch:
            return ()
        if response.end < self.member_ends.get(response.voter, response.end):
            return ()  # a disk that was restored: what it has acknowledged may be missing
        recovery.promised(response.voter, response.end)
        return () if self.copy.is_waiting else self._proceed()

    def _recover(self, record: ArbiterView) -> Effects:
        self.recovery = Recovery(self.voter, record.members)
        persisted = self._promise(record.controller_epoch, self.voter.node_id)
        return (*persisted, *self._ask_promises(), *self._proceed())

    def _ask_promises(self) -> Effects:
        assert self.recovery is not None
        request = PromiseRequest(controller_epoch=self.promised_epoch, leader_id=self.voter.node_id)
        missing = self.recovery.missing_node_ids
        return tuple(Send(node_id=node_id, message=request) for node_id in missing)

    def _take_over_best(self, recovery: Recovery) -> Effects:
        if not recovery.has_enough:
            return ()
        source = recovery.choose_source(self.copy.end)
        if source is not None:
            return self.copy.fetch(source.node_id, self.promised_epoch)
        end_offset = self.copy.end.end_offset
        if end_offset < self.copy.high_watermark:
            raise QuorumBrokenError(
                f"the best log of a majority ends at {end_offset}, below the high watermark "
                f"{self.copy.high_watermark}"
            )
        self.copy.forget()
        self.recovery = None
        self.leadership = Leadership(self.voter, self.record, end_offset)
        self.leadership.acknowledge(self.voter, self.copy.flushed_end_offset)
        return (Lead(controller_epoch=self.promised_epoch, base_offset=end_offset),)

    # ---- replication -----------------------------------------------------------------------------

    def on_fetch_request(self, request: QuorumFetchRequest) -> Effects:
        """A follower or an observer asks this leader, or the winner takes over this node's log."""
        if request.controller_epoch > self.promised_epoch:
            return (*self._surpassed(request.controller_epoch, None), *self._refuse(request))
        # An older fetch acknowledges what may have been truncated since.
        if request.controller_epoch < self.promised_epoch:
            return self._refuse(request)
        match self.role:
            case Role.LEADING:
                return self._serve(request)
            case Role.RECOVERING:
                return (HoldFetch(request=request),)
            case Role.FOLLOWER:
                if request.voter.node_id == self.leader_id:
                    return self._serve(request)
                return self._refuse(request)
            case role:
                assert_never(role)

    def _refuse(self, request: QuorumFetchRequest) -> Effects:
        refused = FetchRefused(
            controller_epoch=self.promised_epoch, source=self.voter, leader_id=self.leader_id
        )
        send = Send(node_id=request.voter.node_id, message=refused)
        return (send,) if self.leader_id is not None else (send, ReadRecord())

    def _serve(self, request: QuorumFetchRequest) -> Effects:
        committed: Effects = ()
        if self.leadership is not None and self.copy.agrees(request.end):
            self.leadership.acknowledge(request.voter, request.end.end_offset)
            committed = self._commit()
        response = self.copy.respond(request, self.promised_epoch)
        return (*committed, Send(node_id=request.voter.node_id, message=response))

    def on_fetch_response(self, response: QuorumFetchResponse | FetchRefused) -> Effects:
        """The response to a fetch has come, or a refusal."""
        if isinstance(response, FetchRefused):
            return self._fetch_refused(response)
        if response.controller_epoch != self.promised_epoch or not self._is_source(response.source):
            return ()
        was_waiting = self.copy.is_waiting
        effects = self.copy.take(response)
        is_taken = was_waiting and not self.copy.is_waiting
        if not (is_taken and isinstance(response, RecordsResponse) and response.is_empty):
            return effects
        # A winner that still lacks something was promised more than there is.
        if self.recovery is not None:
            self.recovery.drop_source()
            effects += self._ask_promises()
        return (*effects, *self._proceed())

    def _is_source(self, voter: Voter) -> bool:
        if self.recovery is not None:
            return voter == self.recovery.source
        return voter.node_id == self.leader_id

    def _fetch_refused(self, refused: FetchRefused) -> Effects:
        if refused.controller_epoch > self.promised_epoch:
            return self._surpassed(refused.controller_epoch, refused.leader_id)
        if refused.controller_epoch == self.promised_epoch and self.leader_id is None:
            return self._follow(refused.controller_epoch, refused.leader_id)
        return ()

    def snapshot_fetched(self, response: SnapshotResponse) -> Effects:
        """The snapshot that a response named is on this disk, whole."""
        return self.copy.snapshot_fetched(response)

    def snapshot_failed(self, response: SnapshotResponse) -> Effects:
        """The snapshot cannot be had (any more): what there is now has to be requested."""
        return self._proceed() if self.copy.snapshot_failed(response) else ()

    def appended(self) -> Effects:
        """The leader's own records were written; fetches held back may be handled again."""
        return self.copy.flush()

    def flushed(self, truncation_count: int, end_offset: int) -> Effects:
        """A flush is done; both values are as `Flush` gave them."""
        if not self.copy.flushed(truncation_count, end_offset):
            return ()
        if self.leadership is not None:
            self.leadership.acknowledge(self.voter, self.copy.flushed_end_offset)
            return self._commit()
        if self.copy.is_waiting or not self.copy.is_flushed:
            return ()
        owed, self._owed = self._owed, None
        if owed is None or owed.controller_epoch != self.promised_epoch:
            return self._proceed()
        return (self._promise_response(owed), *self._proceed())

    def _commit(self) -> Effects:
        assert self.leadership is not None
        committed = self.leadership.committed
        for voter in self.leadership.record.members if committed else ():
            end_offset = min(self.leadership.flushed_end_offset(voter), committed)
            if end_offset > self.leadership.own_epoch_start:
                self.member_ends[voter] = LogEnd(self.promised_epoch, end_offset)
        return self.copy.raise_high_watermark(committed)

    def retry_requests(self) -> Effects:
        """Repeat what has got no response for a while; safe at any time."""
        effects: Effects = (self._swap, ReadRecord()) if self._swap is not None else ()
        if self.recovery is not None:
            effects += self._ask_promises()
        elif self.leadership is None and self.leader_id is None and self._swap is None:
            effects += (ReadRecord(),)
        return effects + self._proceed()

    def unreachable(self, node_id: int) -> Effects:
        """A node cannot be reached: the winner does without its log if a majority has promised."""
        recovery = self.recovery
        if recovery is None or recovery.source is None or recovery.source.node_id != node_id:
            return ()
        recovery.drop_source()
        self.copy.forget()
        return self._proceed()

    def _proceed(self) -> Effects:
        if self.recovery is not None:
            return self._take_over_best(self.recovery)
        if self.leadership is not None or self.leader_id is None:
            return ()
        return self.copy.fetch(self.leader_id, self.promised_epoch)

    def _follow(self, epoch: int, leader_id: int | None) -> Effects:
        if leader_id is None or leader_id == self.voter.node_id or epoch < self.promised_epoch:
            return ()
        if epoch == self.promised_epoch and self._promised_to not in (None, leader_id):
            return ()
        if (epoch, leader_id) == (self.promised_epoch, self.leader_id) and self.copy.is_waiting:
            return ()
        return (*self._promise(epoch, leader_id), *self._proceed())

    def _surpassed(self, epoch: int, leader_id: int | None) -> Effects:
        # CTL-4: a refusal tells of a higher epoch. It is promised only to a leader that is known.
        down = self._step_down() if self.role is not Role.FOLLOWER else ()
        return (*down, *(self._follow(epoch, leader_id) or (ReadRecord(),)))

    def _step_down(self) -> Effects:
        self.leadership = self.recovery = self._swap = self.leader_id = None
        self.copy.forget()
        return (StepDown(controller_epoch=self.promised_epoch), *self.copy.flush())
