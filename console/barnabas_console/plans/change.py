"""`Change`: one thing to be changed, drawn up from what is, then carried out item by item.

Not here: which changes there are (`group_changes.py`, `topic_changes.py`, ...), keeping drafts
until somebody says yes (`plans.py`).

Invariants: drawing up changes nothing; what a draft shows in `rows` is what is carried out, not
what the same wish would mean by then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from barnabas_client.admin.admin import Admin
from barnabas_console.rights.needed import AnyOf


class ChangeRequestError(Exception):
    """The request for a change makes no sense; the message says what would."""


class MovedError(Exception):
    """The cluster is not any more what the draft was drawn up from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One item of the preview: what it is, what it will be, and a word on it."""

    item: str
    old: Any
    new: Any
    note: str = ""

    @property
    def is_change(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.old != self.new)

    def as_data(self) -> dict[str, Any]:
        """The row as plain data."""
        return {"item": self.item, "old": self.old, "new": self.new, "note": self.note}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What brings the old state back: a file, the command that takes it, and a request for it."""

    file_name: str
    text: str
    command: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A change as it would be carried out now.

    `observed` is what must still be the case then, as plain data. `typed` is the name that has to
    be typed before records are lost. `refusal` says why it cannot be carried out as things are, and
    `lock` which right is missing, where that is why.
    """

    title: str
    rows: tuple[Row, ...]
    observed: Any
    warnings: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    typed: str | None = None
    refusal: str | None = None
    lock: Mapping[str, Any] | None = None
    undo: Undo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """What became of one item; `error` is empty where it was done."""

    item: str
    error: str = ""

    @classmethod
    def of(cls, item: str, error: Exception | None) -> ItemResult:
        """The result of a call that gave an error, or none."""
        return cls(item=item, error="" if error is None else str(error))


class Change(Protocol):
    """A change that somebody wants."""

    async def draft(self, admin: Admin) -> Draft:
        """Look at the cluster. Raises: the client's errors; ChangeRequestError."""
        ...

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """The rights that carrying it out takes, as far as brokers tell who has them."""
        return ()

    async def check(self, admin: Admin, draft: Draft) -> None:
        """Refuse where the cluster has moved: draw up again, and compare what was looked at.

        Raises: MovedError; as `draft` does.
        """
        now = await self.draft(admin)
        if now.refusal is not None:
            raise MovedError(now.refusal)
        if now.observed != draft.observed:
            raise MovedError("the cluster has changed since the preview: look at the new one")

    def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Do it, item by item."""
        ...
