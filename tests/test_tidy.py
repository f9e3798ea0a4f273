"""What style can be checked is a test: sizes, names, layout and the traps of this tree."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOMES = ("protocol", "client", "broker", "operator", "pipelines", "cli")
LINES_MAX = 800
FUNCTION_LINES_MAX = 70
BANNED_NAMES = {"utils", "util", "common", "helpers", "base", "manager", "misc"}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


MODULES = [path for home in HOMES for path in tracked(f"{home}/**/*.py", f"{home}/*.py")]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_modules_are_small_and_have_a_docstring(path: Path) -> None:
    """style.md section 2: cut by owner, at most 800 lines, and the first thing says what it is."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_MAX
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_functions_are_short(path: Path) -> None:
    """style.md section 2: up to 70 lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def test_module_names_are_nouns_and_not_the_standard_library_s() -> None:
    """style.md section 2: a module named like a standard one shadows it sooner or later."""
    for path in MODULES:
        stem = path.stem
        assert stem not in BANNED_NAMES, relative(path)
        if path.parent.name == "messages" or stem.startswith("__"):
            continue
        assert stem not in sys.stdlib_module_names, relative(path)


def test_operator_is_never_a_package() -> None:
    """style.md section 6: operator/__init__.py would shadow the standard library's module."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_every_test_folder_is_a_package() -> None:
    """style.md section 6: the one form that works in both of pytest's import modes."""
    for path in tracked("tests/**/*.py", "tests/*.py"):
        assert (path.parent / "__init__.py").exists(), relative(path.parent)


def test_tests_do_not_sleep() -> None:
    """A test waits for a condition, with a deadline; only the helpers that do this may sleep."""
    for path in tracked("tests/**/*.py"):
        if path.parent.name == "support" or path.name == "test_tidy.py":
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\btime\.sleep\(", text), relative(path)


def test_lock_files_carry_hashes_and_no_addresses() -> None:
    """Locks must work with any registry and refuse changed packages."""
    for path in tracked("requirements/*.txt", "tests/interop/requirements/*.txt"):
        text = path.read_text(encoding="utf-8")
        assert "--hash=sha256:" in text, relative(path)
        assert "://" not in text, relative(path)


def test_unfinished_words_do_not_land() -> None:
    """What is not finished is an issue, not a comment."""
    pattern = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    for path in MODULES:
        assert not pattern.search(path.read_text(encoding="utf-8")), relative(path)


def test_every_module_is_in_the_file_map() -> None:
    """style.md section 4: the file map of docs/architecture.md is how a reader finds the way."""
    section = ""
    mapped = set()
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            section = line[4:]
        elif match := re.match(r"\| `(\w+\.py)` \|", line):
            mapped.add(f"{section}/{match[1]}")
    modules = {
        relative(path)
        for path in MODULES
        if path.name != "__init__.py" and path.parent.name != "messages"
    }
    assert modules == mapped


def test_every_decision_has_a_number_of_its_own() -> None:
    """Two pages of one number make "decision 14" mean two things."""
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers)), sorted(n for n in numbers if numbers.count(n) > 1)
