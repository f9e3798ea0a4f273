"""The sessions of the command line's page and of the README are typed in as they stand, in order.

Behind `$ ` is a command; below it is what it prints, where `…` stands for anything, also for more
lines. A fence ```yaml NAME is a file of that name. Sessions that start with `make` are left out.

A shell runs what needs one; in `make test` the others run in this process, which is quicker.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"command-line": ROOT / "docs" / "command-line.md", "readme": ROOT / "README.md"}
_FENCE = re.compile(r"^```(console|yaml)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS_MAX = 60
_SHELL = re.compile(r"[|<>&;$`*?~]")


def commands(session: str) -> Iterator[tuple[str, str]]:
    """Each command with what the page says it prints."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run_in_shell(command: str, environment: dict[str, str], directory: Path) -> str:
    programs = Path(sys.executable).parent
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, **environment, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    return result.stdout


def run(command: str, environment: dict[str, str], directory: Path) -> str:
    if _SHELL.search(command):
        return run_in_shell(command, environment, directory)
    program, *arguments = shlex.split(command)
    assert program == "barnabas"
    return CliRunner().invoke(main, arguments, env=environment).output


def matches(expected: str, printed: str) -> bool:
    """Columns may be wider than on the page: their cells differ where it says `…`."""
    wanted, found = (
        "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
        for text in (expected, printed)
    )
    # A line of its own stands for any number of lines, none too.
    pattern = re.escape(wanted).replace("…\\\n", "(?:.*\n)?").replace("…", ".*")
    return re.fullmatch(pattern, found, re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES)
def test_the_sessions_print_what_the_page_says(
    page: str,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A user copies from the page: it must work, in this order."""
    monkeypatch.chdir(tmp_path)
    environment = {"BARNABAS_BOOTSTRAP_SERVERS": bootstrap, "COLUMNS": "120"}
    is_quick = request.node.callspec.params["bootstrap"] == "barnabas"
    count = 0
    for fence in _FENCE.finditer(PAGES[page].read_text(encoding="utf-8")):
        kind, name, text = fence[1], fence[2].strip(), fence[3]
        if kind == "yaml":
            (tmp_path / name).write_text(text, encoding="utf-8")
            continue
        if text.startswith("$ make"):
            continue
        for command, expected in commands(text):
            printed = (run if is_quick else run_in_shell)(command, environment, tmp_path)
            assert matches(expected, printed), f"$ {command}\n{printed}"
            count += 1
    assert count >= 10
