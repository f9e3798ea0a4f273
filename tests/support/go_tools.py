"""Go programs of the tests: built once into the cache, by a Go that is new enough for them.

So are test programs of modules that others have published.

Debian's Go is older than what today's modules ask for, and does not fetch a newer one by itself;
Go's own module of toolchains has it.
"""

import json
import re
import shutil
from pathlib import Path

from tests.support.cache import cached, digest, require_commands, run

_QUIET = {"GOFLAGS": "-modcacherw -buildvcs=false -trimpath", "CGO_ENABLED": "0"}


def go_program(folder: Path) -> Path:
    """The program of a folder with a module, whose `go.sum` pins what it needs."""
    sources = sorted(path for path in folder.iterdir() if path.is_file())

    def build(directory: Path) -> None:
        wanted = re.search(r"^go ([\d.]+)$", (folder / "go.mod").read_text(), re.MULTILINE)
        assert wanted is not None
        run(
            ["nice", _go(wanted[1]), "build", "-o", directory / folder.name, "."],
            directory=folder,
            environment=_QUIET,
            timeout_seconds=1800,
        )

    contents = [path.read_text() for path in sources]
    return cached(f"go-{folder.name}-{digest(*contents)}", build) / folder.name


def go_test_program(module: str, checksum: str, go_version: str, package: str) -> Path:
    """The tests of a package, compiled; `module` is `path@version`, as published.

    Raises: RuntimeError if the module is another than the checksum says (`h1:` as in `go.sum`).
    """
    name = package.rpartition("/")[2]

    def build(directory: Path) -> None:
        go = _go(go_version)
        printed = run([go, "mod", "download", "-json", module], directory=directory)
        found = json.loads(printed)
        if found["Sum"] != checksum:
            raise RuntimeError(f"{module}: the checksum is {found['Sum']}, expected {checksum}")
        run(
            ["nice", go, "test", "-c", "-o", directory / name, f"./{package}"],
            directory=Path(found["Dir"]),
            environment=_QUIET,
            timeout_seconds=1800,
        )

    key = digest(module, checksum, go_version, package)
    return cached(f"go-tests-{name}-{key}", build) / name


def _go(wanted: str) -> Path:
    require_commands({"go": "golang-go"})
    found = shutil.which("go")
    assert found is not None
    return Path(found) if _version(found) >= _numbers(wanted) else _toolchain(wanted)


def _toolchain(version: str) -> Path:
    module = f"golang.org/toolchain@v0.0.1-go{version}.linux-{_architecture()}"

    def download(directory: Path) -> None:
        environment = {**_QUIET, "GOMODCACHE": str(directory)}
        run(["go", "mod", "download", module], directory=directory, environment=environment)
        for part in ("bin", "pkg/tool"):
            for path in (directory / module / part).rglob("*"):
                path.chmod(0o755)

    return cached(f"go-{version}", download) / module / "bin" / "go"


def _architecture() -> str:
    return run(["go", "env", "GOARCH"]).strip()


def _version(go: str) -> tuple[int, ...]:
    found = re.search(r"go([\d.]+)", run([go, "version"]))
    return _numbers(found[1]) if found else (0,)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.strip(".").split("."))
