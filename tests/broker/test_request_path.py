"""The path of a request through the broker stays short."""

import asyncio
from pathlib import Path

from handbook.request_path import measure

# Modules of ours that a request runs through, and calls from one of them into another.
LIMITS = {
    "produce, acks=all": (25, 60),
    "fetch": (20, 50),
    "offset commit": (44, 110),
}


def test_requests_run_through_few_modules(tmp_path: Path) -> None:
    """docs/figures.md, "Path of a request": whoever makes a path longer sees it here."""
    paths = asyncio.run(measure(tmp_path))
    assert paths.keys() == LIMITS.keys()
    for name, (modules_max, moves_max) in LIMITS.items():
        path = paths[name]
        assert len(path.modules) <= modules_max, (name, sorted(path.modules))
        assert path.move_count <= moves_max, (name, path.moves)
