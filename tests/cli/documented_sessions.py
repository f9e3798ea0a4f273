"""Sessions of the documentation: what they call and what is printed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SECONDS_MAX = 60


def commands(session: str) -> Iterator[tuple[str, str]]:
    """Each command with what the page says it prints."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run_in_shell(command: str, environment: dict[str, str], directory: Path) -> str:
    programs = Path(sys.executable).parent
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, **environment, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    return result.stdout


def matches(expected: str, printed: str) -> bool:
    """Columns may be wider than on the page: their cells differ where it says `…`."""
    wanted, found = (
        "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
        for text in (expected, printed)
    )
    # A line of its own stands for any number of lines, none too.
    pattern = re.escape(wanted).replace("…\\\n", "(?:.*\n)?").replace("…", ".*")
    return re.fullmatch(pattern, found, re.DOTALL) is not None
