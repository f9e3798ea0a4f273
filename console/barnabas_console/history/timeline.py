"""The last changes of the cluster, the latest first (CON-123).

Not here: finding them out (`changes.py`, `setting_looks.py`, `kubernetes/event_watch.py`); our own
acts are told by who carries them out (`api/plans.py`).

Invariant: at most `CHANGES_MAX` changes are kept, numbered without a gap, so that a page can ask
for those behind the last one that it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

CHANGES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """Something that has become otherwise; `topics` and `group` are what it is about, if they are.

    `principal` is whose act it was, of those carried out by this console.

    `kind` is one of `broker`, `controller`, `leader`, `isr`, `topic`, `group`, `setting`, `act`,
    `kubernetes`; `state` one of the states of a badge.
    """

    kind: str
    subject: str
    words: str
    state: str = "working"
    topics: tuple[str, ...] = ()
    group: str | None = None
    principal: str | None = None
    #: More topics, which it is not about, but whose names its words may tell.
    told_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    number: int
    at_ms: int
    change: ClusterChange


class Timeline:
    """All that was told since the console has been running, as far as it is kept."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque(maxlen=CHANGES_MAX)
        self._next = 1

    def add(self, changes: Iterable[ClusterChange], at_ms: int) -> None:
        """Note what has changed at a moment of the wall clock."""
        for change in changes:
            self._entries.append(_Entry(self._next, at_ms, change))
            self._next += 1

    def rows(
        self,
        *,
        after: int = 0,
        kinds: Iterable[str] = (),
        topic: str | None = None,
        group: str | None = None,
        is_visible: Callable[[ClusterChange], bool] = lambda change: True,
        limit: int = CHANGES_MAX,
    ) -> list[dict[str, Any]]:
        """The changes behind number `after` that fit, the latest first."""
        wanted = frozenset(kinds)
        found: list[dict[str, Any]] = []
        for entry in reversed(self._entries):
            change = entry.change
            if entry.number <= after or len(found) >= limit:
                break
            if wanted and change.kind not in wanted:
                continue
            if topic is not None and topic not in change.topics:
                continue
            if group is not None and change.group != group:
                continue
            if is_visible(change):
                found.append(_row(entry))
        return found


def _row(entry: _Entry) -> dict[str, Any]:
    change = entry.change
    return {
        "number": entry.number,
        "at_ms": entry.at_ms,
        "kind": change.kind,
        "subject": change.subject,
        "words": change.words,
        "state": change.state,
        "topic": change.topics[0] if len(change.topics) == 1 else None,
        "group": change.group,
        "principal": change.principal,
    }
