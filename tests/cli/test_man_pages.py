"""The manual pages: one for each command, as `--help` tells it, and none for others."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from barnabas_cli.main import main
from barnabas_cli.man_pages import DEFAULT_PATH, pages, write
from tests.cli.documented_sessions import ROOT

FOLDER = ROOT / DEFAULT_PATH


def command_names(command: click.Command, name: str) -> set[str]:
    """All commands below one, by what is typed."""
    if not isinstance(command, click.Group):
        return {name}
    context = click.Context(command)
    found = {name}
    for child in command.list_commands(context):
        one = command.get_command(context, child)
        assert one is not None
        if not one.hidden:
            found |= command_names(one, f"{name} {child}")
    return found


def test_every_command_has_a_page() -> None:
    names = command_names(main, "barnabas")
    assert len(names) > 60
    assert {f"{name.replace(' ', '-')}.1" for name in names} == set(pages())


def test_the_pages_are_current() -> None:
    """Write them anew with `python -m barnabas_cli.man_pages`."""
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")}
    assert kept == pages()


def test_a_page_has_every_option_of_the_help() -> None:
    page = pages()["barnabas-group-reset.1"].replace("\\-", "-")
    told = CliRunner().invoke(main, ["group", "reset", "--help"]).output
    options = set(re.findall(r"^  .*?(--[\w-]+)", told, re.MULTILINE))
    assert {"--to-earliest", "--bootstrap-server", "--debug", "--help"} <= options
    assert not [option for option in options if option not in page]


def test_a_page_of_a_command_that_is_gone_goes(tmp_path: Path) -> None:
    (tmp_path / "barnabas-forgotten.1").write_text("")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(pages())


def test_man_takes_the_pages(tmp_path: Path) -> None:
    """No request that roff does not know."""
    if shutil.which("groff") is None:
        pytest.skip("groff is not on the PATH")
    command = ["groff", "-man", "-Tutf8", "-wmac", "-wfont", *map(str, FOLDER.glob("*.1"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    shown = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)
    assert "barnabas topic create [OPTIONS] TOPICS..." in shown
