"""What to do about a group next: the state machine of resets, their undoing, and deletions. Pure.

Not here: looking (`GroupGateway.observe`), doing (`group_apply`), showing (`group_status`).

Rules:
- An operation runs once for each id, and never while the group has members: with Refuse it is given
  up then (and taken up again only if it is changed or gets a new id), with Wait it waits.
- It is recorded as Running, with all offsets before and after, before anything is changed; from
  then on the offsets are never computed again.
- A Running operation that finds no offset moved is carried out; one that finds its offsets set is
  done; one that finds the group to have gone on by itself is never repeated. Nor is one that finds
  members: they may have come back to where they were. Only where the brokers have just refused it
  because of them it waits.
- What is taken out of the spec is forgotten, unless it is running or over.
- What another resource has begun for the group counts as done here.

Invariant: whatever is interrupted and wherever, a group's progress after a reset is not reset again
by the same id. (The coordinator stores the offsets of one request together or not at all.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from barnabas_operator.group_spec import (
    DISCOVERED_LABEL,
    DeleteRequest,
    GroupSpec,
    ResetRequest,
    UndoRequest,
    WhenActive,
)
from barnabas_operator.reconcile.group.group_state import (
    Action,
    DeleteGroup,
    GroupDecision,
    GroupFinding,
    GroupReason,
    ObservedGroup,
    ObservedGroups,
    Offsets,
    Operation,
    Operations,
    Phase,
    SetOffsets,
    Snapshot,
)
from barnabas_operator.reconcile.group.reset_targets import (
    NotKnownYetError,
    ResetError,
    reset_offsets,
)
from barnabas_protocol.ids import TopicPartition

COMPLETED_MAX = 100


def owners(specs: Sequence[GroupSpec]) -> dict[str, GroupSpec]:
    """By group, the resource in charge of it: the oldest that names it."""
    found: dict[str, GroupSpec] = {}
    for spec in sorted(specs, key=lambda spec: spec.age):
        found.setdefault(spec.group_id, spec)
    return found


def plan_group(
    spec: GroupSpec,
    recorded: Operations,
    observed: ObservedGroups,
    *,
    owner: GroupSpec,
    was_refused: bool = False,
) -> GroupDecision:
    """What to record, and what to do once that is stored; to be asked again after it was done.

    `was_refused`: the brokers have just refused what is running, because the group had members.
    """
    group = observed.groups[spec.group_id]
    if owner.resource != spec.resource:
        message = f"'{owner.resource}' named this group first: remove one of the two"
        return GroupDecision(
            operations=recorded,
            findings=(GroupFinding(reason=GroupReason.CONFLICT, message=message),),
        )
    if spec.is_discovered:
        return GroupDecision(operations=recorded, findings=_read_only(spec))
    if spec.is_paused:
        finding = GroupFinding(reason=GroupReason.PAUSED, message="paused: nothing is changed")
        return GroupDecision(operations=recorded, findings=(finding,))
    if not group.is_known:
        return GroupDecision(operations=recorded)
    return _Planner(spec, recorded, group, observed, was_refused).plan()


def _read_only(spec: GroupSpec) -> tuple[GroupFinding, ...]:
    """What to tell who asks something of a resource that was made to be looked at."""
    if not (spec.reset or spec.undo or spec.deletion):
        return ()
    message = (
        "this resource was made by the operator to be looked at: to change the group, take the"
        f" label {DISCOVERED_LABEL} off"
    )
    return (GroupFinding(reason=GroupReason.READ_ONLY, message=message),)


def acknowledged(operations: Operations, action: Action) -> Operations:
    """What to record after the cluster has confirmed an action."""
    if isinstance(action, DeleteGroup):
        assert operations.deletion is not None
        return _finish_deletion(operations, replace(operations.deletion, phase=Phase.DONE))
    running = operations.reset
    if running is not None and running.phase is Phase.RUNNING:
        return _finish_reset(operations, _done(running))
    assert operations.undo is not None
    return replace(operations, undo=_done(operations.undo))


def failing(operations: Operations, message: str) -> Operations:
    """What to record after an action had an error; the operation goes on Running."""

    def noted(operation: Operation | None) -> Operation | None:
        if operation is None or operation.phase is not Phase.RUNNING:
            return operation
        return replace(operation, message=message)

    return replace(
        operations,
        reset=noted(operations.reset),
        undo=noted(operations.undo),
        deletion=noted(operations.deletion),
    )


@dataclass(frozen=True, slots=True)
class _Planner:
    """One group of which this resource is in charge, and that could be seen."""

    spec: GroupSpec
    recorded: Operations
    group: ObservedGroup
    observed: ObservedGroups
    was_refused: bool

    def plan(self) -> GroupDecision:
        """One operation at a time: the reset, then its undoing, then the deletion."""
        findings: list[GroupFinding] = []
        operations, action = self._plan_reset(self.recorded, findings)
        if not _is_running(operations.reset):
            operations, action = self._plan_undo(operations, findings)
            if not _is_running(operations.undo):
                operations, action = self._plan_deletion(operations, findings)
        return GroupDecision(operations=operations, action=action, findings=tuple(findings))

    # ---- resets --------------------------------------------------------------------------------

    def _plan_reset(
        self, operations: Operations, findings: list[GroupFinding]
    ) -> tuple[Operations, Action | None]:
        request, current = self.spec.reset, operations.reset
        if current is not None and current.phase is Phase.RUNNING:
            when_active = WhenActive.REFUSE
            if request is not None and request.id == current.id:
                when_active = request.when_active
            after, action = self._advance(current, when_active)
            if after.has_run:
                return _finish_reset(operations, after), None
            return replace(operations, reset=after), action
        if request is None:
            kept = current if current is not None and current.has_run else None
            return replace(operations, reset=kept), None
        if _key("reset", request.id) in operations.completed:
            is_current = current is not None and current.id == request.id
            if not is_current or (current is not None and _differs(current, request.text)):
                findings.append(_used("reset", request.id))
            return operations, None
        if current is not None and _is_given_up(current, request.id, request.text):
            return operations, None
        done = _done_before(operations, "reset", request, current)
        if isinstance(done, Operation):
            completed = _remembered(operations, _key("reset", request.id))
            return replace(operations, reset=done, completed=completed), None
        if done is not None:
            findings.append(done)
            return operations, None
        prepared = self._prepare_reset()
        if prepared.phase is not Phase.RUNNING:
            return replace(operations, reset=prepared), None
        if prepared.before == prepared.after:
            return _finish_reset(operations, _done(prepared)), None
        # Only once this is stored may `_advance` have anything done.
        return replace(operations, reset=prepared), self._advance(prepared, WhenActive.WAIT)[1]

    def _prepare_reset(self) -> Operation:
        request = self.spec.reset
        assert request is not None
        new = Operation(id=request.id, request=request.text, phase=Phase.FAILED)
        try:
            before, after = reset_offsets(request, self.group, self.observed)
        except ResetError as error:
            return replace(new, message=str(error))
        except NotKnownYetError as error:
            return replace(new, phase=Phase.WAITING, message=str(error))
        new = replace(new, before=before, after=after)
        changed = sum(
            before[topic_partition] != after[topic_partition] for topic_partition in after
        )
        what = f"{changed} of {len(after)} partitions would change"
        if request.is_dry_run:
            return replace(new, phase=Phase.PREVIEW, message=f"dry run: {what}")
        if self.group.is_live:
            return self._held_back(new, request.when_active)
        return replace(new, phase=Phase.RUNNING)

    # ---- undoing -------------------------------------------------------------------------------

    def _plan_undo(
        self, operations: Operations, findings: list[GroupFinding]
    ) -> tuple[Operations, Action | None]:
        request, current = self.spec.undo, operations.undo
        if current is not None and current.phase is Phase.RUNNING:
            when_active = request.when_active if request is not None else WhenActive.REFUSE
            after, action = self._advance(current, when_active)
            return replace(operations, undo=after), action
        if request is None:
            kept = current if current is not None and current.has_run else None
            return replace(operations, undo=kept), None
        if current is not None and current.id == request.id and current.has_run:
            return operations, None
        if current is not None and _is_given_up(current, request.id, request.text):
            return operations, None
        prepared = self._prepare_undo(request, operations.snapshot)
        if isinstance(prepared, GroupFinding):
            findings.append(prepared)
            return operations, None
        if prepared.phase is not Phase.RUNNING:
            return replace(operations, undo=prepared), None
        if prepared.before == prepared.after:
            return replace(operations, undo=_done(prepared)), None
        return replace(operations, undo=prepared), self._advance(prepared, WhenActive.WAIT)[1]

    def _prepare_undo(
        self, request: UndoRequest, snapshot: Snapshot | None
    ) -> Operation | GroupFinding:
        if snapshot is None or snapshot.id != request.id:
            last = f"the last was '{snapshot.id}'" if snapshot is not None else "there was none yet"
            message = f"only the last reset can be undone, and '{request.id}' is not: {last}"
            return GroupFinding(reason=GroupReason.NOTHING_TO_UNDO, message=message)
        new = Operation(
            id=request.id,
            request=request.text,
            phase=Phase.RUNNING,
            before={
                topic_partition: self.group.committed.get(topic_partition)
                for topic_partition in snapshot.offsets
            },
            after=snapshot.offsets,
        )
        return self._held_back(new, request.when_active) if self.group.is_live else new

    # ---- deletions -----------------------------------------------------------------------------

    def _plan_deletion(
        self, operations: Operations, findings: list[GroupFinding]
    ) -> tuple[Operations, Action | None]:
        request, current = self.spec.deletion, operations.deletion
        if current is not None and current.phase is Phase.RUNNING:
            return self._advance_deletion(operations, current)
        if request is None:
            kept = current if current is not None and current.has_run else None
            return replace(operations, deletion=kept), None
        if _key("delete", request.id) in operations.completed:
            if current is None or current.id != request.id:
                findings.append(_used("delete", request.id))
            return operations, None
        if current is not None and _is_given_up(current, request.id, request.text):
            return operations, None
        done = _done_before(operations, "delete", request, current)
        if isinstance(done, Operation):
            return _finish_deletion(operations, done), None
        if done is not None:
            findings.append(done)
            return operations, None
        return self._prepare_deletion(operations, request)

    def _prepare_deletion(
        self, operations: Operations, request: DeleteRequest
    ) -> tuple[Operations, Action | None]:
        new = Operation(
            id=request.id,
            request=request.text,
            phase=Phase.RUNNING,
            before=dict(self.group.committed),
            after=dict.fromkeys(self.group.committed),
        )
        if self.group.is_absent:
            done = replace(new, phase=Phase.DONE, message="there was no such group")
            return _finish_deletion(operations, done), None
        if self.group.is_live:
            held = self._held_back(new, request.when_active)
            return replace(operations, deletion=held), None
        return replace(operations, deletion=new), DeleteGroup(group_id=self.group.group_id)

    def _advance_deletion(
        self, operations: Operations, current: Operation
    ) -> tuple[Operations, Action | None]:
        if self.group.is_absent:
            return _finish_deletion(operations, replace(current, phase=Phase.DONE)), None
        if dict(self.group.committed) != dict(current.before):
            gone_on = replace(
                current,
                phase=Phase.FAILED,
                message="the group has committed offsets meanwhile: it is not deleted again",
            )
            return _finish_deletion(operations, gone_on), None
        if self.group.is_live:
            if not self.was_refused:
                return _finish_deletion(operations, _in_doubt(current)), None
            request = self.spec.deletion
            when_active = request.when_active if request is not None else WhenActive.REFUSE
            return replace(operations, deletion=self._held_back(current, when_active)), None
        return operations, DeleteGroup(group_id=self.group.group_id)

    # ---- both ----------------------------------------------------------------------------------

    def _held_back(self, operation: Operation, when_active: WhenActive) -> Operation:
        """The operation while the group has members; its offsets are found out again later."""
        count = len(self.group.members)
        members = f"{count or 'still'} member{'s' * (count != 1)}"
        held = replace(operation, before={}, after={})
        if when_active is WhenActive.WAIT:
            message = f"waiting: the group has {members}"
            return replace(held, phase=Phase.WAITING, message=message)
        return replace(
            held,
            phase=Phase.REFUSED,
            message=f"refused: the group has {members}; stop them and give this a new id, or set"
            " whenActive: Wait",
        )

    def _advance(
        self, running: Operation, when_active: WhenActive
    ) -> tuple[Operation, SetOffsets | None]:
        """A recorded change of offsets that may have been carried out, or not."""
        remaining, has_applied, has_moved = _progress(running, self.group.committed)
        if not remaining:
            if has_applied:
                return _done(running), None
            return self._not_repeated(running), None
        if has_moved:
            return self._not_repeated(running), None
        if self.group.is_live:
            if has_applied:
                message = "partly carried out; the rest waits until the members have left"
                return replace(running, message=message), None
            if not self.was_refused:
                return _in_doubt(running), None
            return self._held_back(running, when_active), None
        offsets = {topic_partition: running.after[topic_partition] for topic_partition in remaining}
        return running, SetOffsets(
            group_id=self.group.group_id, offsets=offsets, is_share=self.group.is_share
        )

    def _not_repeated(self, running: Operation) -> Operation:
        message = (
            "the group has committed other offsets since this was begun: it may or may not have"
            " been carried out, and is not repeated"
        )
        return replace(running, phase=Phase.FAILED, message=message)


def _in_doubt(running: Operation) -> Operation:
    message = (
        "the group has members again since this was begun: it may or may not have been carried out"
        " before they came, and is not repeated"
    )
    return replace(running, phase=Phase.FAILED, message=message)


def _progress(
    running: Operation, committed: Offsets
) -> tuple[tuple[TopicPartition, ...], bool, bool]:
    """What is as before; whether something is as it should be; whether something is neither."""
    remaining = []
    has_applied = has_moved = False
    for topic_partition, new in running.after.items():
        old, now = running.before[topic_partition], committed.get(topic_partition)
        if new == old:
            has_moved |= now != old
        elif now == new:
            has_applied = True
        elif now == old:
            remaining.append(topic_partition)
        else:
            has_moved = True
    return tuple(remaining), has_applied, has_moved


def _done(operation: Operation) -> Operation:
    changed = sum(
        operation.before[topic_partition] != after
        for topic_partition, after in operation.after.items()
    )
    message = f"{changed} partition{'s' * (changed != 1)} changed"
    return replace(operation, phase=Phase.DONE, message=message)


def _is_running(operation: Operation | None) -> bool:
    return operation is not None and operation.phase is Phase.RUNNING


def _is_given_up(operation: Operation, id_: str, text: str) -> bool:
    """Whether just this was tried, and is not to be tried again by itself."""
    is_over = operation.phase in (Phase.REFUSED, Phase.FAILED)
    return is_over and operation.id == id_ and operation.request == text


def _done_before(
    operations: Operations,
    kind: str,
    request: ResetRequest | DeleteRequest,
    current: Operation | None,
) -> Operation | GroupFinding | None:
    """What to say of a request that another resource has begun; None where none has."""
    if current is not None and current.id == request.id:
        return None
    earlier = operations.done_before.get(_key(kind, request.id))
    if earlier is None:
        return None
    done = Operation(
        id=request.id,
        request=request.text,
        phase=Phase.DONE,
        message="begun for an earlier resource of this group: it is not done again",
    )
    return done if earlier in ("", done.what) else _used(kind, request.id)


def _differs(operation: Operation, text: str) -> bool:
    """Whether something else is asked for, not just in another manner."""
    return operation.what != text.partition(";")[0]


def _key(kind: str, id_: str) -> str:
    return f"{kind}/{id_}"


def _used(kind: str, id_: str) -> GroupFinding:
    return GroupFinding(
        reason=GroupReason.ID_USED,
        message=f"{kind} '{id_}' has been carried out already: another {kind} needs another id",
    )


def _finish_reset(operations: Operations, reset: Operation) -> Operations:
    return replace(
        operations,
        reset=reset,
        snapshot=Snapshot(id=reset.id, offsets=reset.before),
        completed=_remembered(operations, _key("reset", reset.id)),
    )


def _finish_deletion(operations: Operations, deletion: Operation) -> Operations:
    completed = _remembered(operations, _key("delete", deletion.id))
    return replace(operations, deletion=deletion, completed=completed)


def _remembered(operations: Operations, key: str) -> tuple[str, ...]:
    return (*(one for one in operations.completed if one != key), key)[-COMPLETED_MAX:]
