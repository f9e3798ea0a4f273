"""Rules of the metadata log broken on purpose, to see that the walks would find them.

Each bug replaces one decision of the real code, or one of the world around it, while it is planted.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from barnabas_broker.metadata.log_ends import LogEnd, end_at
from barnabas_broker.metadata.quorum.effects import Effects, Send
from barnabas_broker.metadata.quorum.leadership import Leadership, MembersRefusedError
from barnabas_broker.metadata.quorum.log_copy import LogCopy, QuorumBrokenError
from barnabas_broker.metadata.quorum.messages import (
    ArbiterView,
    PromiseRequest,
    PromiseResponse,
)
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.recovery import Recovery
from barnabas_broker.metadata.quorum.voters import Voter, committed_end_offset, majority_end_offset
from tests.broker.metadata.quorum.quorum_world import Machine, World

Replacement = tuple[type, str, Any]

_promise_asked = QuorumNode.on_promise_request
_record_read = QuorumNode.record_read
_flushed = LogCopy.flushed
_crash = World.crash


def _longest(self: Recovery, own_end: LogEnd) -> Voter | None:
    best = max(
        sorted(self._promises), key=lambda voter: self._promises[voter].end_offset, default=None
    )
    if best is not None and self._promises[best].end_offset <= own_end.end_offset:
        best = None
    self.source = best
    return best


def _few(self: Recovery) -> bool:
    return 2 * len({self._voter, *self._promises}) >= len(self._members) - 1


def _any_epoch(self: Leadership) -> int:
    return committed_end_offset(self.configurations, self._flushed_ends, -1)


def _anybody(self: Leadership) -> int:
    held = sorted(self._flushed_ends.values(), reverse=True)
    needed = len(self.record.members) // 2
    agreed = held[needed] if len(held) > needed else 0
    return agreed if agreed > self.own_epoch_start else 0


def _promise_without_keeping(self: QuorumNode, request: PromiseRequest) -> Effects:
    if self.role is not Role.FOLLOWER or request.controller_epoch <= self.promised_epoch:
        return _promise_asked(self, request)
    return (_promised(self, request, self.copy.end),)


def _promise_less(self: QuorumNode, request: PromiseRequest) -> Effects:
    if self.role is not Role.FOLLOWER or request.controller_epoch < self.promised_epoch:
        return _promise_asked(self, request)
    persisted = self._promise(request.controller_epoch, request.leader_id)
    known = max(self.copy.flushed_end_offset, self.copy.log.log_start_offset)
    return (*persisted, _promised(self, request, end_at(self.copy.log, known)), *self.copy.flush())


def _promised(self: QuorumNode, request: PromiseRequest, end: LogEnd) -> Send:
    epoch = request.controller_epoch
    response = PromiseResponse(
        controller_epoch=epoch, promised_epoch=epoch, voter=self.voter, end=end
    )
    return Send(node_id=request.leader_id, message=response)


def _promise_twice(self: QuorumNode, request: PromiseRequest) -> Effects:
    if self.role is Role.FOLLOWER:
        self._promised_to = request.leader_id
    return _promise_asked(self, request)


def _believe_older(self: QuorumNode, view: ArbiterView) -> Effects:
    if self.leadership is not None and view.controller_epoch == self.promised_epoch:
        self.record = replace(self.record, token=view.token - 1)
    return _record_read(self, view)


def _give_swap_up(self: QuorumNode, known: ArbiterView) -> Effects:
    self._swap = None
    if self.leadership is None:
        return ()
    self.leadership.stored(self.record)
    return self._commit()


def _ask_members_behind(self: Leadership, members: frozenset[Voter], high_watermark: int) -> None:
    if high_watermark <= self.own_epoch_start:
        raise MembersRefusedError
    self._proposed_members = members


def _ask_members_early(self: Leadership, members: frozenset[Voter], high_watermark: int) -> None:
    if majority_end_offset(members, self._flushed_ends) < high_watermark:
        raise MembersRefusedError
    self._proposed_members = members


def _new_only(self: Leadership) -> tuple[frozenset[Voter], ...]:
    return (self.record.members if self._proposed_members is None else self._proposed_members,)


def _old_only(self: Leadership) -> tuple[frozenset[Voter], ...]:
    return (self.record.members,)


def _flushed_before_truncation(self: LogCopy, truncation_count: int, end_offset: int) -> bool:
    return _flushed(self, self.truncation_count, min(end_offset, self.log.log_end_offset))


def _agrees_unseen(self: LogCopy, end: LogEnd) -> bool:
    return end.end_offset <= self.log.log_end_offset


def _crash_and_forget(self: World, machine: Machine) -> None:
    machine.promised = 0
    _crash(self, machine)


def _always(*_: object) -> bool:
    return True


def _unled(self: QuorumNode, view: ArbiterView) -> bool:
    return view.controller_epoch >= self.promised_epoch


BUGS: dict[str, tuple[str, list[Replacement]]] = {
    # Those of the executable specification.
    "outsider": (
        "a node that is not a member may take over",
        [(QuorumNode, "_may_lead", _always)],
    ),
    "no_recovery": (
        "a new leader starts from its own log instead of the best log of a majority",
        [
            (Recovery, "has_enough", property(_always)),
            (Recovery, "choose_source", lambda *_: None),
        ],
    ),
    "few_promises": (
        "a new leader recovers from fewer members than a majority",
        [(Recovery, "has_enough", property(_few))],
    ),
    "longest_log": (
        "recovery picks the longest log, not the one with the highest last epoch",
        [(Recovery, "choose_source", _longest)],
    ),
    "count_old_epoch": (
        "records of earlier epochs are committed by counting copies alone",
        [(Leadership, "committed", property(_any_epoch))],
    ),
    "forget_promise": (
        "a restarted node forgets the highest epoch that it has promised",
        [(World, "crash", _crash_and_forget)],
    ),
    "old_leader_ok": (
        "a member goes on with a leader of a lower epoch than it has promised",
        [(QuorumNode, "on_promise_request", _promise_without_keeping)],
    ),
    "resume": (
        "a restarted leader goes on in its old epoch",
        [(QuorumNode, "_is_unled", _unled)],
    ),
    "new_only": (
        "the leader counts only the new members before the change is stored",
        [(Leadership, "configurations", property(_new_only))],
    ),
    "old_only": (
        "the leader counts only the old members until it hears that the change is stored",
        [(Leadership, "configurations", property(_old_only))],
    ),
    "change_behind": (
        "members are changed though committed records are not on a majority of the new ones",
        [(Leadership, "propose_members", _ask_members_behind)],
    ),
    "change_before_own_commit": (
        "members are changed before the leader has committed a record of its own epoch",
        [(Leadership, "propose_members", _ask_members_early)],
    ),
    "disk_keeps_voter": (
        "a node that lost its disk still counts as the member that it was",
        [(World, "replace_disk", lambda *_: None)],
    ),
    # Those of replication by pull, and of a real disk and store.
    "unseen_end": (
        "a fetch acknowledges though its last epoch was not compared",
        [(LogCopy, "agrees", _agrees_unseen)],
    ),
    "unflushed": (
        "records are acknowledged and promised before they are flushed",
        [(LogCopy, "is_flushed", property(_always))],
    ),
    "old_flush": (
        "a flush from before a truncation counts for what was appended after it",
        [(LogCopy, "flushed", _flushed_before_truncation)],
    ),
    "promise_less": (
        "a restarted member promises with less than it has acknowledged, for it has not flushed",
        [(QuorumNode, "on_promise_request", _promise_less)],
    ),
    "promise_twice": (
        "an epoch that was promised to one node is promised to another one as well",
        [(QuorumNode, "on_promise_request", _promise_twice)],
    ),
    "observers": (
        "acknowledgements of observers count like those of members",
        [(Leadership, "committed", property(_anybody))],
    ),
    "old_read": (
        "a read of the arbiter that comes late undoes what is known to be stored",
        [(QuorumNode, "record_read", _believe_older)],
    ),
    "swap_given_up": (
        "a swap that is not stored yet is taken for one that never will be",
        [(QuorumNode, "_reaffirmed", _give_swap_up)],
    ),
}


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """The code with one rule broken."""
    with ExitStack() as patches:
        for owner, name, replacement in BUGS[bug][1]:
            patches.enter_context(patch.object(owner, name, replacement))
        yield


def first_failure(seeds: range, run: Callable[[int], object]) -> int | None:
    """The first seed whose story breaks an invariant, or makes a node say so; None if none does."""
    for seed in seeds:
        try:
            run(seed)
        except (AssertionError, QuorumBrokenError):
            return seed
    return None
