"""A plan as text that reads like a diff: `+` comes, `-` goes, `~` changes, `!` needs attention.

Pure, without colours: the first character of a line tells its kind to whoever wants to paint it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    Finding,
    GrowPartitions,
    Reason,
    ReassignReplicas,
    Step,
    TopicPlan,
)


def plan_lines(plan: TopicPlan) -> Iterator[str]:
    """The lines of all steps, then those of the findings; none for a plan that does nothing."""
    previous = ""
    for step in plan.steps:
        header, details = _step_lines(step)
        if header != previous:
            yield header
        previous = header
        yield from details
    for finding in plan.findings:
        yield _finding_line(finding)


def step_summary(step: Step) -> str:
    """One step in a few words, for events and progress."""
    match step:
        case CreateTopic():
            return f"create topic {step.topic}"
        case GrowPartitions():
            return f"grow topic {step.topic} to {step.partitions} partitions"
        case ChangeConfig():
            return f"change {len(step.assigned) + len(step.reset)} settings of topic {step.topic}"
        case ReassignReplicas():
            return f"move topic {step.topic} to {step.replicas} replicas"
        case DeleteTopic():
            return f"delete topic {step.topic}"
        case _:
            assert_never(step)


def _step_lines(step: Step) -> tuple[str, list[str]]:
    match step:
        case CreateTopic():
            numbers = {"partitions": step.partitions, "replicas": step.replicas}
            return f"+ topic {step.topic}", [
                *(f"+   {name}: {number or 'by default'}" for name, number in numbers.items()),
                *(f"+   config {key}: {value}" for key, value in step.config.items()),
            ]
        case GrowPartitions():
            return f"~ topic {step.topic}", [
                f"~   partitions: {step.partitions_before} → {step.partitions}"
            ]
        case ChangeConfig():
            return f"~ topic {step.topic}", [
                *(_assignment_line(step, key, value) for key, value in step.assigned.items()),
                *(f"-   config {key}: {step.before[key]} → by default" for key in step.reset),
            ]
        case ReassignReplicas():
            return f"~ topic {step.topic}", [
                f"~   replicas: {step.replicas_before} → {step.replicas}"
                f" ({len(step.assignments)} partitions move)"
            ]
        case DeleteTopic():
            return f"- topic {step.topic}", ["-   with all its records"]
        case _:
            assert_never(step)


def _assignment_line(step: ChangeConfig, key: str, value: str) -> str:
    if key in step.before:
        return f"~   config {key}: {step.before[key]} → {value}"
    return f"+   config {key}: {value}"


def _finding_line(finding: Finding) -> str:
    mark = "!" if finding.is_blocking or finding.reason is Reason.DRIFT else "#"
    name = "" if finding.resource == finding.topic else f" ({finding.resource})"
    return f"{mark} topic {finding.topic}{name}: {finding.message} [{finding.reason}]"
