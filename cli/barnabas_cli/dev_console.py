"""The console that `barnabas dev` starts beside its brokers (CON-131).

A child process at the admin port - 4, nicer than the brokers, started once they are ready. It ends
when its standard input does, so that no end of this process leaves it behind; its own end stops
nothing. Where its port is taken or there is no admin port, it is left out and that is told.

Not here: what the child does (`console.py`).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from barnabas_cli.dev_checks import HOST, WantedPort, check_ports
from barnabas_cli.failures import CommandError

DISTANCE: Final = 4
"""How far below the admin port of the first broker the console is."""
_NICENESS: Final = 5
_STOP_SECONDS: Final = 2.0


@dataclass(slots=True, kw_only=True)
class DevConsole:
    """The console of one `barnabas dev`; `port` is None where it is not wanted."""

    port: int | None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def beside(cls, admin_port: int, *, is_wanted: bool) -> DevConsole:
        """The one that goes with the admin port; says so where there can be none."""
        if not is_wanted:
            return cls(port=None)
        if admin_port <= DISTANCE:
            click.echo("No console: it is at the admin port - 4, and there is none.", err=True)
            return cls(port=None)
        port = admin_port - DISTANCE
        try:
            check_ports([WantedPort(port, "--admin-port")])
        except CommandError as error:
            click.echo(f"No console: {error.format_message()}, or give --no-console.", err=True)
            return cls(port=None)
        return cls(port=port)

    @property
    def settings(self) -> dict[str, str]:
        """What brokers are told of it."""
        return {} if self.port is None else {"console.url": f"http://{HOST}:{self.port}/"}

    def start(self, bootstrap: str, properties_file: Path | None = None) -> None:
        """Start it, if it is wanted; it says itself where it is."""
        if self.port is None:
            return
        given = [] if properties_file is None else ["--command-config", str(properties_file)]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "barnabas_cli.main", "console"),
                *("--port", str(self.port), "--nice", str(_NICENESS), "--stop-on-eof"),
                *("-b", bootstrap, *given),
            ],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the brokers
        )

    def stop(self) -> None:
        """Have it end, and wait for it a little."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
