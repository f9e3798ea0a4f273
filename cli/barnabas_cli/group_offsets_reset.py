"""`barnabas group reset` and `share reset`: show old and new offsets, save the old, set the new.

Not here: the arithmetic (`group_reset.py`), which requests a kind of group takes
(`group_offset_kinds.py`).

Invariants: without --execute nothing is changed; the undo file is complete before anything is; a
group with members is refused (and the broker would refuse it too).
"""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection
from barnabas_cli.failures import CommandError
from barnabas_cli.group_offset_kinds import CONSUMER_GROUP, SHARE_GROUP, GroupOffsetKind
from barnabas_cli.group_reset import (
    Change,
    PartitionFacts,
    in_scope,
    parse_offsets,
    parse_scopes,
    plan_reset,
    undo_file_name,
    undo_text,
)
from barnabas_cli.lookups import check_partitions, describe_topics
from barnabas_cli.moments import parse_moment_ms
from barnabas_cli.output import Column, Output, counted
from barnabas_cli.suggestions import hint
from barnabas_cli.topic_facts import offsets
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.offset_ranges import OffsetRange, ResetTarget
from barnabas_client.env import SystemClock
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.settings.durations import parse_duration_ms

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

__all__ = ["CONSUMER_GROUP", "SHARE_GROUP", "Wanted", "run_reset"]

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
_SIMPLE_TARGETS = {
    "to_earliest": ResetTarget.EARLIEST,
    "to_latest": ResetTarget.LATEST,
    "to_current": ResetTarget.CURRENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where to, and for which topics."""

    target: ResetTarget
    number: int = 0
    moment_ms: int | None = None
    from_file: dict[TopicPartition, int | None] = field(default_factory=dict)
    scopes: dict[str, tuple[int, ...] | None] = field(default_factory=dict)

    @classmethod
    def from_options(cls, option: tuple[str, Any], scope_texts: tuple[str, ...]) -> Wanted:
        """What the one option that says where to means. Raises: click.UsageError."""
        name, value = option
        now_ms = SystemClock().wall_ms()
        try:
            scopes = parse_scopes(scope_texts)
            if name in _SIMPLE_TARGETS:
                return cls(target=_SIMPLE_TARGETS[name], scopes=scopes)
            if name == "to_offset":
                return cls(target=ResetTarget.OFFSET, number=value, scopes=scopes)
            if name == "shift_by":
                return cls(target=ResetTarget.SHIFT_BY, number=value, scopes=scopes)
            if name == "from_file":
                in_file = parse_offsets(Path(value).read_text("utf-8"))
                return cls(target=ResetTarget.LOOKED_UP, from_file=in_file, scopes=scopes)
            if name == "by_duration":
                moment_ms = now_ms - parse_duration_ms(value)
            else:
                moment_ms = parse_moment_ms(value, now_ms)
            return cls(target=ResetTarget.LOOKED_UP, moment_ms=moment_ms, scopes=scopes)
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
        changes = await _plan(admin, group_id, wanted, kind)
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
        await _require_empty(admin, group_id, kind)
        path = _keep_old(group_id, moving, undo_file)
        await kind.set_offsets(
            admin, group_id, {change.topic_partition: change.new for change in moving}
        )
        undo = _undo_command(connection, group_id, path, kind)
        if not output.is_table:
            output.data({"group": group_id, "executed": True, "undo": undo, "changes": rows})
        else:
            click.echo(f"Moved {counted(len(moving), 'partition')}. To undo it:\n  {undo}")

    connection.run_admin(work)


async def _plan(admin: Admin, group_id: str, wanted: Wanted, kind: GroupOffsetKind) -> list[Change]:
    known = await kind.group_ids(admin)
    if group_id not in known and not wanted.scopes and not wanted.from_file:
        raise CommandError(
            f"No such group '{group_id}'.{hint(group_id, known)} (A new one needs --topic.)"
        )
    committed = await kind.offsets(admin, group_id) if group_id in known else {}
    places = await _places(admin, wanted, list(committed))
    starts, ends, times = await asyncio.gather(
        offsets(admin, places, OffsetSpec.EARLIEST),
        offsets(admin, places, OffsetSpec.LATEST),
        _offsets_at(admin, places, wanted.moment_ms),
    )
    facts = []
    for place in places:
        start, end = starts.get(place), ends.get(place)
        if start is None or end is None:
            raise CommandError(f"{place} has no known offsets: it has no leader, or is deleted")
        in_file = wanted.from_file.get(place)
        facts.append(
            PartitionFacts(
                topic_partition=place,
                committed=committed.get(place),
                held=OffsetRange(start, end),
                looked_up=in_file if wanted.from_file else times.get(place),
                is_removed=bool(wanted.from_file) and in_file is None,
            )
        )
    return plan_reset(facts, wanted.target, wanted.number)


async def _places(
    admin: Admin, wanted: Wanted, committed: list[TopicPartition]
) -> list[TopicPartition]:
    """The partitions to move: those of the file, of the named topics, or all committed ones."""
    if wanted.from_file:
        return in_scope(wanted.scopes, wanted.from_file)
    if not wanted.scopes:
        if not committed:
            raise CommandError("the group has no committed offsets: name a topic with --topic")
        return committed
    described = await describe_topics(admin, list(wanted.scopes))
    for name, numbers in wanted.scopes.items():
        check_partitions(described[name], numbers or ())
    places = [
        TopicPartition(topic.name, number)
        for topic in described.values()
        for number in topic.partitions
    ]
    return in_scope(wanted.scopes, places)


async def _offsets_at(
    admin: Admin, places: list[TopicPartition], moment_ms: int | None
) -> dict[TopicPartition, int | None]:
    if moment_ms is None:
        return {}
    found = await admin.partitions.list_offsets(dict.fromkeys(places, moment_ms))
    return {place: answer.offset for place, answer in found.unwrap().items()}


async def _require_empty(admin: Admin, group_id: str, kind: GroupOffsetKind) -> None:
    found = await kind.members(admin, group_id)
    if found is not None and (found.client_ids or not found.is_empty):
        clients = ", ".join(sorted(set(found.client_ids)))
        raise CommandError(
            f"group '{group_id}' is {found.state} with"
            f" {counted(len(found.client_ids), 'member')}"
            f"{f' ({clients})' if clients else ''}: stop them first"
        )


def _keep_old(group_id: str, moving: list[Change], undo_file: str | None) -> Path:
    moment = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    path = Path(undo_file or undo_file_name(group_id, f"{moment:%Y%m%dT%H%M%SZ}"))
    path.write_text(undo_text(moving), "utf-8")
    return path


def _undo_command(connection: Connection, group_id: str, path: Path, kind: GroupOffsetKind) -> str:
    words = ["barnabas", kind.noun, "reset", group_id, "--from-file", str(path), "--execute"]
    if connection.is_explicit:
        words += ["-b", connection.bootstrap_servers]
    return shlex.join(words)
