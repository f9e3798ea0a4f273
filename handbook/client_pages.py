"""A hook of MkDocs: the reference of the Python client, read from its code, and kept nowhere.

There are two pages, of what can be imported from `barnabas_client` and from
`barnabas_client.admin`: each class with its fields, methods, signatures and docstrings. What is
read is the syntax of the modules, so that nothing of ours has to be installed;
`tests/test_client_pages.py` compares it with the classes as they are imported. In a clone the same
is read with `pydoc barnabas_client.Producer`.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
CLIENT: Final = "barnabas_client"
ADMIN: Final = "barnabas_client.admin"
PAGES: Final = {CLIENT: "reference/client-api.md", ADMIN: "reference/admin-api.md"}
# What a program begins with comes first; the others follow by name.
_ROLES: Final = ("Producer", "Consumer", "ShareConsumer", "Admin")
_ERROR: Final = "BarnabasError"
_WIDTH: Final = 88
_INTRODUCTIONS: Final = {
    CLIENT: """\
# The Python client, by name

What `from barnabas_client import …` gives: signatures, and what they say of themselves. The guides:
[producer](../client/producer.md), [consumer](../client/consumer.md),
[share consumer](../client/share-consumer.md). `**settings` are [settings of clients]\
(client-configuration.md). `Admin` and its values are on [a page of their own](admin-api.md).""",
    ADMIN: """\
# The admin client, by name

`Admin` is imported from `barnabas_client`, its values from `barnabas_client.admin`. The guide:
[admin](../client/admin.md).""",
}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a name is defined, and how."""

    module: str
    node: ast.stmt


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def pages() -> dict[str, str]:
    """The names of the pages on the site, and their texts."""
    return {page: "\n".join(_page(package)) + "\n" for package, page in PAGES.items()}


