"""What style can be checked is a test: sizes, names, layout and the traps of this tree."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests import specification
from tests.support import source_tree
from tests.support.source_tree import ROOT, parsed, relative, text_of, tracked

LINES_MAX = 800
FUNCTION_LINES_MAX = 70
SMALL_LINES = 40
BANNED_NAMES = {"utils", "util", "common", "helpers", "base", "manager", "misc"}
MODULES = source_tree.product_modules()
#: Modules that stand in for parts of asyncio, whose private names they have to know.
SPEAK_TO_ASYNCIO = {"tests/attack/steps.py", "tests/support/process_loop.py"}


def test_modules_are_cut_by_owner_and_not_without_end() -> None:
    """style.md section 2: at most 800 lines."""
    lengths = {relative(path): len(text_of(path).splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length > LINES_MAX}


def test_modules_have_a_docstring() -> None:
    """style.md section 2: the first thing says what it is."""
    assert not [relative(path) for path in MODULES if not ast.get_docstring(parsed(path))]


def test_functions_are_short() -> None:
    """style.md section 2: up to 70 lines."""
    lengths = {
        f"{relative(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in MODULES
        for node in source_tree.statements_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1_000
    assert not {name: length for name, length in lengths.items() if length > FUNCTION_LINES_MAX}


def test_module_names_are_nouns_and_not_the_standard_library_s() -> None:
    """style.md section 2: a module named like a standard one shadows it sooner or later."""
    for path in MODULES:
        stem = path.stem
        assert stem not in BANNED_NAMES, relative(path)
        if path.parent.name == "messages" or stem.startswith("__"):
            continue
        assert stem not in sys.stdlib_module_names, relative(path)


def test_no_import_runs_in_a_circle() -> None:
    """style.md section 2: a cycle says that the cut is wrong, whoever reads the import."""
    assert not sorted(map(relative, source_tree.in_cycles(MODULES)))


def known(rule: str) -> list[str]:
    """What is known to break a rule."""
    exceptions = yaml.safe_load((ROOT / "tests" / "tidy_exceptions.yaml").read_text("utf-8"))
    return list(exceptions[rule] or [])


def expect_only(found: Iterable[str], rule: str) -> None:
    """What breaks a rule is exactly what `tidy_exceptions.yaml` lists, which only shrinks."""
    exceptions = set(known(rule))
    assert not sorted(set(found) - exceptions), "break the rule"
    assert not sorted(exceptions - set(found)), "keep the rule now: take them off the list"


def test_nobody_reads_private_names_of_another_module() -> None:
    """style.md section 2: a piece of state has one owner, and others ask it; so do tests."""
    read = {
        f"{relative(path)}: {name}"
        for path in source_tree.modules_by_name().values()
        if relative(path) not in SPEAK_TO_ASYNCIO
        for name in source_tree.private_reads(path)
    }
    expect_only(read, "private reads")


def test_no_test_imports_another() -> None:
    """What tests share is in `tests/support` or in a module beside them that is no test."""
    imported = {
        f"{relative(path)}: {name}"
        for path in source_tree.test_modules()
        for name in source_tree.imported_tests(path)
    }
    expect_only(imported, "imports of tests")


def test_small_modules_have_several_importers_or_a_test() -> None:
    """style.md section 2: a helper with one caller lives beside it."""
    importers = source_tree.importer_counts(MODULES)
    tests = [path for path in source_tree.test_modules() if path.name.startswith("test_")]
    tested = "\n".join(map(text_of, tests))
    small = {
        relative(path)
        for path in MODULES
        if len(text_of(path).splitlines()) < SMALL_LINES
        and importers[path] == 1
        and not re.search(rf"\b{path.stem}\b", tested)
        and path.name != "__init__.py"
        and path.parent.name != "messages"
    }
    expect_only(small, "small modules")


def test_names_of_classes_are_unique_within_a_package() -> None:
    """Whoever looks for a name finds one thing. Kafka names the parts of its messages."""
    paths = [path for path in MODULES if path.parent.name != "messages"]
    expect_only(source_tree.repeated_class_names(paths), "repeated class names")


def test_operator_is_never_a_package() -> None:
    """style.md section 6: operator/__init__.py would shadow the standard library's module."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_every_test_folder_is_a_package() -> None:
    """style.md section 6: the one form that works in both of pytest's import modes."""
    for path in source_tree.test_modules():
        assert (path.parent / "__init__.py").exists(), relative(path.parent)


