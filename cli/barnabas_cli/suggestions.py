"""What somebody who mistyped a name most likely meant."""

from __future__ import annotations

from collections.abc import Iterable

NAMES_SHOWN_MAX = 8


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever the case; None if none is alike."""
    from difflib import get_close_matches

    folded = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    near = get_close_matches(name.lower(), folded, n=1)
    return folded[near[0]] if near else None


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
