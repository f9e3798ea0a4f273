"""The sessions of the command line's page and of the README are typed in as they stand, in order.

Behind `$ ` is a command; below it is what it prints, where `…` stands for anything, also for more
lines. A fence ```yaml NAME is a file of that name. Sessions that start with `make` are left out.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"command-line": ROOT / "docs" / "command-line.md", "readme": ROOT / "README.md"}
_FENCE = re.compile(r"^```(console|yaml)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS_MAX = 60


def commands(session: str) -> Iterator[tuple[str, str]]:
    """Each command with what the page says it prints."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run(command: str, bootstrap: str, directory: Path) -> str:
    programs = Path(sys.executable).parent
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "BARNABAS_BOOTSTRAP_SERVERS": bootstrap,
            "COLUMNS": "120",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    return result.stdout


def matches(expected: str, printed: str) -> bool:
    pattern = re.escape(expected.strip()).replace("…", ".*")
    stripped = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, stripped, re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES)
def test_the_sessions_print_what_the_page_says(page: str, bootstrap: str, tmp_path: Path) -> None:
    """A user copies from the page: it must work, in this order, on a broker that was just made."""
    count = 0
    for fence in _FENCE.finditer(PAGES[page].read_text(encoding="utf-8")):
        kind, name, text = fence[1], fence[2].strip(), fence[3]
        if kind == "yaml":
            (tmp_path / name).write_text(text, encoding="utf-8")
            continue
        if text.startswith("$ make"):
            continue
        for command, expected in commands(text):
            printed = run(command, bootstrap, tmp_path)
            assert matches(expected, printed), f"$ {command}\n{printed}"
            count += 1
    assert count >= 10
