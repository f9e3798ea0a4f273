"""Helm as a program: found on this machine, or built once into the cache.

Helm is not a Debian package; its source is a Go module, so whoever has Go can have it.
"""

import os
import shutil
from pathlib import Path

from tests.support.cache import cached, require_commands, run

VERSION = "v3.18.6"
# Where the laboratory of the end-to-end tests keeps its programs.
LAB_BINARIES = Path.home() / ".cache" / "barnabas-lab" / "bin"


def found_helm() -> Path | None:
    """Helm where it is usual to be, or where an earlier run has built it."""
    on_path = shutil.which("helm")
    candidates = [Path(on_path)] if on_path else []
    candidates += [LAB_BINARIES / "helm", _cache_folder() / "bin" / "helm"]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


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


def _cache_folder() -> Path:
    from tests.support.cache import cache_root

    return cache_root() / f"helm-{VERSION}"
