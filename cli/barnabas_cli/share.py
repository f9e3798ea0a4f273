"""`barnabas share`: list, describe, offsets, reset, delete, consume (KIP-932).

Not here: what is known of a group (`share_facts.py`), resetting (`group_offsets_reset.py`), writing
records (`share_consume.py`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_share_groups, complete_topics
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.diagnosis import behind_text, with_watch, write_diagnosis
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import (
    confirm,
    given_options,
    require_share_groups,
    with_confirmation,
)
from barnabas_cli.output import Column, Output, counted, with_output
from barnabas_client.facts.record_format import NAMES

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

#: The states of a share group (SHR-28).
STATES = ("Empty", "Stable", "Dead")
_STATE_COLOURS = {"Stable": "green", "Empty": None, "Dead": "red"}
_LIST_COLUMNS = (
    Column(title="GROUP", field="group"),
    Column(title="STATE", field="state", style=lambda state: _STATE_COLOURS.get(state, "yellow")),
)
_MEMBER_COLUMNS = (
    Column(title="MEMBER", field="member"),
    Column(title="CLIENT", field="client"),
    Column(title="HOST", field="host"),
    Column(title="EPOCH", field="epoch", is_right=True),
    Column(title="PARTITIONS", field="partitions"),
)
_OFFSET_COLUMNS = (
    Column(title="GROUP", field="group"),
    Column(title="TOPIC", field="topic"),
    Column(title="PARTITION", field="partition", is_right=True),
    Column(title="START", field="start_offset", is_right=True),
    Column(title="END", field="end_offset", is_right=True),
    Column(title="LAG", field="lag", is_right=True, style=lambda lag: "yellow" if lag else None),
    Column(title="BEHIND", field="lag_seconds", is_right=True, text=behind_text),
    Column(title="CLIENTS", field="clients"),
)


@click.group("share", cls=NearestGroup)
def command() -> None:
    """Share groups (queues): list, describe, offsets, reset, delete, consume."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only those in this state.",
)
@with_output
@with_connection
def list_groups(states: tuple[str, ...], connection: Connection, output: Output) -> None:
    """List share groups."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from barnabas_client.admin.values.groups import GroupType

        return [
            {"group": listing.group_id, "state": str(listing.state)}
            for listing in await admin.groups.list(types=[GroupType.SHARE])
            if not states or str(listing.state) in states
        ]

    output.rows(connection.run_admin(work), _LIST_COLUMNS, empty="There are no share groups.")


@command.command("describe")
@click.argument("groups", nargs=-1, required=True, shell_complete=complete_share_groups)
@with_watch
@with_output
@with_connection
def describe(
    groups: tuple[str, ...], watch_ms: int, connection: Connection, output: Output
) -> None:
    """Show state, lag and members of share groups, and why one does not get on."""
    answer = connection.run_admin(lambda admin: _details(admin, groups, watch_ms))
    if not output.is_table:
        output.data(answer)
        return
    for number, group in enumerate(answer):
        if number:
            click.echo()
        click.echo(_headline(group))
        write_diagnosis("share", group)
        output.rows(group["members"], _MEMBER_COLUMNS, empty="  no members")


@command.command("offsets")
@click.argument("groups", nargs=-1, required=True, shell_complete=complete_share_groups)
@with_output
@with_connection
def show_offsets(groups: tuple[str, ...], connection: Connection, output: Output) -> None:
    """Show where share groups are in each partition: start, end and lag.

    All records before START are processed, and some behind it may be: LAG counts those that are
    not. A partition without START was not read.
    """
    from barnabas_client.facts.share_facts import offset_rows

    rows = offset_rows(connection.run_admin(lambda admin: _details(admin, groups)))
    output.rows(rows, _OFFSET_COLUMNS, empty="There are no offsets.")


async def _details(
    admin: Admin, groups: tuple[str, ...], watch_ms: int = 0
) -> list[dict[str, Any]]:
    from barnabas_client.env import SystemClock
    from barnabas_client.facts.share_facts import share_group_details

    await require_share_groups(admin, groups)
    return await share_group_details(admin, groups, SystemClock(), watch_ms=watch_ms)


def _headline(group: dict[str, Any]) -> str:
    words = [
        f"{click.style(group['group'], bold=True)}  {group['state']}",
        counted(group["member_count"], "member"),
        f"lag {group['lag_known']}{'' if group['lag'] is not None else ' or more'}"
        f" over {counted(len(group['partition_list']), 'partition')}",
        f"coordinator {group['coordinator']}",
        f"epoch {group['group_epoch']}, assigned {group['assignment_epoch']}",
    ]
    return ", ".join(words)


@command.command("delete")
@click.argument("groups", nargs=-1, required=True, shell_complete=complete_share_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    shell_complete=complete_topics,
    help="Delete only the offsets of this topic.",
)
@with_confirmation
@with_connection
def delete(
    groups: tuple[str, ...], topics: tuple[str, ...], is_confirmed: bool, connection: Connection
) -> None:
    """Delete share groups without members, and where they are."""
    what = (
        f"where {', '.join(groups)} {'is' if len(groups) == 1 else 'are'} in {', '.join(topics)}"
        if topics
        else f"{', '.join(groups)} with all offsets"
    )

    async def find(admin: Admin) -> None:
        await require_share_groups(admin, groups)

    async def work(admin: Admin) -> None:
        if not topics:
            (await admin.groups.delete(groups)).unwrap()
            return
        for group_id in groups:
            (await admin.share_groups.delete_offsets(group_id, topics)).unwrap()

    connection.run_admin(find)
    confirm(f"Delete {what}?", is_confirmed=is_confirmed)
    connection.run_admin(work)
    click.echo(f"deleted {what}")


@command.command("reset")
@click.argument("group", shell_complete=complete_share_groups)
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end: skip all records.")
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
    help="Only this topic.  [default: all that the group knows]",
)
@click.option("--execute", is_flag=True, help="Move; without this offsets are only shown.")
@click.option("--dry-run", is_flag=True, help="Only show offsets, which is the default.")
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
    dry_run: bool,
    undo_file: str | None,
    connection: Connection,
    output: Output,
    **targets: Any,
) -> None:
    """Reset where a share group begins: shows old and new offsets; --execute moves it.

    The group must have no members. Where it was before is kept in a file, and the command that
    brings it back is printed. Records from there on are delivered again, also accepted ones.
    """
    from barnabas_cli.group_offsets_reset import SHARE_GROUP, run_reset, wanted_from_options

    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other.")
    given = given_options(targets)
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in targets)
        raise click.UsageError(f"Give exactly one of {names}.")
    wanted = wanted_from_options(next(iter(given.items())), scopes)
    run_reset(
        connection, output, group, wanted, execute=execute, undo_file=undo_file, kind=SHARE_GROUP
    )


@command.command("consume")
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "-g", "--group", required=True, shell_complete=complete_share_groups, help="The share group."
)
@click.option("-f", "--follow", is_flag=True, help="Keep reading new records.")
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), help="Stop after S seconds without a record."
)
@click.option(
    "--acknowledge",
    "kind",
    type=click.Choice(["accept", "release", "reject"]),
    default="accept",
    show_default=True,
    help="What becomes of the records: processed, for others again, or dropped.",
)
@click.option(
    "-F",
    "--format",
    "style",
    default="value",
    show_default=True,
    help=f"{', '.join(NAMES)}, or a template: '{{partition}}:{{offset}} {{key}} {{value}}'.",
)
@click.option("-k", "--keys", "with_keys", is_flag=True, help="Show the key before the value.")
@click.option("-H", "--headers", "with_headers", is_flag=True, help="Show headers as name=value.")
@click.option("--position", "with_position", is_flag=True, help="Show offsets and timestamps.")
@with_connection
def consume(
    topics: tuple[str, ...],
    group: str,
    follow: bool,
    max_records: int | None,
    timeout: float | None,
    kind: str,
    style: str,
    connection: Connection,
    **shown: bool,
) -> None:
    """Process records as a member of a share group: write them and acknowledge them.

    Without --follow it ends when no record is available. Where a new group begins is its setting
    share.auto.offset.reset, by default the end.
    """
    from barnabas_cli.share_consume import Processing, process, share_renderer
    from barnabas_client.share.records import AcknowledgeType

    try:
        processing = Processing(
            kind=AcknowledgeType[kind.upper()],
            render=share_renderer(style, **shown),
            follow=follow,
            max_records=max_records,
            timeout_ms=None if timeout is None else round(timeout * 1000),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    async def work() -> int:
        from barnabas_client.facts.topic_facts import describe_topics

        async with connection.admin() as admin:
            await describe_topics(admin, topics)
        async with connection.share_consumer(
            group_id=group,
            share_acknowledgement_mode="explicit",
            allow_auto_create_topics=False,
        ) as consumer:
            consumer.subscribe(topics)
            return await process(consumer, processing)

    count = connection.run(work)
    if sys.stderr.isatty():
        click.echo(counted(count, "record"), err=True)
