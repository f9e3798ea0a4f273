"""The known name that somebody who mistyped one most likely meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SIMILARITY_MIN: Final = 0.6
"""Of `difflib`; below it suggestions are guesses."""

_NAMES_SHOWN_MAX = 8


def nearest(name: str, known: Iterable[str], similarity_min: float = SIMILARITY_MIN) -> str | None:
    """The known name that is most like this one, whatever the case; None if none is alike."""
    from difflib import get_close_matches  # only wanted where something is wrong anyway

    folded = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    near = get_close_matches(name.lower(), folded, 1, similarity_min)
    return folded[near[0]] if near else None


def did_you_mean(
    name: str, known: Iterable[str], prefix: str = "", similarity_min: float = SIMILARITY_MIN
) -> str:
    """The end of an error: `; did you mean --path?`; empty where no known name is alike."""
    near = nearest(name, known, similarity_min)
    return "" if near is None else f"; did you mean {prefix}{near}?"


def unknown_name(what: str, name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Says that nothing has this name, and which name is meant, or else what to do.

    `what` is the noun: `setting`, `option`.
    """
    hint = did_you_mean(name, known) or (f"; {otherwise}" if otherwise else "")
    return f"unknown {what} {name}{hint}"


def hint(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest name, else with all names if they are few."""
    names = sorted(set(known))
    near = nearest(name, names)
    if near is not None:
        return f" Did you mean '{near}'?"
    if not names:
        return " There are none."
    if len(names) > _NAMES_SHOWN_MAX:
        return ""
    return f" There are: {', '.join(names)}."
