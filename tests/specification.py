"""The specification in docs/specification: its ids, who cites them and which tests each has.

A page is tables of one row an id; its last column, and two tables of the README, are derived from
the tests that cite the id. `python -m tests.specification` writes what is derived anew, and
`test_tidy.py` refuses pages that differ from it, ids that nobody defines, and definitions twice.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "specification"
README = FOLDER / "README.md"

# What looks like an id and names something else: improvement proposals, standards, encodings.
FOREIGN = frozenset(("CVE", "ISO", "KAFKA", "KEP", "KIP", "MPL", "SHA", "UTF"))
STATUS = re.compile(r"yes|(in part|not yet): .+")

_ID = re.compile(r"\b([A-Z]{2,5})-(\d+)\b(?:\s+to\s+(?:# )?\1-(\d+)\b)?")
_ROW = re.compile(r"\| ([A-Z]{2,5}-\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]*) ?\|")
_BEGIN = "<!-- begin: {} -->"
_END = "<!-- end: {} -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One row of a page: what must hold, whether Barnabas does it, and where that comes from."""

    id: str
    requirement: str
    status: str
    source: str
    page: str

    @property
    def kind(self) -> str:
        """`yes`, `in part` or `not yet`."""
        return self.status.partition(":")[0]


def cited_ids(text: str) -> Iterator[str]:
    """The ids in a text, those between the ends of a range included."""
    for match in _ID.finditer(text):
        prefix, first, last = match.groups()
        if prefix not in FOREIGN:
            for number in range(int(first), int(last or first) + 1):
                yield f"{prefix}-{number}"


def definitions_in(page: str, text: str) -> list[Definition]:
    """The rows of a page, in its order."""
    rows = (_ROW.fullmatch(line) for line in text.splitlines())
    return [
        Definition(id=row[1], requirement=row[2], status=row[3], source=row[4], page=page)
        for row in rows
        if row
    ]


def pages() -> dict[str, str]:
    """The text of each page by its name, the README left out."""
    paths = sorted(path for path in FOLDER.glob("*.md") if path != README)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def definitions() -> list[Definition]:
    """All rows of all pages; an id that is defined twice is there twice."""
    return [row for page, text in pages().items() for row in definitions_in(page, text)]


@cache
def citations() -> dict[str, set[str]]:
    """Which files cite each id, of all that git knows or would take; the pages are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    cited = dict[str, set[str]]()
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.parent == FOLDER or not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" in content:  # a picture, whose bytes may look like an id
            continue
        text = content.decode("utf-8", errors="replace")
        for found in cited_ids(text):
            cited.setdefault(found, set()).add(name)
    return cited


def tests_of(files: Iterable[str]) -> list[str]:
    """Those of some files that are tests, or what tests are made of."""
    return sorted(name for name in files if name.startswith("tests/"))


def with_tests(text: str, cited: Mapping[str, set[str]]) -> str:
    """A page with the links to tests that it should have."""
    lines = []
    for line in text.splitlines():
        if row := _ROW.fullmatch(line):
            links = ", ".join(_link(name) for name in tests_of(cited.get(row[1], ())))
            line = f"| {row[1]} | {row[2]} | {row[3]} | {row[4]} | {links or 'none'} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def with_tables(text: str, rows: Sequence[Definition], cited: Mapping[str, set[str]]) -> str:
    """The README with the tables that it should have: pages, and ids without a test."""
    untested = [
        row for row in rows if row.kind != "not yet" and not tests_of(cited.get(row.id, ()))
    ]
    overview = ["| page | ids | yes | in part | not yet | no test |", "|---|---|---|---|---|---|"]
    for page in dict.fromkeys(row.page for row in rows):
        kinds = [row.kind for row in rows if row.page == page]
        counts = (len(kinds), *(kinds.count(kind) for kind in ("yes", "in part", "not yet")))
        numbers = (*counts, sum(row.page == page for row in untested))
        overview.append(f"| [{page}]({page}) | {' | '.join(str(number) for number in numbers)} |")
    missing = ["| id | what must hold | Barnabas |", "|---|---|---|"]
    missing += [
        f"| [{row.id}]({row.page}) | {row.requirement} | {row.status} |" for row in untested
    ]
    return _replaced(_replaced(text, "pages", overview), "without a test", missing)


def derived() -> dict[Path, str]:
    """What each page and the README should say."""
    cited = citations()
    texts = {FOLDER / page: with_tests(text, cited) for page, text in pages().items()}
    readme = with_tables(README.read_text(encoding="utf-8"), definitions(), cited)
    return {**texts, README: readme}


def _link(name: str) -> str:
    return f"[{Path(name).stem}]({os.path.relpath(ROOT / name, FOLDER)})"


def _replaced(text: str, name: str, lines: Sequence[str]) -> str:
    before, begin, rest = text.partition(_BEGIN.format(name))
    _, end, after = rest.partition(_END.format(name))
    return before + "\n".join((begin, *lines, end)) + after


if __name__ == "__main__":
    for path, text in derived().items():
        path.write_text(text, encoding="utf-8")
