"""Programs in the cache of the end-to-end tests' lab, where `tests/e2e/lab/build.sh` puts them."""

import os
from pathlib import Path


def lab_program(name: str) -> Path | None:
    """Where the program is, None where the lab was never built on this machine."""
    configured = os.environ.get("LAB_CACHE")
    root = Path(configured) if configured else Path.home() / ".cache" / "barnabas-lab"
    path = root / "bin" / name
    return path if os.access(path, os.X_OK) else None
