"""The pages of the reference that the site makes: nothing that the code has is missing there."""

import re

import click
import yaml

from barnabas_cli.main import main
from barnabas_protocol.errors import ErrorCode
from handbook.reference_pages import DEFINITIONS, ROOT, pages

PAGES = pages()


def commands(command: click.Command, name: str) -> list[str]:
    """The names of a command and of all below it."""
    found = [name]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            child = command.get_command(context, below)
            if child is not None and not child.hidden:
                found += commands(child, f"{name} {below}")
    return found


def test_every_command_has_a_section_with_its_options() -> None:
    page = PAGES["reference/commands.md"]
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(commands(main, "barnabas"))
    assert "| `--to-datetime WHEN` | To 2026-11-21T10:30, 1h (ago), or Unix ms. |" in page
    assert "\\f" not in page


def test_every_field_of_the_resources_is_there_with_a_text() -> None:
    page = PAGES["reference/resources.md"]
    for name in DEFINITIONS:
        definition = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text(encoding="utf-8"))
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            for field in schema["properties"][part]["properties"]:
                assert f"| `{field}` |" in page, (name, field)
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert not [row for row in rows if row.rstrip(" |").endswith(("object", "string", "integer"))]


def test_every_error_code_is_there() -> None:
    rows = re.findall(r"^\| (-?\d+) \| `(\w+)` \|", PAGES["reference/errors.md"], re.MULTILINE)
    assert {int(code): name for code, name in rows} == {
        code.value: code.name for code in ErrorCode if code != ErrorCode.NONE
    }
