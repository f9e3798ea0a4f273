"""Carries out a plan of topics through a gateway, in batches, and tells what became of each step.

Not here: deciding (`topic_plan`), the real way to the brokers (`gateway/kafka_topics.py`).

Invariants: one failed step does not keep others from being tried, except the later steps of the
same topic; nothing here retries, because the next round plans from what is then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    GrowPartitions,
    ObservedCluster,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What became of one step; `error` is None where it was carried out."""

    step: Step
    error: Exception | None = None


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
) -> tuple[TopicPlan, list[StepResult]]:
    """Observe, plan and apply until nothing is left to do or something failed.

    `on_plan` sees each plan before it is carried out. A step that was carried out is not repeated
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
        done = await apply_plan(plan, gateway)
        results += done
        if any(result.error is not None for result in done):
            return plan, results
        carried_out |= {(type(step), step.topic): step for step in plan.steps}
    return replace(plan, steps=()), results
