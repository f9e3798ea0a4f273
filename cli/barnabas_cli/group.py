"""`barnabas group`: list, describe, reset, delete.

Not here: what is known of a group (`group_facts.py`), resetting (`group_offsets_reset.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_groups, complete_topics
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.diagnosis import behind_text, with_watch, write_diagnosis
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import confirm, given_options, require_groups, with_confirmation
from barnabas_cli.output import Column, Output, counted, with_output

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

# The texts of `GroupState`, which would cost an import before anything is asked for.
STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
#: The texts of `GroupType`, of those that brokers serve.
TYPES = ("Classic", "Consumer", "Share")
_STATE_COLOURS = {"Stable": "green", "Empty": None, "Dead": "red"}
_LIST_COLUMNS = (
    Column(title="GROUP", field="group"),
    Column(title="STATE", field="state", style=lambda state: _STATE_COLOURS.get(state, "yellow")),
    Column(title="TYPE", field="type"),
    Column(title="PROTOCOL", field="protocol"),
)
_PARTITION_COLUMNS = (
    Column(title="TOPIC", field="topic"),
    Column(title="PARTITION", field="partition", is_right=True),
    Column(title="COMMITTED", field="committed", is_right=True),
    Column(title="END", field="end_offset", is_right=True),
    Column(title="LAG", field="lag", is_right=True, style=lambda lag: "yellow" if lag else None),
    Column(title="BEHIND", field="lag_seconds", is_right=True, text=behind_text),
    Column(title="CLIENT", field="client"),
    Column(title="HOST", field="host"),
    Column(title="MEMBER", field="member"),
)
_MEMBER_COLUMNS = (
    Column(title="MEMBER", field="member"),
    Column(title="INSTANCE", field="instance"),
    Column(title="CLIENT", field="client"),
    Column(title="HOST", field="host"),
    Column(title="PARTITIONS", field="partitions"),
)
# Of groups of the newer protocol: how far each member is, and what it is to have.
_EPOCH_COLUMNS = (
    Column(title="EPOCH", field="epoch", is_right=True),
    Column(title="PROTOCOL", field="protocol"),
    Column(title="TARGET", field="target"),
)


@click.group("group", cls=NearestGroup)
def command() -> None:
    """Consumer groups: list, describe with lag, reset offsets, delete."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only those in this state.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only those of this protocol.",
)
@with_output
@with_connection
def list_groups(
    states: tuple[str, ...], types: tuple[str, ...], connection: Connection, output: Output
) -> None:
    """List groups of all protocols: classic, consumer and share groups."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from barnabas_client.admin.values.groups import GroupState, GroupType

        wanted = {GroupState(state) for state in states}
        kinds = [GroupType(kind) for kind in types]
        return [
            {
                "group": listing.group_id,
                "state": str(listing.state),
                "type": str(listing.type),
                "protocol": listing.protocol_type,
            }
            for listing in await admin.groups.list(types=kinds)
            if not wanted or listing.state in wanted
        ]

    output.rows(connection.run_admin(work), _LIST_COLUMNS, empty="There are no groups.")


@command.command("describe")
@click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
@click.option("--members", "with_members", is_flag=True, help="Show members instead of partitions.")
@with_watch
@with_output
@with_connection
def describe(
    groups: tuple[str, ...],
    with_members: bool,
    watch_ms: int,
    connection: Connection,
    output: Output,
) -> None:
    """Show the committed offsets, lag and members of groups, and why one does not get on."""
    from barnabas_client.env import SystemClock
    from barnabas_client.facts.group_facts import group_details

    async def work(admin: Admin) -> list[dict[str, Any]]:
        await require_groups(admin, groups)
        return await group_details(admin, groups, SystemClock(), watch_ms=watch_ms)

    answer = connection.run_admin(work)
    if not output.is_table:
        output.data(answer)
        return
    for number, group in enumerate(answer):
        if number:
            click.echo()
        click.echo(_headline(group))
        write_diagnosis("group", group)
        if with_members:
            is_assigned = group["group_epoch"] is not None
            columns = (*_MEMBER_COLUMNS, *(_EPOCH_COLUMNS if is_assigned else ()))
            output.rows(group["members"], columns, empty="  no members")
        else:
            output.rows(group["partition_list"], _PARTITION_COLUMNS, empty="  nothing committed")


def _headline(group: dict[str, Any]) -> str:
    words = [
        f"{click.style(group['group'], bold=True)}  {group['state']}",
        counted(group["member_count"], "member"),
        f"lag {group['lag_known']}{'' if group['lag'] is not None else ' or more'}"
        f" over {counted(len(group['partition_list']), 'partition')}",
        f"coordinator {group['coordinator']}",
    ]
    if group["assignor"]:
        words.append(f"assignor {group['assignor']}")
    if group["group_epoch"] is not None:
        words.append(f"epoch {group['group_epoch']}, assigned {group['assignment_epoch']}")
    return ", ".join(words)


@command.command("delete")
@click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    shell_complete=complete_topics,
    help="Delete only the committed offsets of this topic.",
)
@with_confirmation
@with_connection
def delete(
    groups: tuple[str, ...], topics: tuple[str, ...], is_confirmed: bool, connection: Connection
) -> None:
    """Delete groups without members, and their committed offsets."""
    what = (
        f"what {', '.join(groups)} committed for {', '.join(topics)}"
        if topics
        else (f"{', '.join(groups)} with all committed offsets")
    )

    async def find(admin: Admin) -> None:
        await require_groups(admin, groups)

    async def work(admin: Admin) -> None:
        if not topics:
            (await admin.groups.delete(groups)).unwrap()
            return
        for group_id, committed in (await admin.group_offsets.list(groups)).unwrap().items():
            places = [place for place in committed if place.topic in topics]
            (await admin.group_offsets.delete(group_id, places)).unwrap()

    connection.run_admin(find)
    confirm(f"Delete {what}?", is_confirmed=is_confirmed)
    connection.run_admin(work)
    click.echo(f"deleted {what}")


@command.command("reset")
@click.argument("group", shell_complete=complete_groups)
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end: skip all records.")
@click.option("--to-current", is_flag=True, help="To the committed offset, or the end.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option("--to-datetime", metavar="WHEN", help="To 2026-11-21T10:30, 1h (ago), or Unix ms.")
@click.option("--by-duration", metavar="DURATION", help="To a time this long ago: 90s, 1h30m, P1D.")
@click.option("--shift-by", type=int, help="Forward, or back with a negative number.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False),
    help="To the offsets in a file: topic,partition,offset in each line.",
)
@click.option(
    "--topic",
    "scopes",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    shell_complete=complete_topics,
    help="Only this topic.  [default: all with committed offsets]",
)
@click.option("--execute", is_flag=True, help="Commit; without this offsets are only shown.")
@click.option(
    "--undo-file",
    type=click.Path(dir_okay=False, writable=True),
    help="File for the old offsets.  [default: undo-GROUP-TIME.csv]",
)
@with_output
@with_connection
def reset(
    group: str,
    scopes: tuple[str, ...],
    execute: bool,
    undo_file: str | None,
    connection: Connection,
    output: Output,
    **targets: Any,
) -> None:
    """Reset a group's offsets: shows old and new ones; --execute commits them.

    The group must have no members. What was committed before is kept in a file, and the command
    that brings it back is printed.
    """
    from barnabas_cli.group_offsets_reset import run_reset, wanted_from_options

    given = given_options(targets)
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in targets)
        raise click.UsageError(f"Give exactly one of {names}.")
    wanted = wanted_from_options(next(iter(given.items())), scopes)
    run_reset(connection, output, group, wanted, execute=execute, undo_file=undo_file)
