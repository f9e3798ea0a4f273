"""Carries out a plan of topics through a gateway, in batches, and tells what became of each step.

Not here: deciding (`topic_plan`), the real way to the brokers (`gateway/kafka_topics.py`).

Invariants: one failed step does not keep others from being tried, except the later steps of the
same topic; nothing here retries, because the next round plans from what is then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    Finding,
    GrowPartitions,
    ObservedCluster,
    Reason,
    ReassignReplicas,
    Step,
    TopicPlan,
)
from barnabas_operator.spec import TopicSpec

# Growing and moving replicas at once takes two; one more for what changed in between.
ROUNDS_MAX = 3

_StepT = TypeVar("_StepT")
Errors = Mapping[str, Exception]


class TopicGateway(Protocol):
    """The brokers. Each call takes all steps of a kind, at most one for each topic, and returns the
    errors by topic; what is not in them was done.
    """

    async def observe(self, topics: Sequence[str]) -> ObservedCluster:
        """Look at those topics, all in one go; unknown ones are absent."""
        ...

    async def create_topics(self, steps: Sequence[CreateTopic]) -> Errors:
        """Create; returns when the topics can be seen by `observe`."""
        ...

    async def grow_partitions(self, steps: Sequence[GrowPartitions]) -> Errors:
        """Add partitions."""
        ...

    async def change_configs(self, steps: Sequence[ChangeConfig]) -> Errors:
        """Set and reset settings."""
        ...

    async def reassign_replicas(self, steps: Sequence[ReassignReplicas]) -> Errors:
        """Start moving; what is under way counts as done for the planner."""
        ...

    async def delete_topics(self, steps: Sequence[DeleteTopic]) -> Errors:
        """Delete."""
        ...


class LastingGateway(TopicGateway, Protocol):
    """The brokers of one cluster; `last` is what `observe` has told last, if it has."""

    last: ObservedCluster | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What became of one step; `error` is None where it was carried out."""

    step: Step
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was seen in the end, and what became of the steps.

    `errors` has what went wrong first, by topic; `findings` are by resource.
    """

    observed: ObservedCluster
    results: Sequence[StepResult]
    errors: Mapping[str, Exception]
    findings: Mapping[str, Sequence[Finding]]

    def is_conflict(self, spec: TopicSpec) -> bool:
        """Whether another resource has the topic."""
        findings = self.findings.get(spec.resource, ())
        return any(finding.reason is Reason.CONFLICT for finding in findings)


class SkippedError(Exception):
    """Not tried, because an earlier step of the same topic failed."""


async def apply_plan(plan: TopicPlan, gateway: TopicGateway) -> list[StepResult]:
    """Carry out all steps, kind by kind; returns the results in the order of the plan.

    Raises: what the gateway raises where it cannot reach the brokers at all.
    """
    failed: dict[str, Exception] = {}
    results: dict[int, StepResult] = {}

    async def carry_out(kind: type[_StepT], call: Callable[[Sequence[_StepT]], object]) -> None:
        chosen = [
            (number, step)
            for number, step in enumerate(plan.steps)
            if isinstance(step, kind) and step.topic not in failed
        ]
        if not chosen:
            return
        errors = await call([step for _, step in chosen])  # type: ignore[misc]
        for number, step in chosen:
            error = errors.get(step.topic)
            results[number] = StepResult(step=step, error=error)
            if error is not None:
                failed[step.topic] = error

    await carry_out(CreateTopic, gateway.create_topics)
    await carry_out(GrowPartitions, gateway.grow_partitions)
    await carry_out(ReassignReplicas, gateway.reassign_replicas)
    await carry_out(ChangeConfig, gateway.change_configs)
    await carry_out(DeleteTopic, gateway.delete_topics)
    return [
        results.get(number)
        or StepResult(step=step, error=SkippedError(f"not tried: {failed[step.topic]}"))
        for number, step in enumerate(plan.steps)
    ]


async def reconcile_topics(
    specs: Sequence[TopicSpec],
    gateway: TopicGateway,
    on_plan: Callable[[TopicPlan], None] = lambda plan: None,
    *,
    confirm: Callable[[TopicPlan], Awaitable[None]] | None = None,
) -> tuple[TopicPlan, list[StepResult]]:
    """Observe, plan and apply until nothing is left to do or something failed.

    `on_plan` sees each plan before it is carried out, and `confirm` may keep it from that by
    raising. A step that was carried out is not repeated
    where a broker does not show its effect yet. Returns the last plan, which has steps only where
    something failed, and the results of all rounds.
    """
    names = sorted({spec.topic for spec in specs})
    results: list[StepResult] = []
    carried_out: dict[tuple[type, str], Step] = {}
    for _ in range(ROUNDS_MAX):
        plan = plan_topics(specs, await gateway.observe(names))
        new = [step for step in plan.steps if carried_out.get((type(step), step.topic)) != step]
        plan = replace(plan, steps=tuple(new))
        if not plan.steps:
            return plan, results
        on_plan(plan)
        if confirm is not None:
            await confirm(plan)
        done = await apply_plan(plan, gateway)
        results += done
        if any(result.error is not None for result in done):
            return plan, results
        carried_out |= {(type(step), step.topic): step for step in plan.steps}
    return replace(plan, steps=()), results


async def reconcile_and_observe(
    gateway: LastingGateway,
    specs: Sequence[TopicSpec],
    confirm: Callable[[TopicPlan], Awaitable[None]],
) -> Outcome:
    """Look, plan and act; at the end it has looked after the last act.

    Raises: BarnabasError; what `confirm` raises, before anything of that plan was done.
    """
    plan, results = await reconcile_topics(specs, gateway, confirm=confirm)
    observed = gateway.last
    if observed is None or plan.steps:
        # Something was tried after the last look.
        observed = await gateway.observe(sorted({spec.topic for spec in specs}))
    errors: dict[str, Exception] = {}
    for result in results:
        if result.error is not None:
            errors.setdefault(result.step.topic, result.error)
    findings: dict[str, list[Finding]] = defaultdict(list)
    for finding in plan.findings:
        findings[finding.resource].append(finding)
    return Outcome(observed=observed, results=results, errors=errors, findings=findings)
