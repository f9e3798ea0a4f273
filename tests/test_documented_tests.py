"""Pages that name a test for each of their claims: the tests exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Each page with the folder below which the tests that it names are.
PAGES = {
    "docs/client/guarantees.md": "tests/client",
    "docs/client/share-consumer.md": "tests/client/share",
    "docs/cluster.md": ".",
}
NAMED = re.compile(r"`([\w./-]+\.py)::(\w+)`")


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    """A claim without its test is an opinion."""
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert named
    missing = [
        f"{path}::{name}" for path, name in named if name not in _tests(ROOT / PAGES[page] / path)
    ]
    assert not missing


def _tests(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}
