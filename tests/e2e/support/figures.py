"""What the tests measured: printed at the end of the run, and kept in a file from the moment on.

Figures are for people to read and compare. No test fails because of one, except where the issue
names a limit.
"""

import json
from pathlib import Path


class Figures:
    """Names and what was measured, in the order in which it was."""

    def __init__(self, path: Path | None = None) -> None:
        self._lines: dict[str, str] = {}
        self._path = path

    def note(self, name: str, value: object) -> None:
        """Say it now and at the end, and keep it beside those of earlier runs."""
        self._lines[name] = str(value)
        print(f"{name}: {value}", flush=True)
        if self._path is not None:
            older = json.loads(self._path.read_text()) if self._path.exists() else {}
            self._path.write_text(json.dumps({**older, **self._lines}, indent=2) + "\n")

    def lines(self) -> list[str]:
        return [f"{name}: {value}" for name, value in self._lines.items()]
