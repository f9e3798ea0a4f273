"""Which of many resources a pass takes: those that changed and those whose time has come. Pure.

A pass takes a bounded part, and says what became of it. What is left over is first the next time,
so a long list is worked off in pieces between which others have their turn, and a change costs a
look at what has changed and not at everything.

Resources that are about the same subject, such as two for one topic, are taken together.

Invariants: whoever has been due for longest comes first, also before what was taken and not
settled; nothing here is needed to go on after a restart: everything is due then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A resource as it is now: its uid, its version, and what it is about."""

    uid: str
    version: str
    subject: str


@dataclass(slots=True)
class _Entry:
    version: str
    subject: str
    due: float
    turn: int = 0  # of those that are due for as long, who was taken last comes last


class Agenda:
    """The resources of one cluster and when each of them is to be looked at; times are seconds."""

    def __init__(self, *, items_max: int) -> None:
        """A pass takes `items_max` of them, and more only to keep a subject together."""
        self._items_max = items_max
        self._entries: dict[str, _Entry] = {}
        self._turn = 0

    def take(self, items: Collection[Item], now: float) -> frozenset[str]:
        """The uids that are to be looked at now; `items` are all that there are."""
        by_subject = self._learn(items, now)
        due = sorted(
            (entry.due, entry.turn, uid, entry.subject)
            for uid, entry in self._entries.items()
            if entry.due <= now
        )
        taken: set[str] = set()
        for _, _, _, subject in due:
            if len(taken) >= self._items_max:
                break
            taken.update(by_subject[subject])
        self._turn += 1
        for uid in taken:
            # Whatever becomes of them, others that wait have their turn before.
            self._entries[uid].due, self._entries[uid].turn = now, self._turn
        return frozenset(taken)

    def settle(self, uid: str, version: str, due: float) -> None:
        """Look at it again when it is due, or when it is another version than this."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.version, entry.due = version, due

    def restart(self, now: float) -> None:
        """Look at everything anew."""
        for entry in self._entries.values():
            entry.due = min(entry.due, now)

    @property
    def next_due(self) -> float | None:
        """When the next pass is wanted, None without resources."""
        return min((entry.due for entry in self._entries.values()), default=None)

    def _learn(self, items: Iterable[Item], now: float) -> dict[str, list[str]]:
        """Note what is new, has changed, or is gone; returns the uids by subject."""
        by_subject: dict[str, list[str]] = defaultdict(list)
        known, changed = self._entries, set()
        self._entries = {}
        for item in items:
            by_subject[item.subject].append(item.uid)
            entry = known.pop(item.uid, None)
            if entry is None:
                changed.add(item.subject)
                entry = _Entry(item.version, item.subject, now)
            elif entry.version != item.version:
                changed |= {item.subject, entry.subject}
                entry.version, entry.subject = item.version, item.subject
                entry.due = min(entry.due, now)
            self._entries[item.uid] = entry
        changed |= {entry.subject for entry in known.values()}
        for subject in changed:
            for uid in by_subject.get(subject, ()):
                self._entries[uid].due = min(self._entries[uid].due, now)
        return by_subject
