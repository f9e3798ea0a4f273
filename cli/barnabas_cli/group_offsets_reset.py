"""`barnabas group reset` and `share reset`: show old and new offsets, save the old, set the new.

Not here: what would change (`barnabas_client.facts.offsets_reset`).

Invariants: without --execute nothing is changed; the undo file is complete before anything is; a
group with members is refused (and the broker would refuse it too).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection
from barnabas_cli.output import Column, Output, counted
from barnabas_client.env import SystemClock
from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.group_offset_kinds import CONSUMER_GROUP, SHARE_GROUP, GroupOffsetKind
from barnabas_client.facts.group_reset import Change, undo_file_name, undo_text
from barnabas_client.facts.offsets_reset import Wanted, changes_of, require_empty

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

__all__ = ["SHARE_GROUP", "run_reset", "wanted_from_options"]

_COLUMNS = (
    Column(title="TOPIC", field="topic"),
    Column(title="PARTITION", field="partition", is_right=True),
    Column(title="OLD", field="old", is_right=True),
    Column(title="NEW", field="new", is_right=True),
    Column(
        title="CHANGE",
        field="change",
        is_right=True,
        text=lambda change: "-" if change is None else f"{change:+d}" if change else "0",
        style=lambda change: "yellow" if change else None,
    ),
    Column(title="NOTE", field="note", text=lambda note: note or ""),
)


def wanted_from_options(option: tuple[str, Any], scope_texts: tuple[str, ...]) -> Wanted:
    """What the one option that says where to means. Raises: click.UsageError."""
    name, value = option
    text = Path(value).read_text("utf-8") if name == "from_file" else str(value)
    try:
        return Wanted.parse(name, text, scope_texts, SystemClock().wall_ms())
    except ValueError as error:
        raise click.UsageError(f"--{name.replace('_', '-')}: {error}") from None


def run_reset(
    connection: Connection,
    output: Output,
    group_id: str,
    wanted: Wanted,
    *,
    execute: bool,
    undo_file: str | None,
    kind: GroupOffsetKind = CONSUMER_GROUP,
) -> None:
    """Show the table, and carry it out where that is asked for."""

    async def work(admin: Admin) -> None:
        changes = await changes_of(admin, group_id, wanted, kind)
        rows = [change.as_data() for change in changes]
        moving = [change for change in changes if change.is_change]
        if output.is_table:
            output.rows(rows, _COLUMNS)
        if not execute or not moving:
            if not output.is_table:
                output.data({"group": group_id, "executed": False, "changes": rows})
            elif moving:
                verb = "commit" if kind is CONSUMER_GROUP else "move the group"
                click.echo(f"Nothing was changed. Add --execute to {verb}.", err=True)
            else:
                click.echo("Nothing to change.", err=True)
            return
        await require_empty(admin, group_id, kind)
        path = _keep_old(group_id, moving, undo_file)
        places = [(change.topic_partition, change.new) for change in moving]
        await kind.set_offsets(
            admin, group_id, {place: wanted.to_commit(place, new) for place, new in places}
        )
        undo = _undo_command(connection, group_id, path, kind)
        if not output.is_table:
            output.data({"group": group_id, "executed": True, "undo": undo, "changes": rows})
        else:
            click.echo(f"Moved {counted(len(moving), 'partition')}. To undo it:\n  {undo}")

    connection.run_admin(work)


def _keep_old(group_id: str, moving: list[Change], undo_file: str | None) -> Path:
    moment = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    path = Path(undo_file or undo_file_name(group_id, f"{moment:%Y%m%dT%H%M%SZ}"))
    path.write_text(undo_text(moving), "utf-8")
    return path


def _undo_command(connection: Connection, group_id: str, path: Path, kind: GroupOffsetKind) -> str:
    bootstrap = connection.bootstrap_servers if connection.is_explicit else ""
    options = ["--from-file", str(path), "--execute"]
    return command_line(f"{kind.noun} reset", group_id, options=options, bootstrap=bootstrap)