def test_tests_do_not_sleep() -> None:
    """A test waits for a condition, with a deadline; only the helpers that do this may sleep."""
    for path in source_tree.test_modules():
        if path.parent.name == "support" or path.name == "test_tidy.py":
            continue
        assert not re.search(r"\btime\.sleep\(", text_of(path)), relative(path)


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
        assert not pattern.search(text_of(path)), relative(path)


def test_every_module_is_in_the_file_map() -> None:
    """style.md section 4: docs/file-map.md is how a reader finds the way."""
    section = ""
    mapped = set()
    for line in (ROOT / "docs" / "file-map.md").read_text(encoding="utf-8").splitlines():
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


def test_every_id_that_is_cited_is_defined() -> None:
    """A citation that leads nowhere tells nothing; what is no id is in `specification.FOREIGN`."""
    defined = {row.id for row in specification.definitions()}
    cited = specification.citations()
    assert not {name: sorted(cited[name]) for name in cited.keys() - defined}


def test_pages_of_the_specification_cite_only_ids_that_are_defined() -> None:
    """The pages refer to one another."""
    rows = specification.definitions()
    told = {
        name for text in specification.pages().values() for name in specification.cited_ids(text)
    }
    assert not told - {row.id for row in rows}


def test_every_id_is_defined_once_with_status_and_source() -> None:
    """Two lines of one id make every citation of it mean two things."""
    rows = specification.definitions()
    ids = [row.id for row in rows]
    assert not sorted({name for name in ids if ids.count(name) > 1})
    assert not [row.id for row in rows if not specification.STATUS.fullmatch(row.status)]
    assert not [row.id for row in rows if not row.requirement.strip() or not row.source.strip()]
    tables = [
        line
        for text in specification.pages().values()
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith("| id |")
    ]
    assert len(tables) == len(rows), "a line of a table is not a definition"


def test_the_specification_names_its_tests() -> None:
    """Links to tests and what has none are there to be believed; a command writes them."""
    for path, text in specification.derived().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{relative(path)} is out of date: run `python -m tests.specification`"
        )


def _navigated(item: object) -> set[str]:
    if isinstance(item, dict):
        return set().union(*(_navigated(value) for value in item.values()))
    if isinstance(item, list):
        return set().union(*(_navigated(value) for value in item))
    return {str(item)}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """A page that nothing leads to is not read; `make docs` refuses it, but takes longer to."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = _navigated(settings["nav"])
    pages = {str(path.relative_to(ROOT / "docs")) for path in tracked("docs/*.md")}
    assert not {page for page in pages if not {page, f"{Path(page).parent}/"} & named}


def test_the_drawing_of_modules_is_that_of_the_imports() -> None:
    """`python -m handbook.module_diagram` draws it anew."""
    script = "from handbook.module_diagram import drawing; print(drawing(), end='')"
    command = [sys.executable, "-c", script]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert drawn == (ROOT / "docs" / "images" / "modules.svg").read_text(encoding="utf-8")


def test_the_reading_path_is_as_long_as_the_readme_says() -> None:
    """README.md: twelve files in one evening. A file may grow by a tenth before its row changes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (\d+) \|", text, re.MULTILINE)
    assert len(rows) == 12
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name, _ in rows}
    assert sum(lines.values()) <= 5_000
    for name, told in rows:
        assert abs(lines[name] - int(told)) <= lines[name] // 10, f"{name} has {lines[name]} lines"
