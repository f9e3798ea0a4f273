"""The plans of a console: drafts that wait for a yes, and the undo files of those carried out.

Invariants: a plan is carried out at most once, by the principal that drew it up, with the hash of
what was shown and the name typed where one is wanted, and only while the cluster is the same and as
it was (CON-120). Plans, their rows and undo files are bounded, of one holder and in all; the oldest
make room, a holder's own first, so that nobody loses his by what others do.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from barnabas_client.admin.admin import Admin
from barnabas_client.env import Clock
from barnabas_console.plans.change import (
    Change,
    ChangeRequestError,
    Draft,
    ItemResult,
    MovedError,
    Undo,
)

PLANS_MAX: Final = 200
OWN_PLANS_MAX: Final = 20
PLAN_ROWS_MAX: Final = 20_000
ROWS_MAX: Final = 200_000
PLAN_MS: Final = 10 * 60_000
UNDO_FILES_MAX: Final = 200
OWN_UNDO_FILES_MAX: Final = 20
_ID_BYTES: Final = 12


class PlanGoneError(Exception):
    """There is no such plan, or not any more."""


class WrongWordsError(Exception):
    """The hash is not that of the plan, or the name was not typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A draft that can be carried out, by whom and until when."""

    id: str
    holder: str
    change: Change
    draft: Draft
    hash: str
    change_count: int
    until_ms: int
    """By the monotonic clock."""
    cluster_id: str | None
    """That of the cluster which it was drawn up for; None where brokers have none."""

    def as_data(self, *, expires_ms: int) -> dict[str, Any]:
        """What the page shows, but for the rows."""
        draft = self.draft
        return {
            "id": self.id,
            "hash": self.hash,
            "title": draft.title,
            "change_count": self.change_count,
            "warnings": list(draft.warnings),
            "commands": list(draft.commands),
            "typed": draft.typed,
            "refusal": draft.refusal,
            "lock": draft.lock,
            "has_undo": draft.undo is not None,
            "expires_ms": expires_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFile:
    """What brings back what a plan has changed."""

    id: str
    holder: str
    title: str
    made_ms: int
    undo: Undo

    def as_data(self) -> dict[str, Any]:
        """What the page shows; the text is asked for by the id."""
        return {
            "id": self.id,
            "title": self.title,
            "made_ms": self.made_ms,
            "file_name": self.undo.file_name,
            "command": self.undo.command,
        }


class Plans:
    """All plans and undo files of one console."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plans: dict[str, Plan] = {}
        self._undo_files: list[UndoFile] = []

    async def keep(
        self, change: Change, draft: Draft, holder: str, cluster_id: str | None = None
    ) -> Plan:
        """Keep a draft until somebody says yes. Raises: ChangeRequestError for one too large."""
        if len(draft.rows) > PLAN_ROWS_MAX:
            raise ChangeRequestError(
                f"this would change {len(draft.rows):,} things at once: at most {PLAN_ROWS_MAX:,}"
            )
        # On a thread: to write out so many rows takes a tenth of a second.
        told_hash, change_count = await asyncio.to_thread(_summary, draft)
        self._make_room(holder, len(draft.rows))
        plan = Plan(
            id=secrets.token_urlsafe(_ID_BYTES),
            holder=holder,
            change=change,
            draft=draft,
            hash=told_hash,
            change_count=change_count,
            until_ms=self._clock.monotonic_ms() + PLAN_MS,
            cluster_id=cluster_id,
        )
        self._plans[plan.id] = plan
        return plan

    async def take(
        self, plan_id: str, admin: Admin, holder: str, *, told_hash: str, typed: str
    ) -> Plan:
        """The plan, to be carried out now; nobody gets it a second time.

        Raises: PlanGoneError, WrongWordsError, MovedError; the client's errors.
        """
        plan = self._plans.get(plan_id)
        if plan is None or plan.holder != holder or self._clock.monotonic_ms() >= plan.until_ms:
            raise PlanGoneError("this plan is over: make it again")
        if told_hash != plan.hash:
            raise WrongWordsError("this is not what was shown: look at the plan again")
        if plan.draft.typed is not None and typed != plan.draft.typed:
            raise WrongWordsError(f"type {plan.draft.typed} to confirm")
        if plan.draft.refusal is not None:
            raise MovedError(plan.draft.refusal)
        del self._plans[plan_id]  # before the next turn of the loop, so that one request has it
        if plan.cluster_id is not None:
            now = (await admin.cluster.describe()).cluster_id
            if now != plan.cluster_id:
                raise MovedError(f"the brokers are of another cluster now: {now}")
        await plan.change.check(admin, plan.draft)
        return plan

    async def carry_out(self, plan: Plan, admin: Admin) -> AsyncIterator[ItemResult]:
        """Do it; what brings it back is kept before anything is changed."""
        if plan.draft.undo is not None:
            own = self.undo_files(plan.holder)
            if len(own) >= OWN_UNDO_FILES_MAX:
                self._undo_files.remove(own[-1])
            elif len(self._undo_files) >= UNDO_FILES_MAX:
                del self._undo_files[0]
            self._undo_files.append(
                UndoFile(
                    id=plan.id,
                    holder=plan.holder,
                    title=plan.draft.title,
                    made_ms=self._clock.wall_ms(),
                    undo=plan.draft.undo,
                )
            )
        async for result in plan.change.carry_out(admin, plan.draft):
            yield result

    def undo_files(self, holder: str) -> list[UndoFile]:
        """Those of a holder, the newest first."""
        return [file for file in reversed(self._undo_files) if file.holder == holder]

    def undo_file(self, file_id: str, holder: str) -> UndoFile | None:
        """One of a holder's."""
        return next((file for file in self.undo_files(holder) if file.id == file_id), None)

    def _make_room(self, holder: str, row_count: int) -> None:
        """For one more plan: those that are over go, then the holder's own, then the oldest."""
        now_ms = self._clock.monotonic_ms()
        for plan_id in [one.id for one in self._plans.values() if now_ms >= one.until_ms]:
            del self._plans[plan_id]
        own = [one.id for one in self._plans.values() if one.holder == holder]
        others = [one.id for one in self._plans.values() if one.holder != holder]
        for plan_id in own[: max(0, len(own) - OWN_PLANS_MAX + 1)]:
            del self._plans[plan_id]
        rows = row_count + sum(len(one.draft.rows) for one in self._plans.values())
        for plan_id in [*own, *others]:
            if len(self._plans) < PLANS_MAX and rows <= ROWS_MAX:
                return
            gone = self._plans.pop(plan_id, None)
            rows -= 0 if gone is None else len(gone.draft.rows)


def _summary(draft: Draft) -> tuple[str, int]:
    """The hash of all that a person is shown, and how many rows are changes."""
    shown = [draft.title, draft.warnings, draft.typed, draft.refusal]
    digest = hashlib.sha256(json.dumps(shown).encode())
    for row in draft.rows:
        # One by one: a call of the encoder keeps all other threads waiting.
        digest.update(json.dumps(row.as_data(), default=str).encode() + b"\n")
    return digest.hexdigest(), sum(row.is_change for row in draft.rows)
