"""The tutorials are typed in as they stand, each in an empty folder.

A fence with a file's name is that file. What is behind `$ ` in ```console is run and prints what
follows. With `terminal=NAME` it is a program that goes on: it is started, and shows what follows
sooner or later; ```text terminal=NAME is what it shows then, behind `^C` after a Ctrl-C.
"""

import re
import shlex
import signal
from pathlib import Path

import pytest

from tests.cli.documented_sessions import ROOT, commands, matches, run_in_shell
from tests.support.barnabas_process import barnabas_command
from tests.support.processes import ManagedProcess, free_ports
from tests.support.waiting import wait_until

FOLDER = ROOT / "docs" / "tutorials"
# Three brokers, one of which is killed and comes back, take longer than the others.
SLOW = "lost-broker"
PAGES = [
    pytest.param(path.stem, marks=[pytest.mark.interop] if path.stem == SLOW else [])
    for path in sorted(FOLDER.glob("*.md"))
    if path.name != "README.md"
]
BROKERS_MAX = 3
SECONDS_MAX = 60
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TERMINAL = "terminal="


class Terminals:
    """The programs of a tutorial that go on while others are run."""

    def __init__(self, directory: Path, port: int, admin_port: int) -> None:
        self._directory = directory
        self._ports = ["--port", str(port), "--admin-port", str(admin_port), "--no-console"]
        self._running: dict[str, ManagedProcess] = {}
        self._interrupted: set[str] = set()

    def start(self, name: str, command: str) -> None:
        program, *arguments = shlex.split(command)
        path = barnabas_command().with_name(program)
        if arguments[0] == "dev":
            arguments += self._ports
        # A test run in the background ignores Ctrl-C, and so would its children.
        behind = ["env", f"--chdir={self._directory}", "--default-signal=INT"]
        log = self._directory.with_name(f"{name}.log")
        self._running[name] = ManagedProcess([*behind, str(path), *arguments], log, {})

    def shows(self, name: str, expected: str) -> None:
        """Wait for it; `^C` in its first line is typed."""
        process = self._running[name]
        if expected.startswith("^C\n"):
            self._interrupt(name)
            expected = expected.removeprefix("^C\n")

        # More may follow, where the page says so and elsewhere.
        expected = expected.strip().removesuffix("\n…")

        def shown() -> str:
            return process.log_tail(1 << 20)

        wait_until(lambda: matches(f"…\n{expected}…", shown()), SECONDS_MAX, shown)

    def close(self) -> list[int]:
        """Ctrl-C in all that go on; the exit codes of all."""
        for name in self._running.keys() - self._interrupted:
            self._interrupt(name)
        return [process.wait() for process in self._running.values()]

    def _interrupt(self, name: str) -> None:
        """Ctrl-C, once: a second one might reach a program that is just ending."""
        self._interrupted.add(name)
        self._running[name].process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_prints_what_it_says(page: str, tmp_path: Path) -> None:
    """A newcomer types it in: every command works, in this order, and all end cleanly."""
    directory = tmp_path / "tutorial"
    directory.mkdir()
    port = free_ports(BROKERS_MAX)
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    for number in range(BROKERS_MAX):
        text = text.replace(str(9092 + number), str(port + number))
    terminals = Terminals(directory, port, free_ports(BROKERS_MAX))
    servers = ",".join(found for found in dict.fromkeys(re.findall(r"127\.0\.0\.1:\d+", text)))
    environment = {"BARNABAS_BOOTSTRAP_SERVERS": servers, "COLUMNS": "120"}
    count = 0
    try:
        for kind, note, block in _FENCE.findall(text):
            note = note.strip()
            terminal = note.removeprefix(_TERMINAL) if note.startswith(_TERMINAL) else ""
            if note and not terminal:
                (directory / note).write_text(block, encoding="utf-8")
            elif kind == "text":
                terminals.shows(terminal, block)
            for command, expected in commands(block) if kind == "console" else ():
                if terminal:
                    terminals.start(terminal, command)
                    terminals.shows(terminal, expected)
                else:
                    printed = run_in_shell(command, environment, directory)
                    assert matches(expected, printed), f"$ {command}\n{printed}"
                count += 1
    finally:
        codes = terminals.close()
    assert set(codes) == {0}
    assert count >= 8
