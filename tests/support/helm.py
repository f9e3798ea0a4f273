"""Helm as a program: found on this machine, or built once into the cache.

Helm is not a Debian package; its source is a Go module, so whoever has Go can have it.
"""

import os
import shutil
from pathlib import Path

from tests.support.cache import cache_root, cached, require_commands, run
from tests.support.lab_programs import lab_program

VERSION = "v3.18.6"


def found_helm() -> Path | None:
    """Helm where it is usual to be, or where an earlier run has built it."""
    on_path = shutil.which("helm")
    if on_path is not None:
        return Path(on_path)
    built = cache_root() / f"helm-{VERSION}" / "bin" / "helm"
    return lab_program("helm") or (built if os.access(built, os.X_OK) else None)


def built_helm() -> Path:
    """Helm, built if it is nowhere; a minute or two."""
    found = found_helm()
    if found is not None:
        return found
    require_commands({"go": "golang"})

    def build(directory: Path) -> None:
        environment = {"GOBIN": str(directory / "bin"), "GOFLAGS": "-trimpath"}
        run(
            ["nice", "go", "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"],
            environment=environment,
            timeout_seconds=1800,
        )

    return cached(f"helm-{VERSION}", build) / "bin" / "helm"
