"""The reference of the Python client: the classes as they are imported are there, all of them."""

import ast
import importlib
import inspect
import re
from functools import cached_property
from typing import Any

import pytest

import barnabas_client
from barnabas_client import Admin, admin
from barnabas_client.errors import BarnabasError
from handbook.client_pages import ADMIN, CLIENT, PAGES, exported, nouns, pages

TEXTS = pages()
PAGE = {package: TEXTS[name] for package, name in PAGES.items()}
OWN_CALLS = ("__call__",)


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.*)$", text, re.MULTILINE)


def public_members(kind: type) -> dict[str, Any]:
    """What a class of ours has to call or to read, by name; not its fields, not its bases'."""
    found = {}
    for name in dir(kind):
        definer = next((one for one in kind.__mro__ if name in vars(one)), None)
        if definer is None or not definer.__module__.startswith("barnabas_"):
            continue
        if definer is not kind and definer.__name__ in dir(barnabas_client) + dir(admin):
            continue
        value = inspect.getattr_static(kind, name)
        is_method = isinstance(value, property | cached_property | classmethod | staticmethod)
        if (is_method or inspect.isfunction(value)) and (name[0] != "_" or name in OWN_CALLS):
            found[name] = value
    return found


def names_of(given: ast.arguments) -> list[str]:
    positional = [*given.posonlyargs, *given.args]
    starred = [one for one in (given.vararg,) if one is not None]
    others = [one for one in (given.kwarg,) if one is not None]
    return [one.arg for one in (*positional, *starred, *given.kwonlyargs, *others)]


def sections() -> list[Any]:
    """A title, a class and the page that it is on."""
    found = [
        pytest.param(name, getattr(importlib.import_module(package), name), PAGE[package], id=name)
        for package in PAGES
        for name in exported(package)
    ]
    for noun, behind in nouns().items():
        kind = getattr(importlib.import_module(behind.module), behind.node.name)  # type: ignore[attr-defined]
        found.append(pytest.param(f"admin.{noun}", kind, PAGE[ADMIN], id=noun))
    return found


def test_every_public_name_is_on_one_of_the_pages() -> None:
    """Errors are rows of a table."""
    named = [name for package in PAGES for name in headings(PAGE[package], 2)]
    named += re.findall(r"^\| `(\w+)` \|", PAGE[CLIENT], re.MULTILINE)
    wanted = {*dir(barnabas_client), *dir(admin), *(f"admin.{noun}" for noun in nouns())}
    assert sorted({*named} - {"Errors"}) == sorted(wanted - {"errors"})
    assert len(named) == len(set(named))


@pytest.mark.parametrize(("title", "kind", "page"), sections())
def test_a_section_has_every_method_of_its_class(title: str, kind: Any, page: str) -> None:
    if not isinstance(kind, type) or issubclass(kind, BarnabasError):
        return
    named = {
        heading.removeprefix(f"{title}.")
        for heading in headings(page, 3)
        if heading.startswith(f"{title}.")
    }
    left_out = set(nouns()) if kind is Admin else set()
    assert named == set(public_members(kind)) - left_out


@pytest.mark.parametrize(("title", "kind", "page"), sections())
def test_a_method_has_the_parameters_that_it_takes(title: str, kind: Any, page: str) -> None:
    """In their order."""
    if not isinstance(kind, type) or issubclass(kind, BarnabasError):
        return
    for name, value in public_members(kind).items():
        if isinstance(value, property | cached_property) or (kind is Admin and name in nouns()):
            continue
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        wanted = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name not in ("self", "cls")
        ]
        code = page.split(f"\n### {title}.{name}\n", 1)[1].split("```")[1]
        (made,) = ast.parse(f"{code.removeprefix('python').strip()}: ...").body
        assert isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef)
        assert names_of(made.args) == wanted, (title, name)
