"""Tests, files and commits that pages name as their evidence: they exist."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Pages that name tests by a shorter path, each with the folder below which these are.
SHORTENED = {
    "docs/client/guarantees.md": "tests/client",
    "docs/client/share-consumer.md": "tests/client/share",
}
# Pages that name a test for each of their claims.
FULL_OF_TESTS = (*SHORTENED, "docs/cluster.md")
# All but what is made from something else.
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("[bcde]*/**/*.md"))
    if path.name != "file-map.md" and not {"specification", "node_modules"} & set(path.parts)
]
# It names a commit of another repository.
STRANGERS = "docs/coming-from-strimzi.md"
NAMED = re.compile(r"`([\w./-]+\.py)::(\w+)`")
FILES = re.compile(r"(?<![\w/.-])(tests/[\w./-]+\.\w+|test_\w+\.py)\b")
# Without a letter it is a number, unless it is said to be a commit.
COMMIT = re.compile(r"`((?=\d*[a-f])[0-9a-f]{7,40})`|\bcommits? `?([0-9a-f]{7,40})\b")


def name_of(page: Path) -> str:
    """A page as it is named in this file."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    """A claim without its test is an opinion."""
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert named or name_of(page) not in FULL_OF_TESTS
    folder = ROOT / SHORTENED.get(name_of(page), ".")
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not any(test in _tests(found) for found in _places(folder, path))
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_of_tests_that_a_page_names_exists(page: Path) -> None:
    """Tests move; whoever follows a page finds them."""
    folder = ROOT / SHORTENED.get(name_of(page), ".")
    named = set(FILES.findall(page.read_text(encoding="utf-8")))
    assert not [name for name in named if not _places(folder, name)]


def test_every_commit_that_a_page_names_is_in_the_history() -> None:
    """A figure of a commit that nobody has cannot be measured again."""
    if _git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("this checkout has no history")
    history = _git("rev-list", "HEAD").split()
    named = {
        (name_of(page), found[0] or found[1])
        for page in PAGES
        if name_of(page) != STRANGERS
        for found in COMMIT.findall(page.read_text(encoding="utf-8"))
    }
    assert named
    assert not [
        (page, commit)
        for page, commit in named
        if not any(one.startswith(commit) for one in history)
    ]


def _places(folder: Path, name: str) -> list[Path]:
    """The files that a page may mean: by its path, or by a name alone."""
    if "/" not in name:
        return [path for path in _modules() if path.name == name]
    return [path for path in (folder / name, ROOT / name) if path.exists()]


@cache
def _modules() -> list[Path]:
    return list((ROOT / "tests").rglob("*.py"))


@cache
def _tests(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout
