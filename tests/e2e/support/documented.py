"""Commands that a page gives, run as its reader would: in a shell, with `kubectl` and `helm`."""

import os
import re
import subprocess
from pathlib import Path

from tests.e2e.support.cluster import Cluster

REPOSITORY = Path(__file__).resolve().parents[3]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, heading: str = "") -> list[list[str]]:
    """The lines of each block for a shell, of a whole page or of what follows a heading."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    if heading:
        _, found, text = text.partition(f"\n{heading}\n")
        assert found, f"{page} has no heading {heading}"
        text = re.split(r"^#{1,6} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return [block.splitlines() for block in _BLOCK.findall(text)]


def run_line(cluster: Cluster, line: str, *, timeout_seconds: float = 360) -> str:
    """What a line prints, in the repository's folder. It fails as the line does."""
    programs = [str(Path(program).parent) for program in (cluster.kubectl.program, cluster.helm)]
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
    }
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout
