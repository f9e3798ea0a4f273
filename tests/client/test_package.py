"""The package as a user imports it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import barnabas_client
from barnabas_client import admin, errors

LAZY = (barnabas_client, admin)


def declared(module: ModuleType) -> set[str]:
    """The names that type checkers see in a module that imports them when they are used."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {
        alias.asname or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("module", LAZY, ids=lambda module: module.__name__)
def test_every_public_name_can_be_imported(module: ModuleType) -> None:
    """PEP 562: names are looked up when they are first used, so a typo would be seen late."""
    assert declared(module) == set(dir(module))
    for name in dir(module):
        assert getattr(module, name) is not None


def test_errors_can_be_named_without_their_module() -> None:
    """`except barnabas_client.FencedError` is what a program writes: a type says what to do."""
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.BarnabasError)
    }
    assert kinds <= set(dir(barnabas_client))


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_what_a_role_exports_can_be_imported_from_the_package_too(role: str) -> None:
    """One place to import from, for type hints as well; helpers of a role stay with it."""
    module = importlib.import_module(f"barnabas_client.{role}")
    exported = {name for name in vars(module) if name[0].isupper()}
    assert exported <= set(dir(barnabas_client))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="Produzer"):
        _ = barnabas_client.Produzer


def test_importing_the_package_is_cheap() -> None:
    """Who writes a producer pays for no consumer, and a look at the version for neither."""
    program = (
        "import sys, barnabas_client;"
        "print([m for m in sys.modules if m.startswith('barnabas_client.')]);"
        "barnabas_client.TopicPartition; barnabas_client.RetriableError;"
        "print([m for m in ('asyncio', 'barnabas_client.consumer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr
