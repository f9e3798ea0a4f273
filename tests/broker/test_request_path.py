"""The path of a request through the broker stays short."""

import asyncio
from pathlib import Path

from handbook.request_path import measure

# Modules of ours that a request runs through, and calls from one of them into another.
LIMITS = {
    "produce, acks=all": (24, 56),
    "fetch": (20, 46),
    "offset commit": (43, 104),
}


def test_requests_run_through_few_modules(tmp_path: Path) -> None:
    """docs/figures.md, "Path of a request": whoever makes a path longer sees it here."""
    paths = asyncio.run(measure(tmp_path))
    assert paths.keys() == LIMITS.keys()
    for name, (modules_max, moves_max) in LIMITS.items():
        path = paths[name]
        assert len(path.modules) <= modules_max, (name, sorted(path.modules))
        assert path.move_count <= moves_max, (name, path.moves)


def test_a_request_without_tls_runs_through_nothing_of_tls(tmp_path: Path) -> None:
    """SEC-115: whoever speaks plainly pays nothing for those who do not."""
    paths = asyncio.run(measure(tmp_path))
    words = ("tls", "handshakes", "half_open", "login", "principal_mapping")
    found = {
        module
        for path in paths.values()
        for module in path.modules
        if any(word in module.rpartition(".")[2] for word in words)
    }
    assert found == set()
