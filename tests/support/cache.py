"""The cache of downloads outside the tree, and the tools that must be on the machine.

What third parties wrote (jars, wheels, sources) is never kept in the repository: each piece is
built once into `${BARNABAS_CACHE:-~/.cache/barnabas}` under a name that holds a digest of all
inputs, and rebuilt when it is missing. A piece appears complete or not at all: it is built beside
its place and renamed. Nothing is skipped silently: a missing tool is installed where that is
possible, otherwise the caller fails with the name of what to install.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class MissingToolError(Exception):
    """A program that the tests need is not here and could not be installed."""


def cache_root() -> Path:
    """The folder that holds everything that was downloaded or built."""
    configured = os.environ.get("BARNABAS_CACHE")
    root = Path(configured) if configured else Path.home() / ".cache" / "barnabas"
    root.mkdir(parents=True, exist_ok=True)
    return root


def digest(*parts: str) -> str:
    """A short name for exactly these inputs."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(name: str, build: Callable[[Path], None], *, is_relocatable: bool = True) -> Path:
    """Returns the folder `name` of the cache, built by `build(folder)` when it is missing.

    A folder that knows its own path (a virtual environment) is not relocatable: it is built in
    its place and a marker beside it says that it is complete.
    """
    root = cache_root()
    final = root / name
    marker = root / f"{name}.complete"
    with _locked(root / f"{name}.lock"):
        if marker.exists() and final.is_dir():
            return final
        shutil.rmtree(final, ignore_errors=True)
        target = root / f"{name}.partial" if is_relocatable else final
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        build(target)
        if is_relocatable:
            target.rename(final)
        marker.touch()
    return final


def run(
    command: Sequence[str | Path],
    *,
    directory: Path | None = None,
    timeout_seconds: float = 900,
    environment: dict[str, str] | None = None,
) -> str:
    """Runs a command to its end and returns what it printed; raises with all of it if it fails."""
    arguments = [str(part) for part in command]
    result = subprocess.run(
        arguments,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=timeout_seconds,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    output = result.stdout.decode(errors="replace")
    if result.returncode != 0:
        shown = " ".join(arguments)[:400]
        raise RuntimeError(f"exit {result.returncode} of: {shown}\n{output[-6000:]}")
    return output


def require_commands(packages_by_command: dict[str, str]) -> None:
    """Makes sure that each command is there; installs the Debian package of a missing one."""
    missing = {c: p for c, p in packages_by_command.items() if shutil.which(c) is None}
    if missing:
        install_packages(sorted(set(missing.values())))
    still = {c: p for c, p in packages_by_command.items() if shutil.which(c) is None}
    if still:
        names = " ".join(sorted(set(still.values())))
        raise MissingToolError(f"missing {', '.join(sorted(still))}; run: apt-get install {names}")


def require_headers(packages_by_header: dict[str, str]) -> None:
    """Makes sure that each C header is there; installs the Debian package of a missing one."""

    def missing() -> list[str]:
        folders = ("/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include")
        more = tuple(str(p) for p in Path("/usr/include").glob("*-linux-gnu*"))
        return [
            package
            for header, package in packages_by_header.items()
            if not any((Path(folder) / header).exists() for folder in folders + more)
        ]

    if missing():
        install_packages(sorted(set(missing())))
    if missing():
        raise MissingToolError(f"missing headers; run: apt-get install {' '.join(missing())}")


def install_packages(packages: Sequence[str]) -> None:
    """Installs Debian packages, or fails with their names."""
    advice = f"install them first: apt-get install {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        raise MissingToolError(f"needs {' '.join(packages)} and there is no apt-get; {advice}")
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise MissingToolError(f"needs {' '.join(packages)} and root; {advice}")
        prefix = ["sudo", "-n"]
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with _locked(cache_root() / "apt.lock"):
        try:
            run([*prefix, "apt-get", "update", "-q"], environment=quiet)
            wait = ["-o", "DPkg::Lock::Timeout=600"]
            run([*prefix, "apt-get", "install", "-y", "-q", *wait, *packages], environment=quiet)
        except RuntimeError as error:
            raise MissingToolError(f"could not install {' '.join(packages)}: {error}") from error


def python_environment(name: str, requirements: Path) -> Path:
    """Returns the Python of a virtual environment of the cache that holds these requirements.

    The file pins every package with hashes; client libraries that cannot live together (two
    versions of one package) each get an environment of their own.
    """
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    key = digest(requirements.read_text(), version)

    def build(directory: Path) -> None:
        run([sys.executable, "-m", "venv", directory])
        python = directory / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "install"]
        pip += ["--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", requirements], timeout_seconds=1800)

    return cached(f"venv-{name}-{key}", build, is_relocatable=False) / "bin" / "python"
