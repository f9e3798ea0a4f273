"""The sessions of the command line's page and of the README are typed in as they stand, in order.

Behind `$ ` is a command; below it is what it prints, where `…` stands for anything, also for more
lines. A fence ```yaml NAME is a file of that name. Sessions that start with `make` are left out.

A shell runs what needs one; in `make test` the others run in this process, which is quicker.
"""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas_cli.main import main
from tests.cli.documented_sessions import ROOT, commands, matches, run_in_shell

PAGES = {"command-line": ROOT / "docs" / "command-line.md", "readme": ROOT / "README.md"}
_FENCE = re.compile(r"^```(console|yaml)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"[|<>&;$`*?~]")


def run(command: str, environment: dict[str, str], directory: Path) -> str:
    if _SHELL.search(command):
        return run_in_shell(command, environment, directory)
    program, *arguments = shlex.split(command)
    assert program == "barnabas"
    return CliRunner().invoke(main, arguments, env=environment).output


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
