"""docs/what-works.md says which requests are not served: exactly those."""

import re
from pathlib import Path

from barnabas_broker.handlers.table import HANDLERS
from barnabas_protocol.api import ApiKey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "what-works.md"


def numbers(cell: str) -> set[int]:
    """The keys of `38 to 41, 70`."""
    found = set[int]()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", cell):
        found.update(range(int(first), int(last or first) + 1))
    return found


def test_the_page_lists_exactly_the_requests_that_are_not_served() -> None:
    told = set[int]()
    for cell in re.findall(r"^\| ([\d, to]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        told |= numbers(cell)
    unserved = set(ApiKey) - HANDLERS.keys()
    assert told == {int(key) for key in unserved}
