"""The repository's Python modules as text and syntax trees, and what they say of one another.

Every module is read and parsed once, whoever asks. Names are those of imports: of a part's folder
what is below it, of everything else the path from the root.
"""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOMES = ("protocol", "client", "broker", "operator", "pipelines", "console", "cli", "testing")
#: Private by their spelling, public by documentation.
_DOCUMENTED = {"_asdict", "_exit", "_fields", "_getframe", "_make", "_replace"}

_DEFINITION = re.compile(
    r"\b(?:self|cls)\.(_\w+)|\b(?:def|class)\s+(_\w+)|^\s*(_\w+)\s*(?::|=[^=])", re.MULTILINE
)
_IMPORT = re.compile(r"^ *from (tests[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_TEST_NAME = re.compile(r"\.(test_\w+|conftest)$")
_PRIVATE_IMPORT = re.compile(
    r"^ *from [\w.]+ import (?:\([^)]*?|[^#(\n]*?)\b_[a-zA-Z]", re.MULTILINE
)
_REACH_THROUGH = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-zA-Z]")


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """The files that Git knows, or would add, by its patterns."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = sorted({ROOT / line for line in listed.stdout.splitlines()})
    return tuple(path for path in paths if path.exists())


@cache
def product_modules() -> tuple[Path, ...]:
    """The modules of all six parts."""
    return tracked(*(f"{home}/*.py" for home in HOMES))


@cache
def test_modules() -> tuple[Path, ...]:
    """The modules below `tests`: tests, and what they share."""
    return tracked("tests/*.py")


@cache
def text_of(path: Path) -> str:
    """What the module says."""
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(text_of(path))


@cache
def statements_of(path: Path) -> tuple[ast.stmt, ...]:
    """All statements of a module, inner ones too; their expressions are ten times as many nodes."""
    found: list[ast.stmt] = []
    left: list[ast.AST] = [parsed(path)]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            if isinstance(child, ast.stmt):
                found.append(child)
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                left.append(child)
    return tuple(found)


def relative(path: Path) -> str:
    """The path from the root, with slashes."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """What others import it as."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] in HOMES else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules_by_name() -> Mapping[str, Path]:
    """The modules of product and tests."""
    return {module_name(path): path for path in (*product_modules(), *test_modules())}


@cache
def imports_of(path: Path) -> frozenset[Path]:
    """The modules of this repository that it imports, wherever in it, for type checkers too."""
    names = modules_by_name()
    found = set[str]()
    for node in statements_of(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in names else str(node.module))
    return frozenset(names[name] for name in found if name in names) - {path}


def in_cycles(paths: Iterable[Path]) -> set[Path]:
    """The modules that import one another in a circle, and those between two circles."""
    imports = {path: imports_of(path) for path in paths}
    while leaves := [path for path, others in imports.items() if not others & imports.keys()]:
        for path in leaves:
            del imports[path]
    importers = {other for others in imports.values() for other in others}
    return {path for path in imports if path in importers}


def _is_private(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and name != "_" and not is_special and name not in _DOCUMENTED


@cache
def _private_names_of(path: Path) -> frozenset[str]:
    """The private names that a module defines: of itself, of its classes and of their objects."""
    found = (name for match in _DEFINITION.finditer(text_of(path)) for name in match.groups())
    return frozenset(name for name in found if name is not None and _is_private(name))


@cache
def _private_names() -> frozenset[str]:
    """The private names that any module defines."""
    return frozenset[str]().union(*(_private_names_of(path) for path in modules_by_name().values()))


def private_reads(path: Path) -> set[str]:
    """The private names of other modules that a module imports or takes from their objects."""
    return {
        name
        for name in _names_taken(path)
        if name in _private_names() and name not in _private_names_of(path)
    }


def _names_taken(path: Path) -> Iterator[str]:
    if _PRIVATE_IMPORT.search(text_of(path)):
        yield from _private_imports(path)
    if not _REACH_THROUGH.search(text_of(path)):
        return
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                continue
            case ast.Attribute(attr=name) if _is_private(name):
                yield name


def _private_imports(path: Path) -> Iterator[str]:
    ours = {name.partition(".")[0] for name in modules_by_name()}
    for node in statements_of(path):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ours:
            yield from (alias.name for alias in node.names if _is_private(alias.name))


def repeated_class_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Public classes of one name in several modules of a package, with these modules."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for path in paths:
        package = module_name(path).partition(".")[0]
        names = {node.name for node in parsed(path).body if isinstance(node, ast.ClassDef)}
        for name in names:
            if not name.startswith("_"):
                found[package, name].append(relative(path))
    return {f"{key[0]}.{key[1]}": sorted(paths) for key, paths in found.items() if len(paths) > 1}


def importer_counts(importers: Iterable[Path]) -> Counter[Path]:
    """How many of these modules import a module."""
    return Counter(other for path in importers for other in imports_of(path))


def imported_tests(path: Path) -> set[str]:
    """The test modules and `conftest`s that a module imports. By its text: parsing takes longer."""
    found = set[str]()
    for module, names in _IMPORT.findall(text_of(path)):
        inner = {f"{module}.{name.strip(' ()')}" for name in names.split(",")}
        found |= {name for name in {module, *inner} if _TEST_NAME.search(name)}
    return found & modules_by_name().keys()
