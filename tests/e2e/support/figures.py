"""What the tests measured: printed at the end of the run, and kept as a file.

Figures are for people to read and compare. No test fails because of one, except where the issue
names a limit.
"""

import json
from pathlib import Path


class Figures:
    """Names and what was measured, in the order in which it was."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def note(self, name: str, value: object) -> None:
        """Say it now and at the end."""
        self._lines[name] = str(value)
        print(f"{name}: {value}", flush=True)

    def lines(self) -> list[str]:
        return [f"{name}: {value}" for name, value in self._lines.items()]

    def write(self, path: Path) -> None:
        """All of them as JSON, beside those of earlier runs that were not measured again."""
        older = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**older, **self._lines}, indent=2) + "\n")
