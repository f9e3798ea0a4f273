"""The operators' page: every line of its tables names a test, and that test exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operations" / "restoring.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
LINES = [
    line
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.endswith("| test |")
]


def test_the_page_has_lines() -> None:
    """A change of its form must not leave nothing to be checked."""
    assert len(LINES) > 20


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[1].strip()[:60])
def test_each_line_names_a_test_that_exists(line: str) -> None:
    """What is promised to operators is shown by something."""
    named = _TEST.findall(line.rsplit("|", 2)[1])
    assert named, "no test is named"
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions


def test_messages_on_the_page_are_those_of_the_code() -> None:
    """An operator looks for what the broker has said."""
    sources = "".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        for path in (ROOT / "broker").rglob("*.py")
    )
    page = PAGE.read_text(encoding="utf-8").partition("## What a refusal means")[2]
    messages = re.findall(r"^\| (.*?) \|", page, re.MULTILINE)[1:]
    quoted = [part for message in messages for part in re.findall(r"`([^`]+)`", message)]
    missing = [part for part in quoted if part not in sources]
    assert not missing
