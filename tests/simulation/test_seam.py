"""The broker reaches the machine only through its four interfaces, or simulations would lie."""

import ast
from pathlib import Path

import barnabas_broker

HOME = Path(barnabas_broker.__file__).parent
# The seam itself, and what is not started in a simulation.
OUTSIDE = ("env", "admin", "__main__.py")
# Stores of the arbiter that are asked over HTTP: simulations have theirs in memory.
OVER_HTTP = {HOME / "arbiter" / name for name in ("lease_document.py",)}
# The file of the audit log, which simulations do not ask for.
LOG_FILES = {HOME / "security" / "audit" / "audit_writer.py"}
MODULES = [
    path
    for path in sorted(HOME.rglob("*.py"))
    if path.relative_to(HOME).parts[0] not in OUTSIDE and path not in OVER_HTTP | LOG_FILES
]
BANNED_MODULES = {"os", "random", "secrets", "select", "shutil", "tempfile", "time"}
BANNED_CALLS = {"open", "to_thread", "run_in_executor", "open_connection", "start_server"}
# Of `datetime`, whose other functions only say a given time in another way.
BANNED_CALLS |= {"now", "utcnow", "today"}


def calls(tree: ast.AST) -> set[str]:
    """Names of functions, and methods of asyncio or a loop; `disk.open` is what is wanted."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.update({node.func.attr} - {"open"})
    return found


def test_nothing_goes_past_the_seam() -> None:
    """style.md section 9: no clock, file, thread or randomness but the given ones."""
    assert len(MODULES) > 100
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                imported.add(node.module.split(".")[0])
        found = (imported & BANNED_MODULES) | (calls(tree) & BANNED_CALLS)
        assert not found, path.relative_to(HOME)
