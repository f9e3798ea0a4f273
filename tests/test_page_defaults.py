"""Defaults of settings that pages for users give in brackets are those of the tables."""

import re
import subprocess
from pathlib import Path

import pytest

from barnabas_broker.config.parse import BY_KEY

ROOT = Path(__file__).resolve().parent.parent
# Reports tell what was so at their time, and the reference is made from the tables.
HISTORY = ("CHANGELOG.md", "docs/decisions/", "docs/findings", "docs/trials", "docs/reference/")
UNITS = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "seconds": 1000,
    "min": 60_000,
    "minutes": 60_000,
    "hours": 3_600_000,
    "days": 86_400_000,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
# What a whole number counts, by the end of a key; milliseconds and bytes are counted by one.
COUNTED = {".minutes": 60_000, ".seconds": 1000, ".hours": 3_600_000}
GIVEN = (
    re.compile(r"`([a-z][\w.]+)` \(([\d.,]+) ?([A-Za-z]*)\)"),
    re.compile(r"`([a-z][\w.]+)`, ([\d.,]+) (\w+)"),
    re.compile(r"^\| `([a-z][\w.]+)` \| (\d+)()\b(?=[ ;|])", re.MULTILINE),
)


def pages() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if not name.startswith(HISTORY)]


def defaults_in(text: str) -> list[tuple[str, float]]:
    """The key and the value, in what the setting counts, of each default that a text gives."""
    found = []
    for key, number, unit in (match for given in GIVEN for match in given.findall(text)):
        if key in BY_KEY and unit in UNITS:
            counted = next((one for end, one in COUNTED.items() if key.endswith(end)), 1)
            found.append((key, float(number.replace(",", "")) * UNITS[unit] / counted))
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_defaults_that_a_page_gives_are_those_of_the_settings(page: Path) -> None:
    """Who plans by a page gets what the broker does."""
    given = defaults_in(page.read_text(encoding="utf-8"))
    assert not [
        (key, value) for key, value in given if value != float(BY_KEY[key].default or "nan")
    ]


def test_the_check_sees_something() -> None:
    text = "`broker.session.timeout.ms` (6 s), `offsets.retention.minutes` (7 days), `xy` (1)"
    assert defaults_in(text) == [
        ("broker.session.timeout.ms", 6000),
        ("offsets.retention.minutes", 10080),
    ]
    all_given = [one for page in pages() for one in defaults_in(page.read_text(encoding="utf-8"))]
    assert len(all_given) > 10
