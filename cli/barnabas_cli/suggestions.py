"""Suggests the nearest name for one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_protocol.settings.suggestions import nearest

NAMES_SHOWN_MAX = 8


def hint(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest name, else with all names if they are few."""
    names = sorted(set(known))
    near = nearest(name, names)
    if near is not None:
        return f" Did you mean '{near}'?"
    if not names:
        return " There are none."
    if len(names) > NAMES_SHOWN_MAX:
        return ""
    return f" There are: {', '.join(names)}."
