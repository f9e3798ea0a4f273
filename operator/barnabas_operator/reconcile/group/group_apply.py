"""Carries a group through its operations: observe, plan, record, act, until nothing is left to do.

Not here: deciding (`group_plan`), the real way to the brokers (`gateway/kafka_groups.py`), the real
way to the status (`group_reconciler`).

Invariant: nothing is done to a group before the plan for it is recorded; whatever fails or is cut
off in between is found out by the next round from what was recorded and what is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas_client.errors import BarnabasError
from barnabas_operator.group_spec import GroupSpec, ResetRequest
from barnabas_operator.reconcile.group.group_plan import acknowledged, failing, plan_group
from barnabas_operator.reconcile.group.group_state import (
    Action,
    GroupFinding,
    ObservedGroups,
    Operations,
)
from barnabas_protocol.errors import ErrorCode

# A reset, its undoing and a deletion, each begun and ended; one to see that nothing is left.
ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuestion:
    """What to look at: a group, and what a reset of it needs to know."""

    group_id: str
    reset: ResetRequest | None = None


class GroupGateway(Protocol):
    """The brokers."""

    async def observe(self, questions: Sequence[GroupQuestion]) -> ObservedGroups:
        """Look at those groups, all in one go.

        Raises: where the cluster cannot be asked at all.
        """
        ...

    async def list_ids(self) -> tuple[str, ...]:
        """The ids of all groups that there are."""
        ...

    async def carry_out(self, action: Action) -> Exception | None:
        """Do it; the error, if there was one, does not say whether a part of it was done."""
        ...


Record = Callable[[Operations, Sequence[GroupFinding], ObservedGroups], Awaitable[None]]
"""Stores what is recorded for a resource, and what was found. Raises: if it may not be stored."""

Confirm = Callable[[], Awaitable[None]]
"""Sees that the resource is the one that the plan was made for. Raises: if it is not."""


def question_of(spec: GroupSpec, recorded: Operations) -> GroupQuestion:
    """What to look at for a resource; a reset that is over asks for nothing any more."""
    reset = spec.reset
    if reset is not None and f"reset/{reset.id}" in recorded.completed:
        reset = None
    return GroupQuestion(group_id=spec.group_id, reset=reset)


async def resume(
    spec: GroupSpec,
    recorded: Operations,
    observed: ObservedGroups,
    gateway: GroupGateway,
    record: Record,
    *,
    owner: GroupSpec,
    confirm: Confirm,
) -> None:
    """Do what there is to do for one resource, beginning with what was observed.

    Raises: what `record`, `confirm` and `gateway` raise.
    """
    for _ in range(ROUNDS_MAX):
        decision = plan_group(spec, recorded, observed, owner=owner)
        # Every round is recorded: the last one says what the group has become.
        await record(decision.operations, decision.findings, observed)
        recorded = decision.operations
        if decision.action is None:
            return
        await confirm()
        error = await gateway.carry_out(decision.action)
        if error is not None:
            after, findings = failing(recorded, str(error)), decision.findings
            if _has_members(error):
                observed = await gateway.observe([question_of(spec, recorded)])
                seen = plan_group(spec, recorded, observed, owner=owner, was_refused=True)
                after, findings = seen.operations, seen.findings
            await record(after, findings, observed)
            return
        recorded = acknowledged(recorded, decision.action)
        await record(recorded, decision.findings, observed)
        observed = await gateway.observe([question_of(spec, recorded)])


def _has_members(error: Exception) -> bool:
    """Whether the brokers have refused, because there are members, and have done nothing."""
    return isinstance(error, BarnabasError) and error.code is ErrorCode.NON_EMPTY_GROUP
