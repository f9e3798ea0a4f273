"""The modules that wheels compile, compiled: their tests, stories of clusters, and real clients.

    python -m tests.compiled [--build]    # --build only compiles

`make test` runs them as plain Python. What is compiled is kept in the cache, by the content of all
sources; a C compiler has to be there. Tests marked `interpreted` are left out: they put something
in the place of a method of a compiled class, which has no such room.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.support.cache import cached, digest, require_commands, run

ROOT = Path(__file__).resolve().parents[1]
BUILD_HOOK = ROOT / "build_hook.py"
PACKAGES = ("protocol", "client", "broker")
UNIT = ("tests/broker/log", "tests/broker/replication", "tests/protocol/records")
INTEROP = ("tests/interop/test_kill.py",)
STORIES = "30"


def compiled() -> Path:
    """The folder with the packages, built if it is missing."""
    require_commands({"gcc": "gcc"})
    sources = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    contents = [BUILD_HOOK.read_text(), sys.version, *(path.read_text() for path in sources)]
    return cached(f"compiled-{digest(*contents)}", _build)


def _build(folder: Path) -> None:
    run([sys.executable, BUILD_HOOK, folder], directory=ROOT)


def _levels(folder: Path) -> list[list[str]]:
    python = [sys.executable, "-m"]
    pytest = [*python, "pytest", "-q", "-n", str((os.cpu_count() or 1) + 1)]
    return [
        [*pytest, "-m", "not interpreted and not interop", *UNIT],
        [*pytest, "-m", "interop", *INTEROP],
        [*python, "tests.simulation.cluster"],
    ]


def main() -> int:
    """Build, then run all of it; the exit status says whether everything passed."""
    folder = compiled()
    if "--build" in sys.argv[1:]:
        return 0
    environment = {**os.environ, "PYTHONPATH": str(folder), "SIM_SEEDS": STORIES}
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "from barnabas_broker.log import partition_log as m; print(m.__file__)",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip().endswith((".so", ".pyd")), f"not compiled: {loaded.stdout}"
    call = partial(subprocess.run, cwd=ROOT, env=environment, check=False)
    return max(call(level).returncode for level in _levels(folder))


if __name__ == "__main__":
    sys.exit(main())
