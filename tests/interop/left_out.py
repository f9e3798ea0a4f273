"""Reads the lists of foreign tests that are not run, each with its reason.

A list is a text file of lines `name | reason`; empty lines and `#` comments are ignored. The
lists are part of the result of a run: a name that the suite does not know is an error, and so is a
test that skips itself without being listed.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "left_out"


def left_out(suite: str) -> dict[str, str]:
    """Reasons by test name."""
    reasons: dict[str, str] = {}
    for number, line in enumerate((_FOLDER / f"{suite}.txt").read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = (part.strip() for part in line.partition("|"))
        if not reason:
            raise ValueError(f"{suite}.txt:{number}: no reason for {name!r}")
        if name in reasons:
            raise ValueError(f"{suite}.txt:{number}: {name!r} is listed twice")
        reasons[name] = reason
    return reasons
