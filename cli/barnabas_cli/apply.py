"""`barnabas apply` and `barnabas diff`: declared topics without Kubernetes.

The planner is the operator's own, so the same manifests mean the same here and there. Not here:
reading manifests (`manifests.py`), planning and carrying out (`barnabas_operator.reconcile`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.failures import DIFFERENCES, FAILED
from barnabas_cli.output import Output, counted, with_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas_cli.manifests import Loaded
    from barnabas_client.admin.admin import Admin
    from barnabas_operator.reconcile.topic_apply import StepResult
    from barnabas_operator.reconcile.topic_state import Step, TopicPlan
    from barnabas_operator.spec import TopicSpec

_COLOURS = {"+": "green", "-": "red", "~": "yellow", "!": "red", "#": "bright_black"}


def _with_files(function: Callable[..., None]) -> Callable[..., None]:
    option: Any = click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=True,
        type=click.Path(exists=True, allow_dash=True),
        help="A manifest, a folder of them, or - for standard input.",
    )
    wrapped: Callable[..., None] = option(function)
    return wrapped


@click.command("apply")
@_with_files
@click.option("--dry-run", is_flag=True, help="Only show what would be done, as 'diff' does.")
@with_output
@with_connection
@click.pass_context
def apply(
    context: click.Context,
    /,
    paths: tuple[str, ...],
    dry_run: bool,
    connection: Connection,
    output: Output,
) -> None:
    """Create and change topics as manifests declare; a second run changes nothing.

    A topic that no manifest declares is never touched, and no partition or record is ever removed.
    Exit code 1 if something declared cannot be done.
    """
    loaded = load(paths)
    if dry_run:
        context.exit(_show_difference(connection, loaded, output) and 0)
    plan, results = connection.run_admin(lambda admin: reconcile(admin, loaded.specs, output))
    failed = [result for result in results if result.error is not None]
    if not output.is_table:
        output.data({**plan_data(plan), "steps": [_result_data(result) for result in results]})
    else:
        show_results(plan, results)
    blocked = any(finding.is_blocking for finding in plan.findings)
    context.exit(FAILED if failed or blocked else 0)


@click.command("diff")
@_with_files
@with_output
@with_connection
@click.pass_context
def diff(
    context: click.Context,
    /,
    paths: tuple[str, ...],
    connection: Connection,
    output: Output,
) -> None:
    """Show what 'apply' would change. Exit code 0: nothing, 3: something."""
    context.exit(_show_difference(connection, load(paths), output))


def load(paths: Sequence[str]) -> Loaded:
    """The specs in the files; tells people what is left aside.

    Raises: ManifestError; all problems but the first are shown before.
    """
    from barnabas_cli.manifests import ManifestError, load_specs

    try:
        loaded = load_specs(paths, _read_input)
    except ManifestError as error:
        for problem in error.wrong[1:]:
            click.echo(problem, err=True)
        raise
    for skipped in loaded.skipped:
        click.echo(f"skipped {skipped}", err=True)
    return loaded


def _read_input() -> str:
    return sys.stdin.read()


async def reconcile(
    admin: Admin, specs: Sequence[TopicSpec], output: Output
) -> tuple[TopicPlan, list[StepResult]]:
    """Bring the topics to what the specs say, showing each plan before it is carried out."""
    from barnabas_operator.gateway.kafka_topics import KafkaTopics
    from barnabas_operator.reconcile.topic_apply import reconcile_topics

    def show(plan: TopicPlan) -> None:
        if output.is_table:
            show_steps(plan)

    return await reconcile_topics(specs, KafkaTopics(admin), show)


def _show_difference(connection: Connection, loaded: Loaded, output: Output) -> int:
    async def work(admin: Admin) -> TopicPlan:
        from barnabas_operator.gateway.kafka_topics import KafkaTopics
        from barnabas_operator.reconcile.topic_plan import plan_topics

        names = sorted({spec.topic for spec in loaded.specs})
        return plan_topics(loaded.specs, await KafkaTopics(admin).observe(names))

    plan = connection.run_admin(work)
    if not output.is_table:
        output.data(plan_data(plan))
    else:
        _show_plan(plan)
        _show_unchanged(plan)
    is_different = bool(plan.steps) or any(finding.is_blocking for finding in plan.findings)
    return DIFFERENCES if is_different else 0


def show_steps(plan: TopicPlan) -> None:
    """Show what will be done; findings come at the end."""
    from dataclasses import replace

    _show_plan(replace(plan, findings=()))


def _show_plan(plan: TopicPlan) -> None:
    from barnabas_operator.reconcile.topic_plan_text import plan_lines

    for line in plan_lines(plan):
        click.echo(click.style(line, fg=_COLOURS.get(line[0])))


def _show_unchanged(plan: TopicPlan) -> None:
    if plan.unchanged:
        verb = "is" if len(plan.unchanged) == 1 else "are"
        click.echo(f"{counted(len(plan.unchanged), 'topic')} {verb} as declared")


def show_results(plan: TopicPlan, results: Sequence[StepResult]) -> None:
    """Show failures, remaining findings and a summary."""
    from dataclasses import replace

    from barnabas_operator.reconcile.topic_plan_text import step_summary

    for result in results:
        if result.error is not None:
            words = f"failed to {step_summary(result.step)}: {result.error}"
            click.echo(click.style(words, fg="red"), err=True)
    _show_plan(replace(plan, steps=()))
    done = sum(result.error is None for result in results)
    if results:
        click.echo(f"{done} of {counted(len(results), 'change')} done")
    else:
        _show_unchanged(plan)


def plan_data(plan: TopicPlan) -> dict[str, Any]:
    """A plan as plain data."""
    return {
        "steps": [_step_data(step) for step in plan.steps],
        "findings": [
            {
                "resource": finding.resource,
                "topic": finding.topic,
                "reason": str(finding.reason),
                "blocking": finding.is_blocking,
                "message": finding.message,
            }
            for finding in plan.findings
        ],
        "unchanged": list(plan.unchanged),
    }


def _step_data(step: Step) -> dict[str, Any]:
    from dataclasses import fields

    data: dict[str, Any] = {"step": type(step).__name__}
    for field in fields(step):
        value = getattr(step, field.name)
        if isinstance(value, tuple):
            value = list(value)
        elif not isinstance(value, str | int | None):
            value = {
                key: list(item) if isinstance(item, tuple) else item for key, item in value.items()
            }
        data[field.name] = value
    return data


def _result_data(result: StepResult) -> dict[str, Any]:
    error = None if result.error is None else str(result.error)
    return {**_step_data(result.step), "error": error}
