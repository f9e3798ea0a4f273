"""Changes of groups: their offsets are reset, or the group is deleted.

The rows are those of `barnabas group reset` (`barnabas_client.facts.offsets_reset`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_client.admin.admin import Admin
from barnabas_client.cluster.offset_ranges import ResetTarget
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BarnabasError, IllegalStateError, NotFoundError
from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.group_offset_kinds import CONSUMER_GROUP, SHARE_GROUP, GroupOffsetKind
from barnabas_client.facts.group_reset import Change as OffsetChange
from barnabas_client.facts.group_reset import undo_file_name, undo_text
from barnabas_client.facts.offsets_reset import Wanted, changes_of, require_empty
from barnabas_console.plans.change import (
    Change,
    ChangeRequestError,
    Draft,
    ItemResult,
    MovedError,
    Row,
    Undo,
)
from barnabas_console.rights.needed import AnyOf, Need
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import TopicPartition

#: To write a request of more would hold the loop.
PARTITIONS_PER_REQUEST: Final = 1_000
#: A file of offsets, which a request for a reset may bring and an undo is.
OFFSETS_TEXT_MAX: Final = 1024 * 1024
_OFFSETS_ONLY: Final = (
    "What the group committed with its offsets is too long to be kept: an undo brings back the"
    " offsets without metadata and leader epochs."
)
KINDS: Mapping[str, GroupOffsetKind] = {"consumer": CONSUMER_GROUP, "share": SHARE_GROUP}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(Change):
    """Set the offsets of a group that has no members.

    `option` is the command's, as `--to-latest`; its name and value are shown in the command.
    """

    group: str
    kind: GroupOffsetKind
    wanted: Wanted
    option: tuple[str, str]
    scopes: tuple[str, ...]
    moment: str
    bootstrap: str

    async def draft(self, admin: Admin) -> Draft:
        """The offsets of each partition, old and new. Raises: the client's errors."""
        changes = await changes_of(admin, self.group, self.wanted, self.kind)
        refusal = None
        try:
            await require_empty(admin, self.group, self.kind)
        except IllegalStateError as error:
            refusal = error.message
        undo_name = undo_file_name(self.group, self.moment)
        undo_option = ("from_file", undo_name)

        def drawn() -> Draft:
            undo, warnings = _undo(
                self.group, self.kind, undo_name, changes, self._command(undo_option, ())
            )
            return Draft(
                title=f"Reset the offsets of {self.group}",
                rows=tuple(map(_row, changes)),
                observed=_old(changes),
                warnings=warnings,
                commands=(self._command(self.option, self.scopes),),
                refusal=refusal,
                undo=undo,
            )

        # On a thread: of 20,000 partitions it takes 50 ms.
        return await asyncio.to_thread(drawn)

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """As a member that commits needs them; what is taken away is deleted."""
        found = [(Need.of_group(AclOperation.READ, self.group),)]
        moving = [row for row in rows if row.is_change]
        if any(row.new is None for row in moving):
            found.append((Need.of_group(AclOperation.DELETE, self.group),))
        topics = sorted({_place(row).topic for row in moving})
        return (*found, *((Need.of_topic(AclOperation.READ, topic),) for topic in topics))

    async def check(self, admin: Admin, draft: Draft) -> None:
        """Refuse where the group has moved, or what it would be set to is not there any more.

        The ends may have gone on: the offsets that were shown are set, not later ones.
        Raises: MovedError; the client's errors.
        """
        new = await asyncio.to_thread(_new, draft)
        pinned = Wanted(
            target=ResetTarget.LOOKED_UP,
            from_file={
                place: self.wanted.to_commit(place, offset) for place, offset in new.items()
            },
        )
        changes = await changes_of(admin, self.group, pinned, self.kind)

        moved = await asyncio.to_thread(_moved, self.group, draft, changes, new)
        if moved:
            raise MovedError(moved)
        try:
            await require_empty(admin, self.group, self.kind)
        except IllegalStateError as error:
            raise MovedError(error.message) from None

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Set the offsets, of some partitions a request where that may be; none after a failure."""
        moving = [row for row in draft.rows if row.is_change]
        per_request = PARTITIONS_PER_REQUEST if self.kind.is_by_partition else len(moving) or 1
        error = ""
        for start in range(0, len(moving), per_request):
            some = moving[start : start + per_request]
            if not error:
                try:
                    places = [(_place(row), row.new) for row in some]
                    await self.kind.set_offsets(
                        admin,
                        self.group,
                        {place: self.wanted.to_commit(place, new) for place, new in places},
                    )
                except BarnabasError as failure:
                    error = str(failure)
            for row in some:
                yield ItemResult(item=row.item, error=error)

    def _command(self, option: tuple[str, str], scopes: tuple[str, ...]) -> str:
        name, value = option
        words = [f"--{name.replace('_', '-')}", *([value] if value else [])]
        for scope in scopes:
            words += ["--topic", scope]
        return _reset(self.kind, self.group, words, self.bootstrap)


def _row(change: OffsetChange) -> Row:
    item = str(change.topic_partition)
    return Row(item=item, old=change.old, new=change.new, note=change.note)


def _place(row: Row) -> TopicPartition:
    topic, _, number = row.item.rpartition("-")
    return TopicPartition(topic, int(number))


def _gone(place: TopicPartition, committed: OffsetAndMetadata | None) -> OffsetChange:
    old = None if committed is None else committed.offset
    return OffsetChange(topic_partition=place, old=old, new=None, committed=committed)


def _old(changes: list[OffsetChange]) -> list[tuple[str, int | None]]:
    return [(str(change.topic_partition), change.old) for change in changes]


def _moved(
    group: str, draft: Draft, changes: list[OffsetChange], new: Mapping[TopicPartition, int | None]
) -> str:
    """What is otherwise than it was shown; empty where nothing is."""
    if _old(changes) != draft.observed:
        return f"{group} has committed offsets since the preview"
    if {change.topic_partition: change.new for change in changes} != new:
        return "records were removed since the preview, up to what was to be set"
    return ""


def _new(draft: Draft) -> dict[TopicPartition, int | None]:
    return {_place(row): row.new for row in draft.rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Change):
    """Delete a group with its offsets."""

    group: str
    kind: GroupOffsetKind
    bootstrap: str

    async def draft(self, admin: Admin) -> Draft:
        """The offsets that would be gone. Raises: NotFoundError; the client's errors."""
        if self.group not in await self.kind.group_ids(admin):
            raise NotFoundError(f"No such group '{self.group}'.")
        committed = await self.kind.offsets(admin, self.group)
        refusal = None
        try:
            await require_empty(admin, self.group, self.kind)
        except IllegalStateError as error:
            refusal = error.message
        gone = [_gone(place, committed[place]) for place in sorted(committed)]
        name = undo_file_name(self.group, "deleted")
        command = command_line(
            f"{self.kind.noun} delete", self.group, options=["--yes"], bootstrap=self.bootstrap
        )
        back = _reset(self.kind, self.group, ["--from-file", name], self.bootstrap)
        undo, warnings = _undo(self.group, self.kind, name, gone, back)
        return Draft(
            title=f"Delete the group {self.group}",
            rows=tuple(map(_row, gone)) or (Row(item=self.group, old="there", new=None),),
            observed=_old(gone),
            warnings=(
                "Consumers of this group will begin where auto.offset.reset says.",
                *warnings,
            ),
            commands=(command,),
            typed=self.group,
            refusal=refusal,
            undo=undo,
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """To delete the group."""
        return ((Need.of_group(AclOperation.DELETE, self.group),),)

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Delete it."""
        deleted = await admin.groups.delete([self.group])
        error = deleted.errors.get(self.group)
        yield ItemResult.of(self.group, error)


def _reset(kind: GroupOffsetKind, group: str, words: list[str], bootstrap: str) -> str:
    options = [*words, "--execute"]
    return command_line(f"{kind.noun} reset", group, options=options, bootstrap=bootstrap)


def _undo(
    group: str, kind: GroupOffsetKind, file_name: str, changes: list[OffsetChange], command: str
) -> tuple[Undo, tuple[str, ...]]:
    """What brings the old offsets back, and what has to be said about it."""
    text = undo_text(changes)
    is_cut = len(text) > OFFSETS_TEXT_MAX
    if is_cut:
        text = undo_text(changes, offsets_only=True)
    kind_name = next(name for name, one in KINDS.items() if one is kind)
    request = {
        "kind": "reset-offsets",
        "group": group,
        "group_kind": kind_name,
        "to": "from_file",
        "value": text,
    }
    undo = Undo(file_name=file_name, text=text, command=command, request=request)
    return undo, (_OFFSETS_ONLY,) if is_cut else ()


def kind_of_group(name: str) -> GroupOffsetKind:
    """The kind by the name that requests have for it. Raises: ChangeRequestError."""
    found = KINDS.get(name)
    if found is None:
        raise ChangeRequestError(f"a group is of kind {' or '.join(KINDS)}, not {name!r}")
    return found