def exported(package: str) -> dict[str, Definition]:
    """What may be imported from a package, the roles first and modules left out."""
    names = [
        alias.name
        for node in _type_checking(_module(package))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    if package == CLIENT:
        names = [name for name in names if name not in exported(ADMIN)]
    found = {name: definition(package, name) for name in names}
    order = sorted(found, key=lambda name: (_role_rank(name), name))
    return {name: one for name in order if (one := found[name]) is not None}


def definition(module: str, name: str) -> Definition | None:
    """Where a name that a module has is defined; None for modules, and for names of others."""
    if _path(module) is None:
        return None
    tree = _module(module)
    for node in [*tree.body, *_type_checking(tree)]:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                return Definition(module, node)
            case ast.AnnAssign(target=ast.Name(id=target)) if target == name:
                return Definition(module, node)
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                return Definition(module, node)
            case ast.ImportFrom(module=str(source), names=names) if source != module:
                if name in [alias.name for alias in names]:
                    return definition(source, name)
    return None


def members(found: Definition, public: Iterable[str]) -> dict[str, _Function]:
    """The public methods of a class, with those of bases that have no section of their own."""
    methods: dict[str, _Function] = {}
    assert isinstance(found.node, ast.ClassDef)
    for node in found.node.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_public(node.name):
                # The last one of several overloads is the one that has the text.
                methods[node.name] = node
    for base in _bases(found):
        if base.node.name not in public:  # type: ignore[attr-defined]
            methods = {**members(base, public), **methods}
    return methods


def nouns() -> dict[str, Definition]:
    """The classes behind `admin.topics` and the others, by that name."""
    admin = definition(ADMIN, "Admin")
    assert admin is not None
    found = {
        name: definition(admin.module, ast.unparse(method.returns))
        for name, method in members(admin, ()).items()
        if method.returns is not None and _decorators(method) & {"cached_property"}
    }
    return {name: one for name, one in found.items() if one is not None}


def _page(package: str) -> Iterator[str]:
    yield _INTRODUCTIONS[package]
    names = exported(package)
    errors = {name for name in names if _is_error(names[name])}
    for name, found in names.items():
        if name not in errors:
            yield from _section(name, found, names)
        if name == "Admin":
            for noun, behind in nouns().items():
                yield from _section(f"admin.{noun}", behind, names)
    if errors:
        yield ""
        yield "## Errors"
        yield ""
        yield "What to do: [errors](../client/README.md#errors-the-type-says-what-to-do)."
        yield ""
        yield "| error | is a | |"
        yield "|---|---|---|"
        for name in sorted(errors, key=lambda name: (name != _ERROR, name)):
            node = names[name].node
            assert isinstance(node, ast.ClassDef)
            base = ", ".join(f"`{ast.unparse(one)}`" for one in node.bases)
            text = " ".join(_text(node).partition("\n\n")[0].split())
            yield f"| `{name}` | {base} | {text.replace('|', chr(92) + '|')} |"


def _section(title: str, found: Definition, public: Iterable[str]) -> Iterator[str]:
    node = found.node
    yield ""
    yield f"## {title}"
    match node:
        case ast.ClassDef():
            is_noun = title.startswith("admin.")
            code = "" if is_noun else "\n".join(_class(found.module, node))
            yield from _described(node, code)
            for name, method in members(found, public).items():
                if not (title == "Admin" and name in nouns()):
                    yield ""
                    yield f"### {title}.{name}"
                    yield from _described(method, _signature(found.module, method))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _described(node, _signature(found.module, node))
        case _:
            yield from _described(node, ast.unparse(node))


def _described(node: ast.stmt, code: str) -> Iterator[str]:
    if code:
        yield ""
        yield f"```python\n{code}\n```"
    if text := _text(node):
        yield ""
        yield text


def _class(module: str, node: ast.ClassDef) -> Iterator[str]:
    """The class as far as those need it who make one: its fields, else what it is made of."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    fields = [
        ast.unparse(field)
        for field in node.body
        if isinstance(field, ast.AnnAssign | ast.Assign) and not _target(field).startswith("_")
    ]
    inits = [
        one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    if inits and not fields:
        yield _signature(module, inits[0], node.name)
        return
    if decorators := [one for one in node.decorator_list if "dataclass" in ast.unparse(one)]:
        yield f"@{ast.unparse(decorators[0])}"
    yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    yield from (f"    {field}" for field in fields or ["..."])


def _signature(module: str, function: _Function, made: str = "") -> str:
    """How it is called, without `self`; properties as they are read; a class as it is `made`."""
    kinds = _decorators(function)
    returned = "" if function.returns is None else f" -> {ast.unparse(function.returns)}"
    if kinds & {"property", "cached_property"}:
        return f"{function.name}: {returned.removeprefix(' -> ')}"
    word = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    begin, returned = (made, "") if made else (f"{word} {function.name}", returned)
    parts = _parameters(module, function)
    line = f"{begin}({', '.join(parts)}){returned}"
    if len(line) > _WIDTH:
        inner = "".join(f"\n    {part}," for part in parts)
        line = f"{begin}({inner}\n){returned}"
    marks = sorted(kinds & {"classmethod", "staticmethod"})
    return "\n".join([*(f"@{mark}" for mark in marks), line])


def _parameters(module: str, function: _Function) -> list[str]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    defaults = [*missing, *given.defaults]
    parts = [
        _parameter(module, one, default) for one, default in zip(positional, defaults, strict=True)
    ]
    if given.posonlyargs:
        parts.insert(len(given.posonlyargs), "/")
    if positional and positional[0].arg in ("self", "cls"):
        del parts[0]
    if given.vararg is not None:
        parts.append(f"*{_parameter(module, given.vararg, None)}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [
        _parameter(module, one, default)
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg is not None:
        parts.append(f"**{_parameter(module, given.kwarg, None)}")
    return parts


def _parameter(module: str, argument: ast.arg, default: ast.expr | None) -> str:
    text = argument.arg
    if argument.annotation is not None:
        text += f": {ast.unparse(argument.annotation)}"
    if isinstance(default, ast.Name):
        # A constant of the module says less than its value.
        found = definition(module, default.id)
        if found is not None and isinstance(found.node, ast.Assign | ast.AnnAssign):
            default = found.node.value
    if default is not None:
        text += f" = {ast.unparse(default)}" if argument.annotation else f"={ast.unparse(default)}"
    return text


def _is_public(name: str) -> bool:
    """Whether a method is one that programs call by its name, or an object that is called."""
    return name == "__call__" or not name.startswith("_")


def _text(node: ast.stmt) -> str:
    """The docstring as Markdown."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    text = re.sub(r"\n+(?=(Raises|Source):)", "\n\n", text)
    # Outside of code, `<` would begin a tag.
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def _is_error(found: Definition) -> bool:
    if not isinstance(found.node, ast.ClassDef):
        return False
    return found.node.name == _ERROR or any(_is_error(base) for base in _bases(found))


def _bases(found: Definition) -> list[Definition]:
    """The bases of a class that are ours."""
    assert isinstance(found.node, ast.ClassDef)
    names = [base.value if isinstance(base, ast.Subscript) else base for base in found.node.bases]
    bases = [definition(found.module, one.id) for one in names if isinstance(one, ast.Name)]
    return [one for one in bases if one is not None and isinstance(one.node, ast.ClassDef)]


def _decorators(function: _Function) -> set[str]:
    return {ast.unparse(one).rpartition(".")[2] for one in function.decorator_list}


def _target(node: ast.AnnAssign | ast.Assign) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return target.id if isinstance(target, ast.Name) else "_"


def _role_rank(name: str) -> int:
    return _ROLES.index(name) if name in _ROLES else len(_ROLES)


def _type_checking(tree: ast.Module) -> list[ast.stmt]:
    """What a module imports for type checkers."""
    return [
        inner
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    ]


@cache
def _module(name: str) -> ast.Module:
    path = _path(name)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"))


def _path(module: str) -> Path | None:
    """The file of a module of the client or the protocol."""
    for home in ("client", "protocol"):
        base = (ROOT / home).joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None
