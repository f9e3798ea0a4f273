"""docs/troubleshooting.md: messages are those of the programs, errors those of the protocol."""

import re
from pathlib import Path

from barnabas_protocol.errors import ErrorCode

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
_HOMES = ("broker", "cli", "client")
# Settings and words of other programs.
_NOT_OURS = {"read_committed", "failOnDataLoss", "group reset", "fenced", "kafka"}


def first_cells() -> list[str]:
    """What one sees, of every row behind the first table."""
    body = PAGE.partition("## A broker does not start")[2]
    rows = re.findall(r"^\| (.*?) \|", body, re.MULTILINE)
    return [part for row in rows for part in re.findall(r"`([^`]+)`", row)]


def test_messages_are_those_that_are_printed() -> None:
    """Who looks for what was printed finds it."""
    sources = "".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        for home in _HOMES
        for path in (ROOT / home).rglob("*.py")
    )
    cells = [
        cell
        for cell in first_cells()
        if cell not in _NOT_OURS and "=" not in cell and "." not in cell
    ]
    messages = [cell for cell in cells if cell != cell.upper() and not cell.startswith("barnabas ")]
    assert len(messages) > 10
    assert not [message for message in messages if message not in sources]


def test_errors_are_those_of_the_protocol() -> None:
    names = {cell for cell in first_cells() if re.fullmatch(r"[A-Z_]{8,}", cell)}
    assert len(names) > 8
    assert names <= {code.name for code in ErrorCode}
